"""``python -m tests.support.grafana``: writes the dashboards into deploy/grafana/dashboards."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from tests.support.grafana.events import events
from tests.support.grafana.executions import executions
from tests.support.grafana.models import models
from tests.support.grafana.overview import overview
from tests.support.grafana.platform import platform
from tests.support.grafana.workers import workers

FOLDER = Path(__file__).parents[3] / "deploy" / "grafana" / "dashboards"
BOARDS: Mapping[str, Callable[[], str]] = {
    "overview.json": overview,
    "executions.json": executions,
    "events.json": events,
    "workers.json": workers,
    "models.json": models,
    "platform.json": platform,
}


def main() -> None:
    """Write all files."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    for name, board in BOARDS.items():
        (FOLDER / name).write_text(board())


if __name__ == "__main__":
    main()

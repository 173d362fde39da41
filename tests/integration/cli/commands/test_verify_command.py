"""``functory verify`` as a user types it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from functory.cli.main import main
from tests.support.world import World, on_sqlite

pytest_plugins = ["tests.support.world"]


@on_sqlite
@pytest.mark.parametrize(("patience", "status"), [("0", 7), ("10m", 0)])
def test_without_patience_all_open_work_counts(
    world: World,
    patience: str,
    status: int,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("FUNCTORY_DATABASE_URL", world.url)
    monkeypatch.setenv("FUNCTORY_BROKER_URL", "none://")
    monkeypatch.setenv("FUNCTORY_HOME", str(world.home))
    world.events.emit("order.placed", {})
    assert (main(["verify", "--only", "I1", "--patience", patience, "--json"]) or 0) == status
    assert json.loads(capsys.readouterr().out)["holds"] is (status == 0)

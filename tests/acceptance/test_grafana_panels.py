"""Every panel of the dashboards shows something on a Prometheus that scraped a deployment with faults in it."""

from __future__ import annotations

import contextlib
import json
import math
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.services.missing_servers import require
from tests.services.prometheus import Prometheus
from tests.support.deployment_with_faults import deployment_with_faults
from tests.support.grafana import pictures
from tests.support.grafana.__main__ import FOLDER
from tests.support.waiting import wait_for

# Expressions without data here, by the panel that they are in, with the reason.
EMPTY = {
    ("platform", "Deleted rows"): "retention deletes nothing that is younger than a day",
    ("platform", "Errors by route"): "the server answers with 5xx only while its database is away",
    ("platform", "Answers with 5xx"): "as above",
    ("platform", "Stalled services"): "a service makes no progress for minutes only by a defect",
    ("models", "Expired questions"): "a question waits for days",
}


def expressions() -> Iterator[tuple[tuple[str, str], str]]:
    """Each expression of each panel, as Grafana would send it."""
    for file in sorted(FOLDER.glob("*.json")):
        board = json.loads(file.read_text())
        for panel in board["panels"]:
            for target in panel.get("targets", ()):
                yield (file.stem, panel["title"]), filled(target["expr"])
        for annotation in board["annotations"]["list"]:
            yield (file.stem, annotation["name"]), filled(annotation["expr"])


def number_of_panels() -> dict[str, int]:
    boards = {file.stem: json.loads(file.read_text()) for file in FOLDER.glob("*.json")}
    return {
        name: len([panel for panel in board["panels"] if panel["type"] != "row"])
        for name, board in boards.items()
    }


def filled(text: str) -> str:
    """An expression with the values of the variables, and without the zero that it shows where there is no series."""
    for name, value in pictures.VALUES.items():
        text = text.replace(name, value)
    assert "$" not in text, text
    return text.removesuffix(" or vector(0)")


def has_data(prometheus: Prometheus, expression: str) -> bool:
    return any(math.isfinite(float(row["value"][1])) for row in prometheus.query(expression))


@pytest.mark.timeout(180)
def test_every_panel_shows_something(tmp_path: Path, postgres_url: str, redis_url: str) -> None:
    programs = require("prometheus").programs
    with (
        deployment_with_faults(tmp_path, postgres_url, redis_url) as deployment,
        Prometheus(programs, {"functory": deployment.targets}, rules=pictures.RULES) as prometheus,
    ):
        began = time.time()
        deployment.work()
        deployment.kill_a_worker()
        prometheus.wait_for_scrapes()
        deployment.kill_the_fork_servers()
        deployment.work()
        prometheus.wait_for_scrapes()
        left = list(expressions())
        assert EMPTY.keys() <= {panel for panel, _ in left}

        def without_data() -> list[str]:
            left[:] = [(panel, text) for panel, text in left if not has_data(prometheus, text)]
            return [f"{panel}: {text}" for panel, text in left if panel not in EMPTY]

        # The state gauges are read every 15 seconds.
        with contextlib.suppress(AssertionError):
            wait_for(lambda: not without_data(), seconds=30)
        missing = without_data()
        assert not missing, "\n".join(missing)

        drawn = pictures.pages(pictures.Scraped(prometheus, time.time() - began))
        assert {name: text.count("<section") for name, text in drawn.items()} == number_of_panels()

        def is_told(name: str, words: str) -> bool:
            return any(text.startswith(f"{name}: ") and words in text for text in prometheus.alerts())

        wait_for(lambda: is_told("FunctoryExecutionsLost", "executions of functory lost their worker"))
        wait_for(lambda: is_told("FunctoryTriggerFailures", "matches of unable started nothing"))
        wait_for(lambda: is_told("FunctoryRunsLoop", "runs of clerk were stopped"))
        assert not [text for text in prometheus.alerts() if "error expanding" in text]

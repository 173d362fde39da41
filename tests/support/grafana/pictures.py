"""Draws the dashboards with the data of a Prometheus: ``python -m tests.support.grafana.pictures [FOLDER]``.

It starts a deployment with faults and a Prometheus beside it, lets them work for a minute, and writes a picture of each
dashboard into the documentation; or into the folder, with the whole page as HTML. Grafana draws the same numbers in its
own way.
"""

from __future__ import annotations

import contextlib
import json
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from playwright.sync_api import Browser, ViewportSize, sync_playwright

from tests.services import installation
from tests.services.installation import Found
from tests.services.postgres import Postgres
from tests.services.prometheus import Prometheus
from tests.services.redis import Redis
from tests.support.dashboard import launch
from tests.support.dashboard_pictures import FOLDER as DOCS
from tests.support.dashboard_pictures import save
from tests.support.deployment_with_faults import deployment_with_faults
from tests.support.grafana.__main__ import FOLDER
from tests.support.grafana.page import Series, page, size

RULES = FOLDER.parents[1] / "prometheus" / "functory-alerts.yaml"
# What Grafana puts into the place of its variables. Everything that happens in a test is within the window.
VALUES: Mapping[str, str] = {
    "$job": "functory",
    "$function": ".*",
    "$__rate_interval": "2m",
    "$__range": "2m",
}
# Points of a line.
POINTS = 120
# How often the deployment does everything.
ROUNDS = 8
# A picture shows what is above: a longer one would be larger than the documentation wants.
MOST_PIXELS = 1300
# Lines and small characters stay sharp, and a picture has half of the size.
QUALITY = 60


class Scraped:
    """The data of a Prometheus over the last ``seconds``."""

    def __init__(self, prometheus: Prometheus, seconds: float, values: Mapping[str, str] = VALUES) -> None:
        self._prometheus = prometheus
        self._values = values
        end = time.time()
        self.span = (end - seconds, end)

    def now(self, expression: str) -> Sequence[Series]:
        """Each series with its newest value alone."""
        found = self._prometheus.query(self._filled(expression))
        return [Series(row["metric"], [(float(row["value"][0]), float(row["value"][1]))]) for row in found]

    def over_time(self, expression: str) -> Sequence[Series]:
        """Each series over the time range."""
        begin, end = self.span
        step = max(1.0, (end - begin) / POINTS)
        found = self._prometheus.query_range(self._filled(expression), begin, end, step)
        return [
            Series(row["metric"], [(float(at), float(value)) for at, value in row["values"]]) for row in found
        ]

    def _filled(self, expression: str) -> str:
        for name, value in self._values.items():
            expression = expression.replace(name, value)
        return expression


def pages(data: Scraped) -> dict[str, str]:
    """The page of each dashboard as HTML, by the name of its file."""
    return {name: page(board, data, data.span) for name, board in _boards().items()}


def draw(found: Mapping[str, str], browser: Browser, folder: Path) -> None:
    """Write a picture of the upper part of each page."""
    for name, html in found.items():
        width, height = size(_boards()[name])
        viewport: ViewportSize = {"width": width, "height": min(height, MOST_PIXELS)}
        shown = browser.new_page(viewport=viewport)
        shown.set_content(html)
        save(shown, folder / f"grafana-{name}.webp", QUALITY)
        shown.close()


def main() -> None:
    """Run a deployment for a minute, and draw what its Prometheus has."""
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else DOCS
    folder.mkdir(parents=True, exist_ok=True)
    with contextlib.ExitStack() as stack:
        place = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        postgres = stack.enter_context(Postgres(_programs("postgres")))
        redis = stack.enter_context(Redis(_programs("redis")))
        database = stack.enter_context(postgres.database())
        deployment = stack.enter_context(deployment_with_faults(place, database, redis.empty_database()))
        scraped = {"functory": deployment.targets}
        prometheus = stack.enter_context(Prometheus(_programs("prometheus"), scraped, rules=RULES))
        prometheus.wait_for_scrapes()
        began = time.time()
        for number in range(ROUNDS):
            deployment.work()
            if number == 2:
                deployment.kill_a_worker()
            if number == 4:
                deployment.kill_the_fork_servers()
        prometheus.wait_for_scrapes()
        found = pages(Scraped(prometheus, time.time() - began))
        if folder != DOCS:
            for name, html in found.items():
                (folder / f"grafana-{name}.html").write_text(html)
        playwright = stack.enter_context(sync_playwright())
        draw(found, stack.enter_context(launch(playwright, _programs("chromium")["chromium"])), folder)


def _boards() -> dict[str, dict[str, object]]:
    return {file.stem: json.loads(file.read_text()) for file in sorted(FOLDER.glob("*.json"))}


def _programs(name: str) -> Mapping[str, Path]:
    found = installation.find(name)
    if not isinstance(found, Found):
        sys.exit(f"error: there is no {name}: {found.why}")
    return found.programs


if __name__ == "__main__":
    main()

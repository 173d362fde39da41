"""Lists over a server cost the same number of requests, whatever the number of their rows."""

from __future__ import annotations

import pytest

from functory.engine.telemetry import server_metrics
from tests.support.cli_shell import Shell

# Commands that list rows, with the requests of each: webhooks are shown with the secrets that they lack, and watches
# are of two kinds.
LISTS = {
    "trigger list": 1, "trigger list --json": 1, "function list": 1, "function list --json": 1, "source list": 1,
    "source list --json": 1, "source list --kind webhook": 1, "schedule list": 1, "schedule list --json": 1,
    "webhook list": 2, "webhook list --json": 1, "watch list": 2, "watch list --json": 1, "event list": 1,
    "event list --json": 1, "execution list": 1, "execution list --json": 1, "secret list": 1, "secret list --json": 1,
    "token list": 1, "user list": 1, "login list": 1, "trigger suppressed": 1,
}  # fmt: skip


@pytest.mark.usefixtures("history")
@pytest.mark.parametrize(("line", "lists"), LISTS.items())
def test_a_list_costs_the_same_requests_whatever_the_number_of_its_rows(
    line: str, lists: int, shells: tuple[Shell, Shell]
) -> None:
    before = _requests()
    shells[1].run(*line.split())
    asked = {route: n - before.get(route, 0) for route, n in _requests().items() if n > before.get(route, 0)}
    assert sum(asked.values()) == lists, asked


def _requests() -> dict[str, float]:
    """The number of requests that the server has answered, by route."""
    found: dict[str, float] = {}
    for metric in server_metrics.http_requests.collect():
        for sample in metric.samples:
            if sample.name.endswith("_total"):
                route = sample.labels["route"]
                found[route] = found.get(route, 0) + sample.value
    return found

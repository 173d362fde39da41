"""What may be sent at once, and what must go through the backlog."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from functory.engine.executions.direct_dispatch import fits

NOW = datetime(2030, 1, 1, tzinfo=UTC)


def row(**changed: Any) -> dict[str, Any]:
    """A new execution that may be sent at once, but for what is ``changed``."""
    usual = {"run_at": NOW, "priority": 0, "expires_at": None, "throttle": None, "has_concurrency": False}
    return usual | changed


@pytest.mark.parametrize(("count", "places", "wanted"), [(0, 0, True), (1, 1, True), (2, 1, False)])
def test_all_or_none_are_sent(count: int, places: int, wanted: bool) -> None:
    assert fits([row()] * count, places, NOW) is wanted


@pytest.mark.parametrize(
    "changed",
    [
        {"run_at": NOW + timedelta(seconds=1)},
        {"priority": 1},
        {"priority": -1},
        {"expires_at": NOW + timedelta(hours=1)},
        {"throttle": {"limit": 1}},
        {"has_concurrency": True},
    ],
    ids=lambda changed: next(iter(changed)),
)
def test_one_that_has_to_wait_takes_its_batch_with_it(changed: dict[str, Any]) -> None:
    assert not fits([row(), row(**changed)], 10, NOW)

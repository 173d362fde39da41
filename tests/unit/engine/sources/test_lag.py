"""How far behind a source is."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from functory.engine.sources.lag import lag_seconds

NOW = datetime(2026, 1, 1, tzinfo=UTC)
AGO, AHEAD = NOW - timedelta(seconds=90), NOW + timedelta(seconds=90)
QUEUE = {"state": "enabled", "looked_at": AGO, "lease_until": AHEAD}
SCHEDULE = QUEUE | {"looked_at": None, "lease_until": None, "next_at": AGO}


@pytest.mark.parametrize(
    ("row", "lag"),
    [
        (SCHEDULE, 90.0),
        (SCHEDULE | {"next_at": AHEAD}, 0.0),
        (SCHEDULE | {"next_at": None}, None),
        (SCHEDULE | {"state": "paused"}, None),
        (QUEUE, 0.0),
        (QUEUE | {"lease_until": AGO}, 90.0),
        (QUEUE | {"lease_until": None}, 90.0),
        (QUEUE | {"lease_until": None, "state": "paused"}, None),
        # A webhook, and what no process has looked at yet.
        (QUEUE | {"looked_at": None, "lease_until": None}, None),
    ],
)
def test_a_source_is_behind_since_its_oldest_time_or_the_last_look(
    row: dict[str, Any], lag: float | None
) -> None:
    assert lag_seconds(row, NOW) == lag

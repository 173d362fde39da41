"""The usual rate of a trigger: how often it fires in a minute of the last day, as its firings show."""

from __future__ import annotations

import statistics
from datetime import timedelta

import sqlalchemy as sa

from functory.engine.database.schema import Id, firing
from functory.engine.database.transaction import Tx
from functory.engine.events.store import lowest_id_since

# One minute of each hour is counted: enough for a median, and a few thousand rows for a busy trigger.
SAMPLES = 24
_SPACING = timedelta(hours=1)
_MINUTE = timedelta(minutes=1)


def _count(number: int) -> sa.ScalarSelect[int]:
    first, end = (sa.bindparam(f"{name}{number}", type_=Id) for name in ("first", "end"))
    return (
        sa.select(sa.func.count())
        .select_from(firing)
        .where(
            firing.c.trigger_id == sa.bindparam("trigger", type_=Id),
            # Ids of events grow with time: these are a range of the primary key.
            firing.c.event_id >= first,
            firing.c.event_id < end,
            sa.text("firing.decision = 'fired'"),
        )
        .scalar_subquery()
    )


_COUNTS = sa.select(*(_count(number).label(f"minute{number}") for number in range(SAMPLES)))


def median_per_minute(tx: Tx, trigger_id: str) -> int:
    """Return the median of a trigger's firings a minute in the last 24 hours, minutes without a firing included."""
    values: dict[str, str] = {"trigger": trigger_id}
    for number in range(SAMPLES):
        end = tx.now - number * _SPACING
        values |= {f"first{number}": lowest_id_since(end - _MINUTE), f"end{number}": lowest_id_since(end)}
    counts = tx.execute(_COUNTS, values).one()
    return int(statistics.median(counts))

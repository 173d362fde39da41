"""Backfill: the times of a past range become events, except those that have one already.

It writes ticks as the ticker does, with the origin ``backfill``. The key of a tick makes a time unique, so a backfill
and a ticker that catches up may meet.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from functory.engine.database.connection import Database
from functory.engine.errors import Invalid
from functory.engine.flow_control.controls import OverlapPolicy
from functory.engine.sources import schedules
from functory.engine.telemetry import metrics
from functory.triggers.sources.schedules.calendar import MICROSECOND
from functory.triggers.sources.schedules.config import ScheduleConfig
from functory.triggers.sources.schedules.plugin import make_tick

# Ticks of one backfill: the number of buffered starts that Temporal allows.
MAX_TICKS = 1000

# By default a backfill runs every time: ``skip`` would run only the first of many at once.
DEFAULT_OVERLAP: OverlapPolicy = "buffer_all"


@dataclass(frozen=True)
class Backfill:
    """The times of a range that had a tick (``existing``) and those that had none (``new``), with their ``events``."""

    existing: list[datetime]
    new: list[datetime]
    events: dict[datetime, str]


def times_between(config: ScheduleConfig, first: datetime, last: datetime, now: datetime) -> list[datetime]:
    """The schedule's times from ``first`` to ``last``, both included.

    Raises :class:`Invalid` for a range that holds more than :data:`MAX_TICKS` times or reaches beyond ``now``: times to
    come get their ticks anyway.
    """
    if first > last:
        raise Invalid(
            "wrong range", f"the range begins at {first.isoformat()} and ends at {last.isoformat()}"
        )
    if last > now:
        raise Invalid(
            "the range reaches into the future",
            f"now is {config.calendar.local(now).isoformat(timespec='seconds')} in {config.timezone}; "
            "times to come are fired when they have come",
            "end the range earlier",
        )
    from_first = itertools.islice(config.calendar.times(first - MICROSECOND), MAX_TICKS + 1)
    times = list(itertools.takewhile(lambda time: time <= last, from_first))
    if len(times) > MAX_TICKS:
        raise Invalid(
            "the range holds too many times",
            f"at most {MAX_TICKS:,} are written at once; the first {MAX_TICKS:,} end at {times[-2].isoformat()}",
            "split the range",
        )
    return times


def preview(database: Database, row: Mapping[str, Any], times: Sequence[datetime]) -> Backfill:
    """What :func:`write` would do, without writing."""
    if not times:
        return Backfill([], [], {})
    with database.read() as tx:
        known = schedules.existing_times(tx, row["id"], times[0], times[-1])
    return Backfill([t for t in times if t in known], [t for t in times if t not in known], {})


def write(
    database: Database,
    row: Mapping[str, Any],
    config: ScheduleConfig,
    times: Sequence[datetime],
    overlap: str | None = None,
) -> Backfill:
    """Write the ticks and events of those times that have none, in one transaction.

    ``row`` is the schedule's source. ``overlap`` is the policy of the started executions.
    """
    policy = overlap or DEFAULT_OVERLAP
    with database.write() as tx:
        ticks = [make_tick(row["name"], config, t, tx.now, origin="backfill", overlap=policy) for t in times]
        written = schedules.add_ticks(tx, row, ticks)
    metrics.schedule_ticks.labels("backfill").inc(len(written))
    return Backfill([t for t in times if t not in written], sorted(written), written)

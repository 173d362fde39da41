"""Decides about one due schedule: which times become events, which are missed, and when the next one is due.

A tick that is up to :data:`MISFIRE_GRACE` late is on time: schedulers are not exact. Later ticks were delayed by a
downtime, and the schedule's catch-up policy decides about them: ``all`` are fired, only the ``latest`` (when none after
it is on time), or ``none``. Ticks beyond the catch-up window are not fired. Ticks that are not fired are counted. (The
window, its default and its least value are Temporal's; the three policies are Kestra's.)
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Literal

from functory.triggers.sources.schedules.calendar import MICROSECOND, Calendar

CatchUp = Literal["all", "latest", "none"]

# Temporal's least catch-up window, for the same reason.
MISFIRE_GRACE = timedelta(seconds=10)


@dataclass(frozen=True)
class DueTick:
    """A time that becomes an event. ``late`` is the delay after its due time."""

    time: datetime
    due: datetime
    late: timedelta

    @property
    def on_time(self) -> bool:
        return self.late <= MISFIRE_GRACE


@dataclass(frozen=True)
class TickDecision:
    """The decision about the due times of one schedule.

    ``missed`` counts, by reason (``window``, ``policy``), the times without an event. ``last`` is the latest decided
    time; ``next_time`` and ``next_due`` are the first undecided one, None when the schedule is over.
    """

    ticks: tuple[DueTick, ...]
    missed: dict[str, int]
    last: datetime | None
    next_time: datetime | None
    next_due: datetime | None


def decide_ticks(
    calendar: Calendar,
    key: str,
    fire_at: datetime,
    now: datetime,
    *,
    catch_up: CatchUp,
    window: timedelta,
    limit: int,
) -> TickDecision:
    """Decide about the times from ``fire_at`` on that are due at ``now``, at most ``limit`` of them.

    When there are more, ``next_due`` is not after ``now``: the next round continues there.
    """
    dues = calendar.due_times(key, fire_at - MICROSECOND)
    taken: list[DueTick] = []
    following: tuple[datetime, datetime] | None = None
    for time, due in itertools.islice(dues, limit + 1):
        if due > now or len(taken) == limit:
            following = (time, due)
            break
        taken.append(DueTick(time, due, now - due))
    finished = following is None or following[1] > now
    fired: list[DueTick] = []
    missed = {"window": 0, "policy": 0}
    for number, tick in enumerate(taken, 1):
        newest = finished and number == len(taken)
        if tick.late > max(window, MISFIRE_GRACE):
            missed["window"] += 1
        elif tick.on_time or catch_up == "all" or (catch_up == "latest" and newest):
            fired.append(tick)
        else:
            missed["policy"] += 1
    return TickDecision(
        tuple(fired),
        missed,
        taken[-1].time if taken else None,
        following[0] if following else None,
        following[1] if following else None,
    )

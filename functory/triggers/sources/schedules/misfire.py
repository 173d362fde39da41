"""What a ticker does about one schedule now: which times become events, which are missed, and when it is next.

A tick that is up to :data:`GRACE` late is on time: schedulers are not exact. Later ones were held up by a
downtime, and the schedule's catch-up says what becomes of them: ``all`` of them are fired, only the ``latest`` (when
none after it is on time), or ``none``. Beyond the catch-up window nothing is fired. What is not fired is counted.
(Temporal has the window, its default and its least value; Kestra the three policies.)
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
    """A time that is to become an event. ``late`` is how long after it was due."""

    time: datetime
    due: datetime
    late: timedelta

    @property
    def on_time(self) -> bool:
        return self.late <= MISFIRE_GRACE


@dataclass(frozen=True)
class TickDecision:
    """The decision about the due times of one schedule.

    ``missed`` counts, by reason (``window``, ``policy``), the times that become nothing. ``last`` is the latest that
    was decided about; ``next`` and ``due`` are the first that was not, None when the schedule is over.
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

    Where there are more, ``due`` of the answer is not after ``now``: the next round goes on from there.
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

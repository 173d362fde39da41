"""Computes the times of a schedule's calendar, and when each of them is due.

A *time* is one entry of the calendar. It is unique and names the tick. It is *due* at that time, or up to ``jitter``
later. The delay depends on the schedule and the time alone, so all tickers and the preview compute the same delay.
It is less than the gap to the next time, so ticks keep their order.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, tzinfo

from functory.triggers.sources.schedules import cron
from functory.triggers.sources.schedules.timestamps import EARLIEST

MICROSECOND = timedelta(microseconds=1)


@dataclass(frozen=True)
class Calendar:
    """The times of one schedule: exactly one of ``cron``, ``every`` and ``at`` is set.

    ``every`` counts from ``anchor``, by default the Unix epoch (as Temporal's interval specs do), in both
    directions. ``start`` and ``end`` bound the times, both included.
    """

    zone: tzinfo = UTC
    cron: str | None = None
    every: timedelta | None = None
    at: Sequence[datetime] = ()
    anchor: datetime = EARLIEST
    start: datetime | None = None
    end: datetime | None = None
    jitter: timedelta = timedelta()

    def times(self, after: datetime) -> Iterator[datetime]:
        """The times in UTC later than ``after``, strictly growing."""
        if self.start is not None and after < self.start:
            after = self.start - MICROSECOND
        for time in self._all(after):
            if self.end is not None and time > self.end:
                return
            yield time

    def next(self, after: datetime) -> datetime | None:
        """The first time later than ``after``; None when there is none (or none within 50 years)."""
        return next(self.times(after), None)

    def due_times(self, key: str, after: datetime) -> Iterator[tuple[datetime, datetime]]:
        """The times later than ``after`` and when each is due; ``key`` names the schedule for the jitter."""
        if not self.jitter:
            yield from ((time, time) for time in self.times(after))
            return
        times = self.times(after)
        time = next(times, None)
        while time is not None:
            following = next(times, None)
            room = self.jitter if following is None else min(self.jitter, following - time)
            yield time, time + jitter_delay(key, time, room)
            time = following

    def local(self, time: datetime) -> datetime:
        """Convert a time to the schedule's time zone."""
        return time.astimezone(self.zone)

    def _all(self, after: datetime) -> Iterator[datetime]:
        if self.cron is not None:
            yield from cron.times(self.cron, after, self.zone)
        elif self.every is not None:
            # Whole numbers of steps: a sum of floats would drift.
            time = self.anchor + ((after - self.anchor) // self.every + 1) * self.every
            while True:
                yield time
                time += self.every
        else:
            yield from (time for time in sorted(set(self.at)) if time > after)


def jitter_delay(key: str, time: datetime, room: timedelta) -> timedelta:
    """A delay below ``room`` that depends on the schedule and the time alone, evenly spread over schedules."""
    text = f"{key} {time.astimezone(UTC).isoformat()}"
    number = int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big")
    return timedelta(microseconds=number * (room // MICROSECOND) >> 64)

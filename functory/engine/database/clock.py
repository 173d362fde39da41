"""Clocks and identifiers, passed to every service so that a simulation can control them.

Nothing else in the project calls ``datetime.now`` or puts ``now()`` into SQL. On PostgreSQL the clock follows the
*database's* clock, because the clocks of several machines differ, and would not agree about when a lease expires. It
does not go back with it: see :mod:`functory.engine.database.clock_offset`.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cached_property
from typing import Protocol

import uuid_utils.compat as uuids

from functory.engine.database.clock_offset import Offset
from functory.engine.database.id_times import lowest_id as lowest_id
from functory.engine.database.id_times import time_of_id as time_of_id

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)


class Clock(Protocol):
    """A source of time: ``now`` is the engine's time in UTC; ``wall`` is the clock that it follows, for times of other
    machines; ``monotonic`` is seconds from an arbitrary start.
    """

    def now(self) -> datetime: ...
    def wall(self) -> datetime: ...
    def monotonic(self) -> float: ...


class SystemClock:
    """This machine's clock."""

    def now(self) -> datetime:
        return datetime.now(UTC)

    def wall(self) -> datetime:
        return self.now()

    def monotonic(self) -> float:
        return time.monotonic()


# A server's clock is asked again after this many seconds.
REFRESH_SECONDS = 10.0
# Ids follow another process that is ahead by at most this (seconds), which is more than two measurements of one clock
# differ. A row with a later id was made by another clock.
FOLLOW_SECONDS = 1.0


@dataclass(frozen=True)
class _Anchor:
    """One instant by the local monotonic clock and by the server's, with the offset of the engine's time."""

    monotonic: float
    server: datetime
    offset: Offset

    def wall(self, monotonic: float) -> datetime:
        return self.server + timedelta(seconds=monotonic - self.monotonic)

    def now(self, monotonic: float) -> datetime:
        server = self.wall(monotonic)
        return server + self.offset.at(server)

    @cached_property
    def server_microseconds(self) -> int:
        return (self.server - _EPOCH) // _MICROSECOND

    def microseconds(self, monotonic: float) -> int:
        """Return :meth:`now` since the epoch. Ids are made often, and times as objects take three times as long."""
        if self.offset.ahead:
            return (self.now(monotonic) - _EPOCH) // _MICROSECOND
        return self.server_microseconds + round((monotonic - self.monotonic) * 1_000_000)


class ServerClock:
    """The clock of a database server, seen from here.

    ``ask`` returns the local monotonic time and the server's time of the same instant. The offset between the two is
    measured at first use and again after ``refresh`` seconds, so that a step of the local wall clock has no effect.
    ``offset`` returns how far the engine's time is ahead of the server's clock
    (:class:`functory.engine.database.clock_offset.StoredOffset`).
    """

    def __init__(
        self,
        ask: Callable[[], tuple[float, datetime]],
        refresh: float = REFRESH_SECONDS,
        offset: Callable[[datetime, datetime | None], Offset] = lambda server, expected: Offset(),
    ) -> None:
        self._ask = ask
        self._refresh = refresh
        self._offset = offset
        self._lock = threading.Lock()
        self._anchor: _Anchor | None = None

    def now(self) -> datetime:
        return self._current().now(time.monotonic())

    def wall(self) -> datetime:
        return self._current().wall(time.monotonic())

    def monotonic(self) -> float:
        return time.monotonic()

    def cached_microseconds(self) -> int:
        """Return the engine's time since the epoch by the last measurement, however old it is."""
        return (self._anchor or self._current()).microseconds(time.monotonic())

    def _current(self) -> _Anchor:
        anchor = self._anchor
        if anchor is None or time.monotonic() - anchor.monotonic > self._refresh:
            anchor = self._measure(anchor)
        return anchor

    def _measure(self, stale: _Anchor | None) -> _Anchor:
        # One thread measures and the others use the last answer. Before the first answer they wait, because the clock
        # of this machine may be hours off.
        if not self._lock.acquire(blocking=stale is None):
            assert stale is not None
            return stale
        try:
            if self._anchor is None or self._anchor is stale:
                monotonic, server = self._ask()
                expected = None if stale is None else stale.now(monotonic)
                self._anchor = _Anchor(monotonic, server, self._offset(server, expected))
        except Exception:
            if stale is None:
                raise
            # An old measurement is better than none while the database is away.
        finally:
            self._lock.release()
        assert self._anchor is not None
        return self._anchor


class StoppableClock:
    """This machine's clock until it is set; from then on it stands, and changes only when it is set again.

    ``monotonic`` goes on: pauses, and how long a process may be silent, are real time.
    """

    def __init__(self) -> None:
        self._set_to: datetime | None = None

    @property
    def stands(self) -> bool:
        """True once it was set."""
        return self._set_to is not None

    def now(self) -> datetime:
        return self._set_to or datetime.now(UTC)

    def wall(self) -> datetime:
        return self.now()

    def monotonic(self) -> float:
        return time.monotonic()

    def cached_microseconds(self) -> int:
        """Return :meth:`now` since the epoch, for :class:`ServerIds`."""
        return (self.now() - _EPOCH) // _MICROSECOND

    def set(self, now: datetime) -> None:
        """Set the clock to ``now``, a time in UTC."""
        self._set_to = now


class ManualClock:
    """A clock that changes only when it is advanced; for tests and simulations."""

    def __init__(self, start: datetime | None = None) -> None:
        self._now = start or datetime(2026, 1, 1, tzinfo=UTC)

    def now(self) -> datetime:
        return self._now

    def wall(self) -> datetime:
        return self._now

    def monotonic(self) -> float:
        return self._now.timestamp()

    def advance(self, seconds: float) -> None:
        """Move the clock forward by ``seconds``."""
        self._now += timedelta(seconds=seconds)

    def set(self, now: datetime) -> None:
        """Set the clock to ``now``."""
        self._now = now


def new_id() -> str:
    """Return a UUIDv7 (RFC 9562 section 5.7) in its canonical text form: unique and ordered by time."""
    return str(uuids.uuid7())


class ServerIds:
    """UUIDv7 generator that uses the engine's clock, so that a wrong clock of this machine does no harm.

    Ids of one process only grow. The twelve bits behind the milliseconds are their
    fraction (RFC 9562 section 6.2, method 3), so that ids of several processes have the order of their times too.
    """

    def __init__(self, clock: ServerClock | StoppableClock) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        # In units of 1/4096 millisecond.
        self._last = 0
        # About the last id: most rows that are followed are older, and their ids need not be read.
        self._made = ""

    def follow(self, id_: str) -> None:
        """Make only ids above ``id_`` from now on, the id of a row by any process, in its canonical form.

        Two processes measure the server's clock with an error each. Without this, the effect could have a lower id than
        its cause in another process.
        """
        if id_ <= self._made:
            return
        timestamp = int(id_[:8] + id_[9:13] + id_[15:18], 16)
        latest = self._clock.cached_microseconds() + round(FOLLOW_SECONDS * 1_000_000)
        with self._lock:
            if timestamp >> 12 <= latest // 1000:
                self._last = max(self._last, timestamp)

    @property
    def made_any(self) -> bool:
        """True once an id was made."""
        return bool(self._made)

    def __call__(self) -> str:
        microseconds = self._clock.cached_microseconds()
        timestamp = microseconds // 1000 << 12 | microseconds % 1000 * 4096 // 1000
        with self._lock:
            self._last = timestamp = max(timestamp, self._last + 1)
        random = int.from_bytes(os.urandom(8)) >> 2
        text = f"{timestamp >> 12 << 80 | 7 << 76 | (timestamp & 0xFFF) << 64 | 2 << 62 | random:032x}"
        self._made = id_ = f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"
        return id_

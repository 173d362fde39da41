"""Time, randomness and identifiers come in through here, so that a simulation can own them.

Nothing else in the project calls ``datetime.now`` or puts ``now()`` into SQL: every service takes
a ``Clock`` and an ``Ids``. On PostgreSQL the clock follows the *database's* clock, because leases
that are compared with the clocks of several machines would drift apart.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Protocol

import uuid_utils.compat as uuids


class Clock(Protocol):
    """``now`` is wall time in UTC; ``monotonic`` is seconds from an arbitrary start."""

    def now(self) -> datetime: ...
    def monotonic(self) -> float: ...


class SystemClock:
    """This machine's clock."""

    def now(self) -> datetime:
        return datetime.now(UTC)

    def monotonic(self) -> float:
        return time.monotonic()


class ServerClock:
    """The clock of a database server, seen from here.

    ``ask`` returns a pair: the local monotonic time and the server's time of one moment. The
    offset between the two is measured once and again after ``refresh`` seconds, so that a step of the
    local wall clock has no effect.
    """

    def __init__(self, ask: Callable[[], tuple[float, datetime]], refresh: float = 30.0) -> None:
        self._ask = ask
        self._refresh = refresh
        self._lock = threading.Lock()
        self._anchor: tuple[float, datetime] | None = None
        self._measuring = False

    def now(self) -> datetime:
        anchor = self._anchor
        monotonic = time.monotonic()
        if anchor is None or monotonic - anchor[0] > self._refresh:
            anchor = self._measure(anchor)
        return anchor[1] + timedelta(seconds=time.monotonic() - anchor[0])

    def monotonic(self) -> float:
        return time.monotonic()

    def _measure(self, stale: tuple[float, datetime] | None) -> tuple[float, datetime]:
        with self._lock:
            # Asking the server may itself need the time; it then gets the last known one.
            if self._measuring or (self._anchor is not None and self._anchor is not stale):
                return self._anchor or (time.monotonic(), datetime.now(UTC))
            self._measuring = True
        try:
            anchor = self._ask()
        except Exception:
            if stale is None:
                raise
            # An old measurement is better than none while the database is away.
            anchor = stale
        finally:
            self._measuring = False
        self._anchor = anchor
        return anchor


class ManualClock:
    """A clock that stands still until it is advanced; for tests and simulations."""

    def __init__(self, start: datetime | None = None) -> None:
        self._now = start or datetime(2026, 1, 1, tzinfo=UTC)

    def now(self) -> datetime:
        return self._now

    def monotonic(self) -> float:
        return self._now.timestamp()

    def advance(self, seconds: float) -> None:
        """Move the clock forward by ``seconds``."""
        self._now += timedelta(seconds=seconds)


def new_id() -> str:
    """A UUIDv7 (RFC 9562 section 5.7) in its canonical text form: unique and ordered by time."""
    return str(uuids.uuid7())

"""Dispatch window: how many messages may be on the broker, and when the next round of the dispatcher is due.

The window follows the slots of the workers. What is beyond it stays queued in the database.
"""

from __future__ import annotations

from datetime import datetime

# Messages on the broker per worker slot, and the window while no worker is registered.
PER_SLOT = 4
MIN_WINDOW = 64
# Seconds between two measurements of the usual wait.
WAIT_SAMPLE_SECONDS = 10.0
# Seconds between two rounds while the window is full, so that places freed by claims are filled.
REFILL_SECONDS = 0.03


class DispatchWindow:
    """The window of one dispatcher, and the figures behind it that it does not read in every round.

    ``slots`` counts the slots of all live workers; ``wait_p95`` is the usual wait in seconds.
    """

    def __init__(self, every: float = 1.0) -> None:
        self._every = every
        self._asked: datetime | None = None
        self._measured: datetime | None = None
        self.slots = 0
        self.wait_p95 = 0.0
        # The next round without a wake-up.
        self.has_more = False
        self.next_at: datetime | None = None

    @property
    def size(self) -> int:
        """The number of messages that may be on the broker."""
        return PER_SLOT * self.slots or MIN_WINDOW

    def should_read_slots(self, now: datetime) -> bool:
        """Return True when it is time to read the slots."""
        if self._asked is None or (now - self._asked).total_seconds() >= self._every:
            self._asked = now
            return True
        return False

    def should_measure_waits(self, now: datetime) -> bool:
        """Return True when it is time to measure the usual wait."""
        if self._measured is None or (now - self._measured).total_seconds() >= WAIT_SAMPLE_SECONDS:
            self._measured = now
            return True
        return False

    def seconds_until_next_round(self, now: datetime) -> float | None:
        """Return the seconds until the next round; None when only a wake-up starts it."""
        if self.has_more:
            return REFILL_SECONDS
        return None if self.next_at is None else max(0.0, (self.next_at - now).total_seconds())

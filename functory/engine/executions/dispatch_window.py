"""Dispatch window: how many messages may be on the broker, and when the next round of the dispatcher is due.

The window follows what the workers take: about half a second of their work is on the broker, and at least a few
messages for each slot. So short functions come in large batches, and of long ones hardly anything leaves the database,
where priorities, fairness and cancels work.

The dispatcher and the router of one process share a window: each sends from a thread of its own.
"""

from __future__ import annotations

import math
import threading
from collections import deque
from datetime import datetime, timedelta

# Executions on the broker per worker slot, and while no worker is registered.
PER_SLOT = 4
MIN_WINDOW = 64
# The most that may be on the broker, and how many seconds of work.
MAX_WINDOW = 2000
WINDOW_SECONDS = 0.5
# How many times more than was taken may follow, before it is known how long that lasts.
GROWTH = 4
# A full window is filled again when this part of it is free: small pieces would make small batches.
REFILL_PART = 4
# Seconds between two measurements of the usual wait.
WAIT_SAMPLE_SECONDS = 10.0
# Seconds between two rounds while the window is full, so that places freed by claims are filled.
REFILL_SECONDS = 0.03


class DispatchWindow:
    """The window of one process, and the figures behind it that are not read in every round. Safe to use from many
    threads.

    ``slots`` counts the slots of all live workers; ``wait_p95`` is the usual wait in seconds.
    """

    def __init__(self, every: float = 1.0) -> None:
        self._every = every
        self._asked: datetime | None = None
        self._measured: datetime | None = None
        self._lock = threading.Lock()
        # The last count: when, and how many unclaimed executions were on the broker, with those sent since.
        self._counted: tuple[datetime, int] | None = None
        # What was taken from there between the counts of the last WINDOW_SECONDS: since when, until when, how many.
        self._taken: deque[tuple[datetime, datetime, int]] = deque()
        # What is taken in WINDOW_SECONDS, as far as it is known.
        self._taken_lately = 0
        self.slots = 0
        self.wait_p95 = 0.0
        # The next round without a wake-up.
        self.has_more = False
        self.next_at: datetime | None = None

    @property
    def size(self) -> int:
        """The number of executions that may be on the broker."""
        return max(PER_SLOT * self.slots or MIN_WINDOW, min(MAX_WINDOW, self._taken_lately))

    @property
    def refill(self) -> int:
        """The number of free places that is worth a round while more executions are due than there are places."""
        return math.ceil(self.size / REFILL_PART)

    @property
    def unclaimed(self) -> int:
        """The number of executions that were on the broker when they were last counted, with those sent since."""
        counted = self._counted
        return 0 if counted is None else counted[1]

    def places(self, now: datetime, unclaimed: int) -> int:
        """Return how many more may be sent while ``unclaimed`` executions are on the broker."""
        with self._lock:
            if self._counted is not None:
                self._count_taken(now, *self._counted, unclaimed)
            self._counted = now, unclaimed
            return max(0, self.size - unclaimed)

    def note_sent(self, count: int) -> None:
        """Note that ``count`` more executions are on the broker. Call it right after the commit that recorded them:
        what another thread counts in between is wrong by ``count``, until it counts again.
        """
        with self._lock:
            if self._counted is not None:
                at, unclaimed = self._counted
                self._counted = at, unclaimed + count

    def _count_taken(self, now: datetime, since: datetime, before: int, unclaimed: int) -> None:
        window = timedelta(seconds=WINDOW_SECONDS)
        if now - since > window:
            # It is not known when in that time they were taken.
            self._taken.clear()
            self._taken_lately = 0
            return
        self._taken.append((since, now, max(0, before - unclaimed)))
        while self._taken[0][1] < now - window:
            self._taken.popleft()
        taken = sum(count for _, _, count in self._taken)
        seconds = (now - self._taken[0][0]).total_seconds()
        # At the beginning of a burst there are only a few counts. They may be of messages that were taken at once and
        # then run long, so they say only so much about what comes.
        expected = round(taken * WINDOW_SECONDS / max(seconds, 0.001))
        self._taken_lately = min(expected, GROWTH * taken)

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

"""The slots of a worker process: the number of executions that it runs at a time.

A message waits for a slot. The poller claims only for slots that are free.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager


class Slots:
    """``count`` slots, shared by any number of threads."""

    def __init__(self, count: int, on_release: Callable[[], None] = lambda: None) -> None:
        self._count = count
        self._taken = 0
        self._on_release = on_release
        self._condition = threading.Condition()
        self._free_since: float | None = time.monotonic()

    @property
    def free(self) -> int:
        """The number of free slots."""
        return max(0, self._count - self._taken)

    @property
    def free_seconds(self) -> float:
        """Seconds since which a slot has been free; 0 without a free slot."""
        since = self._free_since
        return 0.0 if since is None else time.monotonic() - since

    def acquire(self, cancelled: threading.Event) -> bool:
        """Wait for a free slot and take it. False when ``cancelled`` is set first."""
        with self._condition:
            while not cancelled.is_set():
                if self._taken < self._count:
                    self._mark_taken(1)
                    return True
                self._condition.wait(0.2)
        return False

    def acquire_free(self) -> int:
        """Take all free slots. Returns their number."""
        with self._condition:
            count = self.free
            self._mark_taken(count)
        return count

    def release(self, count: int = 1) -> None:
        """Release slots."""
        with self._condition:
            self._taken -= count
            if self._free_since is None and self.free:
                self._free_since = time.monotonic()
            self._condition.notify_all()
        self._on_release()

    @contextmanager
    def lent(self) -> Iterator[None]:
        """Free a slot inside the block: its execution only waits. It goes on at once, if need be beyond the count."""
        with self._condition:
            lent = self._taken > 0
        if lent:
            self.release()
        try:
            yield
        finally:
            if lent:
                with self._condition:
                    self._mark_taken(1)

    def _mark_taken(self, count: int) -> None:
        self._taken += count
        if not self.free:
            self._free_since = None

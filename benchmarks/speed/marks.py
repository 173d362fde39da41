"""Start times in a file that several processes map into their memory.

A task of another system writes the time of its start at its own number: one store into memory, without a lock or a
system call, so that counting costs the system nothing. Each number is written by one task.
"""

from __future__ import annotations

import mmap
import time
from pathlib import Path

_BYTES = 8


class Marks:
    """``count`` times (seconds since 1970), 0 for a task that has not started."""

    def __init__(self, path: Path, count: int = 0) -> None:
        """Map the file; with ``count``, make it."""
        if count:
            path.write_bytes(bytes(count * _BYTES))
        with path.open("r+b") as file:
            self._map = mmap.mmap(file.fileno(), 0)
        self.times = memoryview(self._map).cast("d")

    def clear(self) -> None:
        """Forget all times."""
        self._map[:] = bytes(len(self._map))

    def wait(self, count: int, patience: float = 120.0) -> float:
        """Wait until the tasks 0 to ``count - 1`` have started; return the last start.

        Raises RuntimeError after ``patience`` seconds without a new one at the front.
        """
        front, changed = 0, time.monotonic()
        while front < count:
            if self.times[front]:
                front, changed = front + 1, time.monotonic()
                continue
            if time.monotonic() - changed > patience:
                raise RuntimeError(f"task {front} of {count} has not started after {patience:g} s")
            time.sleep(0.002)
        return max(self.times[:count])

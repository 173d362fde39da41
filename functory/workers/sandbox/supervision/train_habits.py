"""Remembers which versions suit a train: those that say nothing but their results, and are quick."""

from __future__ import annotations

import threading
from collections import OrderedDict

# A longer one gains nothing by a train, and holds up those behind it.
_LONGEST_SECONDS = 0.02
_MOST_VERSIONS = 10_000
_TALKS = float("inf")
_NEW_SHARE = 0.2  # of the last run in the moving average


class TrainHabits:
    """What was seen of versions in this process, by a name of each. For any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._seconds: OrderedDict[str, float] = OrderedDict()

    def suits(self, version: str) -> bool:
        """Return True if the version has run before, never said anything but its result, and was quick."""
        return self._seconds.get(version, _TALKS) <= _LONGEST_SECONDS

    def note(self, version: str, seconds: float, *, runs: int = 1, talked: bool = False) -> None:
        """Note ``runs`` that took these seconds together. A version that has ``talked`` once suits no more."""
        with self._lock:
            mean = seconds / max(1, runs)
            known = self._seconds.pop(version, mean)
            self._seconds[version] = _TALKS if talked else known + _NEW_SHARE * (mean - known)
            if len(self._seconds) > _MOST_VERSIONS:
                self._seconds.popitem(last=False)

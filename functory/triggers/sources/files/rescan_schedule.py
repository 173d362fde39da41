"""Schedules the scans of a watch: at its start, in every interval, and when notifications may be missing. Pure."""

from __future__ import annotations

import math
from dataclasses import dataclass

# A scan costs time in proportion to the tree: the pause after it is at least this many times its length.
_PAUSES = 5.0
# A requested scan waits a little for more requests: unpacking a tree creates many folders.
_SOON = 0.5


@dataclass
class RescanSchedule:
    """The next scan of one watch. Times are seconds of a clock that does not go back."""

    interval: float
    due: float
    reason: str = "start"
    _rest_until: float = 0.0

    def begin(self) -> str:
        """Begin a scan and return its reason. Later requests are for the next scan."""
        self.due = math.inf
        return self.reason

    def request(self, reason: str, now: float) -> None:
        """Request a scan: at once after an ``overflow``, else soon."""
        wanted = now if reason == "overflow" else max(now + _SOON, self._rest_until)
        if wanted < self.due:
            self.due, self.reason = wanted, reason

    def finish(self, began: float, now: float) -> None:
        """Note the end of a scan that began at ``began``."""
        self._rest_until = now + _PAUSES * (now - began)
        if self.due != math.inf and self.reason != "overflow":
            self.due = max(self.due, self._rest_until)
        later = max(now + self.interval, self._rest_until)
        if later < self.due:
            self.due, self.reason = later, "interval"

    def shorten_interval(self, interval: float, now: float) -> None:
        """Scan in shorter intervals from now on."""
        self.interval = interval
        self.due = min(self.due, now + interval)

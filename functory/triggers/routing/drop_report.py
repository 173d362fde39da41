"""Reports what guards drop in the log: the first match at once, and after that one line a minute with the sums.

A storm drops thousands of matches a second, and a log line for each would hide all others.
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable

import structlog

log = structlog.get_logger("functory.router")

# Seconds between two reports of a process, and the pairs of trigger and reason that one report names.
EVERY = 60.0
MAX_NAMED = 20


class DropReport:
    """The matches that were dropped since the last report, by (trigger, reason). Threads may share it."""

    def __init__(self, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._monotonic = monotonic
        self._lock = threading.Lock()
        self._dropped: Counter[tuple[str, str]] = Counter()
        self._reported_at: float | None = None

    def add(self, dropped: Iterable[tuple[str, str]]) -> None:
        """Count matches of one transaction, which may be none. Reports when it is time."""
        with self._lock:
            self._dropped.update(dropped)
            now = self._monotonic()
            if not self._dropped or (self._reported_at is not None and now - self._reported_at < EVERY):
                return
            self._reported_at, found, self._dropped = now, self._dropped, Counter()
        for (name, reason), count in found.most_common(MAX_NAMED):
            log.warning(
                "guards dropped matches",
                trigger=name,
                reason=reason,
                matches=count,
                advice=f"functory trigger resume-suppressed --trigger {name} --dry-run",
            )
        if len(found) > MAX_NAMED:
            rest = sum(found.values()) - sum(count for _, count in found.most_common(MAX_NAMED))
            log.warning("guards dropped matches of more triggers", matches=rest)

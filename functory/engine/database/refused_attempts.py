"""Refused attempts on their way into the audit: a burst of them is a few writing transactions, not one each.

A stranger can send thousands of wrong tokens a second, and each transaction takes the time of work: SQLite has one
writer. So the first attempt of a kind is written at once. What follows within :data:`PAUSE` is counted, and written
together after it. A process that is killed loses that part of a count, and no entry.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import structlog

from functory.engine import threads
from functory.engine.database import audit
from functory.engine.database.connection import Database
from functory.engine.errors import FunctoryError

log = structlog.get_logger(__name__)

# Seconds between two writes of one kind of attempt.
PAUSE = 1.0


@dataclass
class _Attempts:
    """Refused attempts of one kind, with the subject and the origin of the last one."""

    author: str
    action: str
    subject: str
    origin: str
    count: int = 1


class RefusedAttempts:
    """Counts refused attempts of all threads of a server. ``sleep`` waits for :data:`PAUSE`."""

    def __init__(self, database: Database, sleep: Callable[[float], None] = time.sleep) -> None:
        self._database = database
        self._sleep = sleep
        self._lock = threading.Lock()
        # Kinds that were written less than PAUSE ago, and what of them was not written yet. While there is one, a
        # thread writes them.
        self._recent: dict[tuple[str, str], _Attempts | None] = {}

    def record(self, author: str, action: str, subject: str, origin: str) -> None:
        """Count an attempt. Raises :class:`FunctoryError` when it is written at once and the database fails."""
        kind = (author, action)
        one = _Attempts(author, action, subject, origin)
        with self._lock:
            if kind in self._recent:
                waiting = self._recent[kind]
                one.count += waiting.count if waiting is not None else 0
                self._recent[kind] = one
                return
            if self._recent or threads.try_start(self._write_later, "functory-refused") is not None:
                self._recent[kind] = None
        self._write([one])

    def _write_later(self) -> None:
        while True:
            self._sleep(PAUSE)
            with self._lock:
                waiting = [one for one in self._recent.values() if one is not None]
                self._recent = {(one.author, one.action): None for one in waiting}
                if not waiting:
                    return
            try:
                self._write(waiting)
            except FunctoryError as failure:
                log.error(
                    "refused attempts not in the audit",
                    attempts=[(one.author, one.action, one.count) for one in waiting],
                    why=str(failure),
                )

    def _write(self, attempts: Sequence[_Attempts]) -> None:
        with self._database.write() as tx:
            for one in attempts:
                with audit.acting(one.origin):
                    audit.append_refused(tx, one.author, one.action, one.subject, count=one.count)

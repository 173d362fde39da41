"""The consumer watchdog: ends a worker that is alive but no longer gets messages.

Celery may lose its consumer at a reconnect without noticing it. The signs: executions were sent shortly before, no
message arrived for them although this worker had a free slot, so its poller claimed them
(``functory.workers.execution.poller``); the broker answers; and not one message came in all that time.

Three cases look similar and are not a stall. The broker is unavailable: the time starts again when it answers. Messages
were lost earlier: they were not sent shortly before. Another worker holds messages and is busy: a broker gives a worker
no more messages than it has slots, and serves workers in turn. So a stall needs more than two such executions for each
living worker, over at least ``stall_seconds``.
"""

from __future__ import annotations

import mmap
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

import structlog

from functory.engine.database.connection import Database
from functory.engine.errors import FunctoryError
from functory.engine.events import exchange
from functory.engine.executions import worker_registry
from functory.engine.settings import Settings
from functory.engine.telemetry import metrics

log = structlog.get_logger("functory.worker")

# Executions without a message: more than this for each living worker, and more than the least in all.
PER_WORKER = 2
LEAST = 3
# Checks within ``stall_seconds``.
LOOKS = 12


@dataclass
class StallDetector:
    """Counts executions without a message since the last message or broker outage. Times are monotonic seconds."""

    since: float | None = None
    last: float = 0.0
    missing_messages: int = 0

    def reset(self) -> None:
        """Start again: a message came, or the broker is unavailable."""
        self.since, self.missing_messages = None, 0

    def add(self, now: float, count: int) -> None:
        """Add ``count`` executions that were claimed without the message that was sent shortly before."""
        if count:
            self.since = now if self.since is None else self.since
            self.last = now
            self.missing_messages += count

    def is_stalled(self, stall: float, alive: int) -> bool:
        """True when the count cannot be chance, with ``alive`` workers. ``stall`` is in seconds."""
        return (
            self.since is not None
            and self.last - self.since >= stall
            and self.missing_messages > max(LEAST, PER_WORKER * alive)
        )


class Watchdog(threading.Thread):
    """Watches in a worker's main process and calls ``on_stall`` once.

    ``add_missing_messages`` may be called in forked children as well.
    """

    def __init__(self, settings: Settings, on_stall: Callable[[], None]) -> None:
        super().__init__(name="functory-watchdog", daemon=True)
        self._settings = settings
        self._on_stall = on_stall
        self._detector = StallDetector()
        # Shared with forked children; a lost update between two processes does not matter.
        self._shared = mmap.mmap(-1, 8)
        self._seen = 0
        self._messages = 0
        self._known = 0

    def add_missing_messages(self, count: int) -> None:
        """Note executions that were claimed although their message should have come."""
        self._shared[:] = (self._missing_count + count).to_bytes(8, "big")

    @property
    def _missing_count(self) -> int:
        return int.from_bytes(self._shared[:], "big")

    def message_received(self) -> None:
        """Note a message, or that the consumer is ready for one."""
        self._messages += 1

    def run(self) -> None:
        while True:
            time.sleep(min(5.0, self._settings.stall_seconds / LOOKS))
            try:
                if self._check():
                    self._on_stall()
                    return
            except FunctoryError as error:
                log.debug("watchdog check failed", reason=error.why)
            except Exception:
                log.exception("watchdog check failed")

    def _check(self) -> bool:
        counted, messages = self._missing_count, self._messages
        fresh, self._seen = counted - self._seen, counted
        if messages != self._known:
            self._known = messages
            self._detector.reset()
            return False
        if not fresh:
            # The worker gets its messages, or there are none: no stall.
            return False
        try:
            exchange.ping(self._settings)
        except FunctoryError:
            self._detector.reset()
            return False
        self._detector.add(time.monotonic(), fresh)
        return self._detector.is_stalled(self._settings.stall_seconds, 0) and self._confirm_stall()

    def _confirm_stall(self) -> bool:
        database = Database.of(self._settings, pool_size=1)
        try:
            alive = len(worker_registry.alive(database, self._settings.lease_seconds))
        finally:
            database.close()
        if not self._detector.is_stalled(self._settings.stall_seconds, alive):
            return False
        metrics.worker_stalls.inc()
        log.error(
            "no messages although the broker answers, worker ends to be restarted",
            executions_claimed_without_message=self._detector.missing_messages,
            seconds=round(self._detector.last - (self._detector.since or 0.0), 1),
            workers_alive=alive,
        )
        return True

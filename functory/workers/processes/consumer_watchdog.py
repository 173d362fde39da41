"""The watchdog: ends a worker that is alive but gets no messages any more.

Celery may lose its consumer with a reconnect and not notice; the process looks well, and does nothing. The facts that
tell it: executions were sent a moment ago, no message brought them although this worker had a free slot, so it claimed
them by itself (``functory.workers.execution.poller``); the broker answers; and not one message came in all that time.

What is no such fact: the broker is away (the time begins anew when it answers); messages that were lost before (they
were not sent a moment ago); messages that another worker holds and is too busy for. Of the latter a broker gives a
worker no more than it has slots, and serves workers in turn: so there must be more than two for each worker that is
alive, and they must come in over ``stall_seconds``.
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

# Executions that no message brought, for each living worker, and at the least.
PER_WORKER = 2
LEAST = 3
# Looks in a stall.
LOOKS = 12


@dataclass
class StallDetector:
    """What has been seen since the last message, or since the broker answers again. Times are monotonic seconds."""

    since: float | None = None
    last: float = 0.0
    missing_messages: int = 0

    def reset(self) -> None:
        """A message came, or the broker is away."""
        self.since, self.missing_messages = None, 0

    def add(self, now: float, count: int) -> None:
        """``count`` executions were claimed whose message had been sent a moment before."""
        if count:
            self.since = now if self.since is None else self.since
            self.last = now
            self.missing_messages += count

    def is_stalled(self, stall: float, alive: int) -> bool:
        """Whether that is too much to be chance, with so many workers alive."""
        return (
            self.since is not None
            and self.last - self.since >= stall
            and self.missing_messages > max(LEAST, PER_WORKER * alive)
        )


class Watchdog(threading.Thread):
    """In a worker's main process; ``on_deaf`` is called once. ``unheard`` may be called in forked children as well."""

    def __init__(self, settings: Settings, on_stall: Callable[[], None]) -> None:
        super().__init__(name="functory-watchdog", daemon=True)
        self._settings = settings
        self._on_stall = on_stall
        self._detector = StallDetector()
        # Shared with forked children; whether one of two that count at once gets lost does not matter.
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
                log.debug("the watchdog could not look", reason=error.why)
            except Exception:
                log.exception("the watchdog failed")

    def _check(self) -> bool:
        counted, messages = self._missing_count, self._messages
        fresh, self._seen = counted - self._seen, counted
        if messages != self._known:
            self._known = messages
            self._detector.reset()
            return False
        if not fresh:
            # A worker that gets messages, or for which there are none, is not asked about further.
            return False
        try:
            exchange.ping(self._settings)
        except FunctoryError:
            self._detector.reset()
            return False
        self._detector.add(time.monotonic(), fresh)
        return self._detector.is_stalled(self._settings.stall_seconds, 0) and self._confirm_stall()

    def _confirm_stall(self) -> bool:
        database = Database(self._settings.database, pool_size=1)
        try:
            alive = len(worker_registry.alive(database, self._settings.lease_seconds))
        finally:
            database.close()
        if not self._detector.is_stalled(self._settings.stall_seconds, alive):
            return False
        metrics.worker_stalls.inc()
        log.error(
            "no messages come although the broker answers: the worker ends to be started again",
            executions_claimed_without_message=self._detector.missing_messages,
            seconds=round(self._detector.last - (self._detector.since or 0.0), 1),
            workers_alive=alive,
        )
        return True

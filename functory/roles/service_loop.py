"""A role's loop: work while there is work, then wait for a wake-up or the poll interval.

A database or broker that is away is told once, waited for with growing pauses, and told again when
it is back; nothing else ends a loop but :meth:`Loop.stop`.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable

import structlog

from functory.engine.database.wakeups import Wakeup
from functory.engine.errors import Unavailable

log = structlog.get_logger("functory.roles.service_loop")

MAX_RETRY_PAUSE = 5.0

# Under load a round waits this long for company: work that comes in meanwhile shares its transaction.
# A round after a quiet moment (ten times as long) starts at once.
COALESCE_SECONDS = 0.002


class ServiceLoop(threading.Thread):
    """``work()`` returns True when there may be more at once; ``until()`` may shorten the wait (seconds).

    While wake-ups are heard the wait is a multiple of ``poll`` (``engine.database.wakeups``), but no longer
    than ``longest``.
    """

    def __init__(
        self,
        name: str,
        work: Callable[[], bool],
        *,
        wakeup: Wakeup,
        topic: str | None,
        poll: float,
        due_in: Callable[[], float | None] | None = None,
        close: Callable[[], None] | None = None,
        coalesce: float = COALESCE_SECONDS,
        max_wait: float = math.inf,
    ) -> None:
        super().__init__(name=f"functory-{name}", daemon=True)
        self.role = name
        self.healthy = True
        self._work = work
        self._wakeup = wakeup
        self._topic = topic
        self._poll = poll
        self._due_in = due_in
        self._close = close
        self._coalesce = coalesce
        self._max_wait = max_wait
        self._stopping = threading.Event()

    def run(self) -> None:
        pause = 0.0
        while not self._stopping.is_set():
            seen = self._wakeup.generation(self._topic) if self._topic else 0
            try:
                more = self._work()
                wait = self._due_in() if self._due_in and not more else None
            except Unavailable as error:
                if self.healthy:
                    log.warning("waiting", role=self.role, what=error.what, why=error.why)
                self.healthy = False
                pause = min(MAX_RETRY_PAUSE, pause * 2 or 0.1)
                self._stopping.wait(pause)
                continue
            except Exception:
                log.exception("round failed", role=self.role)
                self.healthy = False
                pause = min(MAX_RETRY_PAUSE, pause * 2 or 0.1)
                self._stopping.wait(pause)
                continue
            if not self.healthy:
                log.info("going on", role=self.role)
            self.healthy, pause = True, 0.0
            if more:
                continue
            poll = self._poll * self._wakeup.poll_multiplier if self._topic else self._poll
            timeout = min(poll, self._max_wait) if wait is None else min(poll, self._max_wait, wait)
            if self._topic:
                ended = time.monotonic()
                self._wakeup.wait(self._topic, seen, timeout)
                if time.monotonic() - ended < self._coalesce * 10:
                    self._stopping.wait(self._coalesce)
            else:
                self._stopping.wait(timeout)
        if self._close is not None:
            self._close()

    def stop(self) -> None:
        """Ask the loop to end after its current round."""
        self._stopping.set()
        if self._topic:
            self._wakeup.signal([self._topic])

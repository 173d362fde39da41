"""The loop of a background service: a round while there is work, then a wait for a wake-up signal or the poll interval.

An unavailable database or broker is logged once and retried with growing pauses; its recovery is logged again.
Only :meth:`ServiceLoop.stop` ends a loop. A round that does not end is a stall (:meth:`ServiceLoop.stall`): no thread
can be ended from outside, so the process ends (``functory.roles.process``).
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Sequence

import structlog

from functory.engine.backoff import HALF, Backoff
from functory.engine.database.wakeups import Wakeup
from functory.engine.errors import Stalled, Unavailable
from functory.engine.service import Service

log = structlog.get_logger("functory.roles.service_loop")

# First and longest pause (seconds) before a service or a role tries the database or the broker again.
FIRST_RETRY_PAUSE, MAX_RETRY_PAUSE = 0.1, 5.0
# So long before the end of the grace period (seconds) rounds no longer wait for answers: enough to try a connection.
GIVE_UP_SECONDS = 8.0
# A service without a topic that rests for less than this (seconds) goes on with its work then, as the pruner does.
REST_SECONDS = 1.0


class ServiceLoop(threading.Thread):
    """Runs one service in a thread.

    While wake-up signals arrive the wait is a multiple of ``poll_seconds`` (:mod:`functory.engine.database.wakeups`),
    but not longer than :meth:`Service.next_due`.
    """

    def __init__(self, service: Service, wakeup: Wakeup) -> None:
        super().__init__(name=f"functory-{service.name}", daemon=True)
        self.service = service
        self._succeeds = True
        # When the current round began, in monotonic seconds; None between two rounds.
        self._round_began: float | None = None
        # The number of rounds begun, and of the last one that left nothing to do.
        self._begun = self._rested = 0
        self._wakeup = wakeup
        self._stopping = threading.Event()
        # Ends the wait of a service without a topic.
        self._awake = threading.Event()

    @property
    def healthy(self) -> bool:
        """True when the loop runs, and its last round succeeded."""
        return self.is_alive() and self._succeeds and self.stall() is None

    def stall(self) -> Stalled | None:
        """Return the error of a loop that makes no progress: its round does not end, or its thread has ended."""
        began = self._round_began
        seconds = 0.0 if began is None else time.monotonic() - began
        if self.ident is not None and not self.is_alive() and not self._stopping.is_set():
            # In the middle of a round, perhaps: that it has not ended is then no reason.
            why = "its thread has ended"
        elif seconds > self.service.stall_seconds:
            why = f"its round began {seconds:.0f} s ago and has not ended"
        else:
            return None
        return Stalled(
            f"the service {self.service.name} makes no progress",
            why,
            "the log has the stacks of all threads; a process supervisor starts the role again",
        )

    def run(self) -> None:
        service, failed_at = self.service, 0.0
        # Spread, because the services of all processes meet the same failure.
        backoff = Backoff(FIRST_RETRY_PAUSE, MAX_RETRY_PAUSE, spread=HALF)
        while True:
            # Read before the request to end is looked for: the signal of a later request is then newer.
            seen = self._wakeup.generation(service.topic) if service.topic else 0
            if self._stopping.is_set():
                break
            self._awake.clear()
            self._begun += 1
            self._round_began = time.monotonic()
            try:
                more = service.run_once()
                due = None if more else service.next_due()
            except Exception as error:
                pause = backoff.failed()
                self._log_failure(error, pause)
                failed_at = failed_at or time.monotonic()
                self._succeeds, self._round_began = False, None
                self._stopping.wait(pause)
                continue
            self._round_began = None
            if not self._succeeds:
                log.info("recovered", role=service.name, after_seconds=round(time.monotonic() - failed_at, 1))
            backoff.succeeded()
            self._succeeds, failed_at = True, 0.0
            if not more:
                if service.topic is not None or due is None or due >= REST_SECONDS:
                    self._rested = self._begun
                self._wait(seen, math.inf if due is None else due)
        try:
            service.close()
        except Unavailable as error:
            log.warning("ended without the database or broker", role=service.name, why=error.why)

    def begin_round(self) -> Callable[[], bool]:
        """Let a service without a topic begin a round now; the others begin at a signal of their topic. Returns
        whether a round that began after this call has left nothing to do.
        """
        asked = self._begun + 1
        self._awake.set()
        return lambda: self._rested >= asked

    def stop(self) -> None:
        """Ask the loop to end after its current round."""
        self._stopping.set()
        self._awake.set()
        if self.service.topic:
            self._wakeup.signal([self.service.topic])

    def _log_failure(self, error: Exception, pause: float) -> None:
        if not isinstance(error, Unavailable):
            log.exception("round failed, retrying", role=self.service.name, retry_in=pause)
        elif self._succeeds:
            log.warning(
                "database or broker unavailable, retrying",
                role=self.service.name,
                what=error.what,
                why=error.why,
                retry_in=pause,
            )

    def _wait(self, seen: int, due: float) -> None:
        """Wait for a wake-up signal newer than ``seen``, at most the poll interval or ``due`` seconds."""
        service = self.service
        if service.topic is None:
            if not self._stopping.is_set():
                self._awake.wait(min(service.poll_seconds, due))
            return
        began = time.monotonic()
        self._wakeup.wait(service.topic, seen, min(service.poll_seconds * self._wakeup.poll_multiplier, due))
        # An idle service begins at once. Under load, when a signal comes as soon as the last round has ended, the next
        # round waits for more work.
        if time.monotonic() - began < service.coalesce_seconds:
            self._stopping.wait(service.coalesce_seconds)


def stop_loops(
    loops: Sequence[ServiceLoop], grace: float, give_up: Callable[[], None] = lambda: None
) -> bool:
    """Let every service finish its round. False when one was not done after ``grace`` seconds.

    ``give_up`` is called when little of that time is left: it ends the waits for an answer of the database.
    """
    for loop in loops:
        loop.stop()
    deadline = time.monotonic() + grace
    for until in (deadline - min(grace / 2, GIVE_UP_SECONDS), deadline):
        for loop in loops:
            loop.join(max(0.0, until - time.monotonic()))
        if until < deadline and any(loop.is_alive() for loop in loops):
            give_up()
    late = [loop.service.name for loop in loops if loop.is_alive()]
    if late:
        log.warning("services did not end in time", services=late)
    return not late

"""Claims executions without messages: all of them without a broker, otherwise those whose message does not come.

With a broker, a worker that has had a free slot for ``claim_seconds`` checks once a second whether an execution has
waited that long, sent or not. In a healthy deployment there is none, and the check reads two small indexes. While
wake-ups arrive, and none of them is about executions, a check that found nothing holds for the poll interval.

There is one when the broker is unavailable, has lost messages, or has given them to a busy worker. Then this worker
claims by polling, in the order of dispatch, whenever a slot is free. A message that comes later finds nothing to claim,
and the first message ends the polling.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

import structlog

from functory.engine.database.connection import Database
from functory.engine.errors import FunctoryError
from functory.engine.executions import dispatch, ready_queue
from functory.engine.executions.attempts import Attempts
from functory.engine.executions.claims import Claim
from functory.engine.settings import Settings
from functory.engine.telemetry import metrics
from functory.workers.execution.slots import Slots

log = structlog.get_logger("functory.worker")

# With a broker: pause between two polls of a worker with free slots.
POLL_SECONDS = 1.0
# Pause before the next poll after an error.
RETRY_SECONDS = 1.0


class Poller(threading.Thread):
    """Claims for free slots. ``run`` starts the claims and releases their slots when they end."""

    def __init__(
        self,
        database: Database,
        settings: Settings,
        attempts: Attempts,
        slots: Slots,
        run: Callable[[list[Claim]], None],
        *,
        on_missing_messages: Callable[[int], None] = lambda _: None,
    ) -> None:
        super().__init__(name="functory-poller", daemon=True)
        self._database = database
        self._settings = settings
        self._attempts = attempts
        self._slots = slots
        self._run = run
        self._on_missing_messages = on_missing_messages
        self._brokerless = settings.brokerless
        self._min_queued_seconds = 0.0 if self._brokerless else settings.claim_seconds
        self._ended = threading.Event()
        self._slot_freed = threading.Event()
        self._degraded = False
        self._failing = False
        # When the last poll began, in monotonic seconds.
        self.polled_at = time.monotonic()
        # The last check that found nothing: the wake-ups before it, and until when it holds (monotonic seconds).
        self._checked = 0
        self._nothing_until = 0.0

    def stop(self) -> None:
        """Claim nothing more. Returns at once."""
        self._ended.set()
        self.slot_freed()

    def slot_freed(self) -> None:
        """Note that a slot may be free. Returns at once."""
        self._slot_freed.set()
        if self._brokerless:
            self._database.wakeup.signal(["executions"])

    def message_received(self) -> None:
        """Note a message."""
        metrics.worker_last_intake.set_to_current_time()
        if self._degraded:
            self._degraded = False
            log.info("broker messages resumed, polling ends")

    def run(self) -> None:
        while not self._ended.is_set():
            self.polled_at = time.monotonic()
            seen = self._database.wakeup.generation("executions")
            try:
                more = self._poll_once()
                wait = self._pause() if not more else 0.0
                self._failing = False
            except FunctoryError as error:
                if not self._failing:
                    log.warning("poll failed, retrying", reason=error.why)
                self._failing = True
                more, wait = False, RETRY_SECONDS
            except Exception:
                log.exception("poll failed, retrying")
                more, wait = False, RETRY_SECONDS
            # This poll's own releases set it too. A slot released just now is seen at the next poll.
            self._slot_freed.clear()
            if more or self._ended.is_set():
                continue
            if self._brokerless:
                self._database.wakeup.wait("executions", seen, wait)
            elif self._degraded:
                self._slot_freed.wait(wait)
            else:
                self._ended.wait(wait)

    def _poll_once(self) -> bool:
        """One poll. True when more executions may be due now."""
        # An earlier claim whose commit outcome was unknown becomes claimable again.
        self._attempts.reconcile()
        if not self._slots.free:
            # A full worker is healthy: it is not expected to claim.
            metrics.worker_last_intake.set_to_current_time()
            return False
        if (
            not self._brokerless
            and not self._degraded
            and self._slots.free_seconds < self._min_queued_seconds
        ):
            return False
        if not self._is_any_due():
            metrics.worker_last_intake.set_to_current_time()
            return False
        taken = self._slots.acquire_free()
        claims: list[Claim] = []
        try:
            claims = self._attempts.claim_any(taken, waited=self._min_queued_seconds)
        finally:
            self._slots.release(taken - len(claims))
        if claims:
            self._record_claims(claims)
            self._run(claims)
        return bool(claims)

    def _is_any_due(self) -> bool:
        """Check whether there is something to claim, unless the last check says that there is nothing yet."""
        wakeup = self._database.wakeup
        seen = wakeup.generation("executions")
        if self._brokerless or self._degraded:
            return self._attempts.any_due(waited=self._min_queued_seconds)
        if seen == self._checked and time.monotonic() < self._nothing_until and wakeup.poll_multiplier > 1:
            return False
        with self._database.read() as tx:
            since = ready_queue.waiting_since(tx)
            waited = 0.0 if since is None else (tx.now - since).total_seconds()
        if since is not None and waited >= self._min_queued_seconds:
            self._nothing_until = 0.0
            return True
        hold = self._settings.poll_seconds * wakeup.poll_multiplier
        if since is not None:
            hold = min(hold, self._min_queued_seconds - waited)
        self._checked, self._nothing_until = seen, time.monotonic() + hold
        return False

    def _pause(self) -> float:
        if not self._brokerless:
            return POLL_SECONDS
        due = dispatch.seconds_until_due(self._database) if self._slots.free else None
        poll = self._settings.poll_seconds * self._database.wakeup.poll_multiplier
        return poll if due is None else min(poll, due)

    def _record_claims(self, claims: list[Claim]) -> None:
        metrics.worker_last_intake.set_to_current_time()
        if self._brokerless:
            return
        metrics.degraded_claims.inc(len(claims))
        self._on_missing_messages(sum(self._is_recently_sent(claim) for claim in claims))
        if not self._degraded:
            self._degraded = True
            if not self._settings.embedded:
                log.warning("broker messages missing, polling instead", claimed=len(claims))

    def _is_recently_sent(self, claim: Claim) -> bool:
        """True when the execution was sent shortly before: its message is late, not lost long ago."""
        return (
            claim.queued_seconds is not None
            and claim.queued_seconds <= 3 * self._min_queued_seconds + 2 * POLL_SECONDS
        )

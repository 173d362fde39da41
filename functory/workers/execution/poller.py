"""Claims without messages: always where there is no broker, else what no message came for.

With a broker, a worker that has had a free slot for ``claim_seconds`` asks once a second whether an execution has
waited that long, sent or not. In a healthy deployment there is none, and the question is one look into two small
indexes. There is some when the broker is away, when it has lost messages, or when another worker holds them and is
busy: then this one claims them, in the order in which they would have been sent, and from then on whenever a slot is
free. A message that comes later finds nothing to claim, and from the first one on the worker lives by messages again.
"""

from __future__ import annotations

import threading
from collections.abc import Callable

import structlog

from functory.engine.database.connection import Database
from functory.engine.errors import FunctoryError
from functory.engine.executions import dispatch
from functory.engine.executions.attempts import Attempts
from functory.engine.executions.claim import Claim
from functory.engine.settings import Settings
from functory.engine.telemetry import metrics
from functory.workers.execution.slots import Slots

log = structlog.get_logger("functory.worker")

# With a broker: how often a worker with free slots looks.
POLL_SECONDS = 1.0
# Without messages while the database is away.
RETRY_SECONDS = 1.0


class Poller(threading.Thread):
    """Gives what it claims to ``run``, which starts it and gives its slot back when it has ended."""

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

    def stop(self) -> None:
        """Claim nothing more. Returns at once."""
        self._ended.set()
        self.slot_freed()

    def slot_freed(self) -> None:
        """Tell that a slot may be free. Returns at once."""
        self._slot_freed.set()
        if self._brokerless:
            self._database.wakeup.signal(["executions"])

    def message_received(self) -> None:
        """Tell that a message came."""
        metrics.worker_last_intake.set_to_current_time()
        if self._degraded:
            self._degraded = False
            log.info("the broker's messages come again")

    def run(self) -> None:
        while not self._ended.is_set():
            seen = self._database.wakeup.generation("executions")
            try:
                more = self._poll_once()
                wait = self._pause() if not more else 0.0
            except FunctoryError as error:
                log.warning("nothing can be claimed", reason=error.why)
                more, wait = False, RETRY_SECONDS
            except Exception:
                log.exception("nothing could be claimed")
                more, wait = False, RETRY_SECONDS
            # Also by the slots that it has just given back itself. One that another gives back meanwhile is seen later.
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
        """One round. True when there may be more at once."""
        # What an earlier claim took without knowing it can be claimed again.
        self._attempts.reconcile()
        if not self._slots.free:
            # Nobody expects it to take in anything.
            metrics.worker_last_intake.set_to_current_time()
            return False
        if (
            not self._brokerless
            and not self._degraded
            and self._slots.free_seconds < self._min_queued_seconds
        ):
            return False
        if not self._attempts.any_due(waited=self._min_queued_seconds):
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
                log.warning("the broker's messages do not come: claiming by polling", claimed=len(claims))

    def _is_recently_sent(self, claim: Claim) -> bool:
        """Whether it was sent a moment ago only: its message did not get lost long ago, it just does not come."""
        return (
            claim.queued_seconds is not None
            and claim.queued_seconds <= 3 * self._min_queued_seconds + 2 * POLL_SECONDS
        )

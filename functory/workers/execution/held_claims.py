"""Held claims of one worker process, from the claim until the attempt is finished.

One thread renews the leases, kills the child of a cancelled execution or of a lost lease, releases claims that
wait too long behind another one of their message, and stores what attempts print while they run.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

import structlog

from functory.engine.database.connection import Database
from functory.engine.errors import FunctoryError
from functory.engine.executions import execution_spans, worker_registry
from functory.engine.executions.attempts import Attempts
from functory.engine.executions.claims import Claim
from functory.engine.settings import Settings
from functory.engine.telemetry import metrics, traces
from functory.workers.execution.live_output import LiveOutput
from functory.workers.sandbox.protocol.control import Control

log = structlog.get_logger("functory.worker")

# How often cancel requests are read; heartbeats are rarer.
CANCEL_CHECK_SECONDS = 1.0
# The claims of one message run one after another. A claim that has not started after this time is released.
CLAIM_HOLD_SECONDS = 1.0


def _unchanged(value: Any) -> Any:
    return value


@dataclass
class Running:
    """A claim in this process, and the handle that kills its child."""

    claim: Claim
    claimed_at: float
    control: Control = field(default_factory=Control)
    started: bool = False
    # Removes the secrets that the code has asked for from what is stored and logged.
    redact: Callable[[Any], Any] = _unchanged
    # For its trace: when the attempt ended (noted only while traces are recorded), and all calls of dependencies.
    ended_at: datetime | None = None
    calls: Sequence[Mapping[str, Any]] = ()

    @property
    def key(self) -> tuple[str, int]:
        """The execution's id and the claim's fence."""
        return self.claim.id, self.claim.fence


class HeldClaims:
    """The claims that one process holds. Every method may be called from many threads."""

    def __init__(
        self, database: Database, settings: Settings, attempts: Attempts, worker_id: str, tier: str
    ) -> None:
        self._database = database
        self._settings = settings
        self._attempts = attempts
        self._worker_id = worker_id
        self._tier = tier
        self._held: dict[tuple[str, int], Running] = {}
        self._lock = threading.Lock()
        self._closed = threading.Event()
        self._awake = threading.Event()
        self.output = LiveOutput(attempts, settings.live_milliseconds / 1000, self._awake.set)
        self._thread: threading.Thread | None = None
        # When the last round of that thread began, in monotonic seconds.
        self.renewed_at = time.monotonic()

    def __len__(self) -> int:
        return len(self._held)

    def start(self) -> None:
        """Start the thread that renews the leases."""
        self._count()
        thread = threading.Thread(target=self._renew_until_closed, name="functory-leases", daemon=True)
        thread.start()
        self._thread = thread

    def close(self) -> None:
        """Stop renewing; waits up to 5 seconds for the thread."""
        self._closed.set()
        self._awake.set()
        if self._thread is not None:
            self._thread.join(timeout=5)

    def add(self, claims: Sequence[Claim]) -> list[Running]:
        """Hold new claims."""
        now = time.monotonic()
        if (recorder := traces.recorder) is not None:
            recorder.learn({claim.id: claim.row.root_id for claim in claims})
        added = [Running(claim, now) for claim in claims]
        with self._lock:
            self._held.update((running.key, running) for running in added)
        for running in added:
            row = running.claim.row
            if row.attempt == 1:
                # A delay that was asked for is no wait.
                waited = (running.claim.started_at - row.run_at).total_seconds()
                trace = traces.exemplar(row.root_id)
                metrics.observe(metrics.execution_queue, max(0.0, waited), trace)
        return added

    def note_end(self, running: Running) -> None:
        """Note that an attempt has ended now, if traces are recorded."""
        if traces.recorder is not None:
            running.ended_at = self._database.clock.now()

    def record_released(self, running: Running, duration_seconds: float) -> None:
        """Record the spans of an attempt that was ended by a shutdown of this worker and given back."""
        if (recorder := traces.recorder) is not None:
            spans = execution_spans.of_attempt(
                running.claim,
                "released",
                None,
                ended_at=running.ended_at or self._database.clock.now(),
                duration_seconds=duration_seconds,
                calls=running.calls,
            )
            recorder.record(spans)

    def begin(self, running: Running) -> bool:
        """Mark a claim as started. False when it is no longer held."""
        with self._lock:
            running.started = running.key in self._held
            self._count()
        return running.started

    def wait_again(self, claims: Sequence[Running]) -> None:
        """Note that claims have not started after all."""
        with self._lock:
            for running in claims:
                running.started = False

    def release(self, claims: Sequence[Running], reason: str) -> None:
        """Give back those claims that have not started; they are not held any more."""
        with self._lock:
            released = [one for one in claims if not one.started and self._held.pop(one.key, None)]
            self._count()
        if not released:
            return
        for running in released:
            # It may be waiting in a train.
            running.control.withdraw()
        try:
            self._attempts.release([running.key for running in released], reason, started=False)
        except FunctoryError as error:
            log.warning(
                "claims not released, their leases will expire", claims=len(released), reason=error.why
            )

    def release_waiting(self, reason: str) -> None:
        """Give back all claims that have not started."""
        with self._lock:
            held = list(self._held.values())
        self.release(held, reason)

    def remove(self, claims: Sequence[Running]) -> None:
        """Forget claims whose attempts have ended."""
        with self._lock:
            for running in claims:
                self._held.pop(running.key, None)
            self._count()

    def kill_all(self, reason: str) -> None:
        """Kill the child of every claim."""
        with self._lock:
            held = list(self._held.values())
        for running in held:
            running.control.kill(reason)

    def wait_empty(self, seconds: float, pause: float = 0.05) -> None:
        """Wait until no claim is held, for at most ``seconds`` or until :meth:`close`."""
        deadline = time.monotonic() + seconds
        while self._held and time.monotonic() < deadline and not self._closed.is_set():
            time.sleep(pause)

    def _count(self) -> None:
        busy = len(self._held)
        metrics.worker_slots.labels("busy").set(busy)
        metrics.worker_slots.labels("idle").set(max(0, self._settings.worker_slots - busy))

    def _renew_until_closed(self) -> None:
        # By the monotonic clock, and by the engine's, by which leases end: that one may be set.
        last_heartbeat: tuple[float, datetime] | None = None
        failing = False
        check_at = 0.0
        while not self._closed.is_set():
            now = self.renewed_at = time.monotonic()
            is_check = now >= check_at
            try:
                if is_check:
                    check_at = now + min(CANCEL_CHECK_SECONDS, self._settings.heartbeat_seconds)
                    engine_now = self._database.clock.now()
                    heartbeat_due = last_heartbeat is None or (
                        max(now - last_heartbeat[0], (engine_now - last_heartbeat[1]).total_seconds())
                        >= self._settings.heartbeat_seconds
                    )
                    self._renew(heartbeat_due)
                    if heartbeat_due:
                        last_heartbeat = now, engine_now
                    self._release_waiting_claims(now)
                    self._attempts.reconcile()
                if is_check or now >= self.output.due_at():
                    self.output.store(now, also_spans=is_check)
                failing = False
            except FunctoryError as error:
                if not failing:
                    log.warning("lease renewal failed, retrying", reason=error.why)
                failing = True
            except Exception:
                log.exception("lease renewal failed")
            # An error waits for the next check.
            due_at = check_at if failing else min(check_at, self.output.due_at())
            self._awake.wait(max(0.0, due_at - time.monotonic()))
            self._awake.clear()

    def _renew(self, heartbeat_due: bool) -> None:
        """Renew the leases, or only read their status; kill the children of lost and cancelled claims."""
        with self._lock:
            held = dict(self._held)
        if heartbeat_due:
            status = self._attempts.heartbeat(list(held))
            worker_registry.record_heartbeat(
                self._database, self._worker_id, self._settings.worker_slots, self._tier
            )
        else:
            status = self._attempts.lease_status(list(held))
        for key, running in held.items():
            if key in status.lost:
                running.control.kill("lost")
            elif key in status.cancel_requested:
                running.control.kill("cancelled")

    def _release_waiting_claims(self, now: float) -> None:
        """Release claims that wait behind a long one of their message: another slot may be free."""
        with self._lock:
            held = list(self._held.values())
        waiting = [one for one in held if not one.started and now - one.claimed_at > CLAIM_HOLD_SECONDS]
        if waiting:
            self.release(waiting, "it waited behind a long execution")

"""claim → run → finish: what one worker process does with the ids that a message brings.

Each execution runs in a child process of the runner, never in this one. While it runs, one thread
keeps the leases of all of them alive, and kills what was cancelled or is no longer ours.

A parent that waits for a child execution gives its slot away: a thread is lent to its children, so
that a chain of waiting parents can never hold all slots and starve the work they wait for.
"""

from __future__ import annotations

import os
import secrets as randomness
import socket
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

import structlog

from functory.engine.access import grants
from functory.engine.access.path_grants import ProtectedPaths
from functory.engine.access.secrets import Secrets
from functory.engine.database.connection import Database
from functory.engine.errors import FunctoryError, Invalid, NotFound, Stale, Unavailable
from functory.engine.events.store import Events
from functory.engine.executions import dispatch, file_writes, worker_registry
from functory.engine.executions.attempts import Attempts
from functory.engine.executions.claim import Claim
from functory.engine.executions.retry import AttemptResult
from functory.engine.executions.store import Executions
from functory.engine.functions.grant_approvals import GrantApprovals
from functory.engine.functions.registry import Functions
from functory.engine.functions.state import State
from functory.engine.serialization import json_schema
from functory.engine.settings import Settings
from functory.engine.sources import file_watches
from functory.engine.telemetry import metrics
from functory.workers.environments import Environments, package_folders
from functory.workers.execution.file_writes import collect
from functory.workers.execution.host_functions import EngineHost, Services, error_record
from functory.workers.execution.job_mapping import job_from_claim, log_row, span_row
from functory.workers.execution.poller import Poller
from functory.workers.execution.redaction import Redactor
from functory.workers.execution.slots import Slots
from functory.workers.sandbox.checks.startup import check_startup, check_tier
from functory.workers.sandbox.confinement import syscalls
from functory.workers.sandbox.protocol.control import Control
from functory.workers.sandbox.protocol.job import Outcome
from functory.workers.sandbox.runner import Runner

log = structlog.get_logger("functory.worker")

# How often cancel requests are looked for; heartbeats come less often.
CANCEL_CHECK_SECONDS = 1.0
# Claims of one message run one after another. One that has not begun after this is given back.
CLAIM_HOLD_SECONDS = 1.0


@dataclass
class Running:
    """A claim in this process, and the handle that kills its child."""

    claim: Claim
    claimed_at: float
    control: Control = field(default_factory=Control)
    started: bool = False


class Executor:
    """The executions of one worker process; ``execute`` may be called from many threads.

    ``unheard`` is told how many executions were claimed whose message was sent a moment ago and did not come.
    """

    def __init__(
        self,
        database: Database,
        settings: Settings,
        runner: Runner,
        worker_id: str,
        *,
        owns_database: bool = False,
        on_missing_messages: Callable[[int], None] = lambda _: None,
    ) -> None:
        self._database = database
        self._settings = settings
        self._runner = runner
        self._owns_database = owns_database
        self.worker_id = worker_id
        self._attempts = Attempts(
            database,
            worker_id,
            lease_seconds=settings.lease_seconds,
            isolation=check_tier(settings, runner),
            author_grants=grants.author_grant_kinds(settings),
        )
        self._places = ProtectedPaths(settings)
        self._environments = Environments(settings, database)
        self._services = Services(
            events=Events(database, settings.max_event_bytes),
            executions=Executions(database, settings),
            functions=Functions(database, runner.inspect, settings, self._environments.resolve),
            secrets=Secrets(database, settings),
            state=State(database),
            grant_approvals=GrantApprovals(database, settings),
        )
        self._running: dict[tuple[str, int], Running] = {}
        self._lock = threading.Lock()
        self._closed = threading.Event()
        self._draining = threading.Event()
        self._lease_thread: threading.Thread | None = None
        self._inline_threads: set[threading.Thread] = set()
        self._slots = Slots(settings.worker_slots, self._on_slot_released)
        self._poller = Poller(
            database,
            settings,
            self._attempts,
            self._slots,
            self._run_claimed,
            on_missing_messages=on_missing_messages,
        )

    @classmethod
    def open(
        cls, settings: Settings, *, on_missing_messages: Callable[[int], None] = lambda _: None
    ) -> Executor:
        """An executor with a database and a runner of its own, for a worker process.

        The process gives up being looked into by others of its user (PR_SET_DUMPABLE, prctl(2)): its memory
        and environment hold keys, and where there are no namespaces functions run as the same user.
        """
        syscalls.prctl(syscalls.PR_SET_DUMPABLE, 0, "keep the worker's memory private")
        database = Database(settings.database, pool_size=settings.worker_slots + 4)
        database.listen_for_wakeups()
        return cls(
            database,
            settings,
            Runner.from_settings(settings),
            worker_name(),
            owns_database=True,
            on_missing_messages=on_missing_messages,
        )

    @property
    def database(self) -> Database:
        """Where its executions are."""
        return self._database

    @property
    def tier(self) -> str:
        """How strongly its executions are confined."""
        return self._runner.tier

    def start(self) -> None:
        """Start the runner and the thread that keeps leases alive; raises when its sandbox does not hold."""
        check_startup(self._settings, self._runner)
        self._lease_thread = threading.Thread(target=self._keep_leases, name="functory-leases", daemon=True)
        self._lease_thread.start()
        self._poller.start()

    def execute(self, ids: Sequence[str]) -> None:
        """Claim those of ``ids`` that are still to be run, run them one after another, finish them."""
        self._poller.message_received()
        # All may be taken by what was claimed without messages.
        if not self._slots.acquire(self._draining):
            # The message is used up: another worker shall get a new one now, not after the redispatch time.
            dispatch.redispatch_now(self._database, ids)
            return
        try:
            for running in self._claim_with_retry(ids):
                self._run(running)
        finally:
            self._slots.release()

    @property
    def idle(self) -> bool:
        """Whether nothing runs."""
        return not self._running

    def _claim_with_retry(self, ids: Sequence[str]) -> list[Running]:
        """Claim, and wait for a database that is away: the message is used up, and would only be sent again late."""
        pause = 0.1
        while True:
            try:
                # What an earlier try took without knowing it can be claimed again.
                self._attempts.reconcile()
                return self._claim(ids)
            except Unavailable as error:
                log.warning("a claim waits for the database", executions=len(ids), reason=error.why)
                if self._draining.wait(pause):
                    return []
                pause = min(pause * 2, 5.0)

    def drain(self, grace: float) -> None:
        """Take nothing new; after ``grace`` seconds give back what still runs. Returns at once.

        May be called again with less grace.
        """
        self._draining.set()
        self._poller.stop()
        threading.Thread(
            target=self._kill_after_grace, args=(grace,), name="functory-drain", daemon=True
        ).start()

    def close(self) -> None:
        """Give back everything that runs, and stop. Nothing that was claimed stays behind."""
        self._draining.set()
        self._poller.stop()
        self._kill_all("shutdown")
        deadline = time.monotonic() + 5
        while self._running and time.monotonic() < deadline:
            time.sleep(0.01)
        self._closed.set()
        if self._lease_thread is not None:
            self._lease_thread.join(timeout=5)
        if self._poller.is_alive():
            self._poller.join(timeout=5)
        self._runner.close()
        try:
            worker_registry.deregister(self._database, self.worker_id)
        except FunctoryError:
            log.warning("the worker could not sign off", worker=self.worker_id)
        if self._owns_database:
            self._database.close()

    def _claim(self, ids: Sequence[str]) -> list[Running]:
        return self._register_claims(self._attempts.claim(ids))

    def _register_claims(self, claims: Sequence[Claim]) -> list[Running]:
        now = time.monotonic()
        claimed = [Running(claim, now) for claim in claims]
        with self._lock:
            for running in claimed:
                self._running[running.claim.id, running.claim.fence] = running
        for running in claimed:
            row = running.claim.row
            if row["attempt"] == 1:
                metrics.execution_queue.observe(
                    max(0.0, (row["started_at"] - row["created_at"]).total_seconds())
                )
        return claimed

    def _run_claimed(self, claims: Sequence[Claim]) -> None:
        """Run what the poller has claimed, each on a thread of its own; the slots are taken already."""

        def run(running: Running) -> None:
            try:
                self._run(running)
            finally:
                self._slots.release()

        for running in self._register_claims(claims):
            threading.Thread(target=run, args=(running,), name="functory-claimed", daemon=True).start()

    def _on_slot_released(self) -> None:
        self._poller.slot_freed()

    def _run(self, running: Running) -> None:
        claim = running.claim
        key = (claim.id, claim.fence)
        with self._lock:
            if key not in self._running:
                return
            running.started = not self._draining.is_set()
            if not running.started:
                del self._running[key]
            metrics.worker_slots.labels("busy").set(len(self._running))
        if not running.started:
            self._release_unstarted(key)
            return
        try:
            refused = self._precheck(claim)
            if refused is not None:
                self._finish(claim, refused)
                return
            try:
                job = job_from_claim(claim, package_folders(claim, self._environments))
            except Unavailable as error:
                self._finish(
                    claim,
                    AttemptResult("crashed", error=error_record(error) | {"type": "EnvironmentUnavailable"}),
                )
                return
            except FunctoryError as error:
                self._finish(claim, AttemptResult("failed", error=error_record(error), retryable=False))
                return
            host = EngineHost(claim, self._services, self._run_child_inline, running.control.ended)
            outcome = self._runner.run(job, host, running.control)
            written = self._collect_written_files(claim, outcome)
            if outcome.status == "killed" and outcome.kill_reason in ("lost", "shutdown"):
                # What it did to files stays, though nothing else of it does.
                file_writes.record_writes_of_unfinished(self._database, claim.id, written)
                if outcome.kill_reason == "shutdown":
                    self._attempts.release([key])
                else:
                    log.warning(
                        "a child was killed: the attempt had lost its lease",
                        execution_id=claim.id,
                        fence=claim.fence,
                    )
                return
            ending = self._attempt_result(claim, outcome, Redactor(host.opened_secrets))
            self._finish(claim, replace(host.denied_requests.append_to_log(ending), file_writes=written))
        except Stale:
            metrics.zombies.inc()
            log.warning(
                "a finish was refused: the attempt had lost its lease",
                execution_id=claim.id,
                fence=claim.fence,
            )
        except Unavailable as error:
            # The lease ends, and the reaper gives the execution to somebody else.
            log.warning("the execution was left", execution_id=claim.id, reason=error.why)
        except Exception as error:
            log.exception("the execution could not be carried out", execution_id=claim.id)
            self._give_up(claim, error)
        finally:
            with self._lock:
                self._running.pop(key, None)
                metrics.worker_slots.labels("busy").set(len(self._running))

    def _release_unstarted(self, key: tuple[str, int]) -> None:
        """Give back what was claimed while the end was asked for."""
        try:
            self._attempts.release([key], started=False)
        except FunctoryError as error:
            log.warning(
                "a claim could not be given back; its lease ends", execution_id=key[0], reason=error.why
            )

    def _collect_written_files(self, claim: Claim, outcome: Outcome) -> list[tuple[bytes, str]]:
        """What the attempt left in watched files."""
        if not outcome.written_files:
            return []
        try:
            watched = file_watches.watched_paths(self._database)
        except Unavailable:
            # The result waits for the database, and so does this: any of them may be watched.
            watched = claim.grants.write
        return collect(outcome.written_files, claim.grants.write, watched)

    def _give_up(self, claim: Claim, error: Exception) -> None:
        """A defect of ours: it is told where people look, in the execution, and tried again as after a crash."""
        try:
            self._finish(
                claim, AttemptResult("crashed", error={"type": type(error).__name__, "message": str(error)})
            )
        except Exception:
            log.exception("the failure could not be stored; the lease ends", execution_id=claim.id)

    def _precheck(self, claim: Claim) -> AttemptResult | None:
        """Why a claim is finished without starting anything; None when it can run."""
        name = f"{claim.row['function']} v{claim.row['version']}"
        if claim.row["cancel_requested_at"] is not None:
            return AttemptResult(
                "cancelled", error={"type": "Cancelled", "message": "cancelled before this attempt began"}
            )
        try:
            if claim.problem is not None:
                raise claim.problem
            json_schema.check(claim.version["input_schema"], claim.row["input"], f"input of {name}")
            for kind, value in claim.grants.items():
                if kind in ("read", "write"):
                    # Asked here as well: a link or another machine's folders may lead elsewhere by now.
                    self._places.check(kind, value)
            missing = self._services.secrets.missing(list(claim.grants.secrets))
            if missing:
                raise NotFound(
                    f"{name} needs the secret {missing[0]}",
                    "it is declared but not set",
                    f"functory secret set {missing[0]}",
                )
        except Unavailable:
            raise
        except FunctoryError as error:
            return AttemptResult("failed", error=error_record(error), retryable=False)
        return None

    def _attempt_result(self, claim: Claim, outcome: Outcome, redact: Redactor) -> AttemptResult:
        states = {
            "succeeded": "succeeded",
            "failed": "failed",
            "timed_out": "timed_out",
            "killed": "cancelled",
            "out_of_memory": "failed",
            "output_too_large": "failed",
            "scratch_full": "failed",
        }
        error = outcome.error
        state = states.get(outcome.status, "crashed")
        if outcome.status == "killed":
            error = {"type": "Cancelled", "message": outcome.kill_reason or "cancelled"}
        retryable = outcome.status not in ("output_too_large", "protocol_error")
        if state == "succeeded" and claim.version["declared"].get("validate_output"):
            try:
                json_schema.check(
                    claim.version["output_schema"],
                    outcome.result,
                    f"output of {claim.row['function']} v{claim.row['version']}",
                )
            except Invalid as wrong:
                state, error, retryable = "failed", {"type": "InvalidOutput", "message": str(wrong)}, False
        return AttemptResult(
            state,
            result=redact(outcome.result),
            result_kind=outcome.result_kind,
            warnings=redact(outcome.warnings),
            error=redact(error),
            retryable=retryable,
            spans=[redact(span_row(span)) for span in outcome.spans],
            logs=[redact(log_row(entry)) for entry in outcome.logs],
            duration_seconds=outcome.duration_seconds,
            waited_seconds=outcome.waited_seconds,
        )

    def _finish(self, claim: Claim, result: AttemptResult) -> None:
        """Store the ending; while the database is away, hold on to it: a result is not thrown away."""
        pause = 0.1
        while True:
            try:
                following = self._attempts.finish(claim, result)
                break
            except Unavailable as error:
                log.warning("the result waits for the database", execution_id=claim.id, reason=error.why)
                if self._closed.wait(pause):
                    raise
                pause = min(pause * 2, 5.0)
        function = metrics.function_label(claim.row["function"])
        metrics.execution_attempts.labels(result.outcome).inc()
        metrics.execution_duration.labels(function).observe(result.duration_seconds)
        if following.state != "queued":
            metrics.executions_finished.labels(function, following.state).inc()

    def _run_child_inline(self, ids: Sequence[str]) -> None:
        """Run awaited executions that nobody has begun on a thread of their own."""

        def help_out() -> None:
            try:
                for id_ in ids:
                    if self._draining.is_set():
                        break
                    for running in self._claim([id_]):
                        self._run(running)
            except FunctoryError as error:
                # The dispatcher sends them again; the wait goes on.
                log.warning("a slot could not be lent", reason=error.what)
            finally:
                with self._lock:
                    self._inline_threads.discard(threading.current_thread())

        thread = threading.Thread(target=help_out, name="functory-lent", daemon=True)
        with self._lock:
            self._inline_threads.add(thread)
        thread.start()

    def _keep_leases(self) -> None:
        """Heartbeats, cancels, lost leases; until the executor is closed."""
        beat = 0.0
        while True:
            try:
                now = time.monotonic()
                with self._lock:
                    held = dict(self._running)
                due = now - beat >= self._settings.heartbeat_seconds or beat == 0.0
                pulse = (
                    self._attempts.heartbeat(list(held)) if due else self._attempts.lease_status(list(held))
                )
                if due:
                    worker_registry.record_heartbeat(
                        self._database, self.worker_id, self._settings.worker_slots, self._runner.tier
                    )
                    beat = now
                for key, running in held.items():
                    if key in pulse.lost:
                        running.control.kill("lost")
                    elif key in pulse.cancel_requested:
                        running.control.kill("cancelled")
                self._release_waiting_claims(now)
                self._attempts.reconcile()
            except FunctoryError as error:
                log.warning("no heartbeat", reason=error.why)
            except Exception:
                log.exception("the heartbeat failed")
            if self._closed.wait(min(CANCEL_CHECK_SECONDS, self._settings.heartbeat_seconds)):
                return

    def _release_waiting_claims(self, now: float) -> None:
        """Claims that stand behind a long one in their message: another slot may be free."""
        waiting: list[tuple[str, int]] = []
        with self._lock:
            for key, running in list(self._running.items()):
                if not running.started and now - running.claimed_at > CLAIM_HOLD_SECONDS:
                    waiting.append(key)
                    del self._running[key]
        if waiting:
            self._attempts.release(waiting, "it waited behind a long execution", started=False)

    def _kill_after_grace(self, grace: float) -> None:
        deadline = time.monotonic() + grace
        while self._running and time.monotonic() < deadline and not self._closed.is_set():
            time.sleep(0.05)
        self._kill_all("shutdown")

    def _kill_all(self, reason: str) -> None:
        with self._lock:
            held = list(self._running.values())
        for running in held:
            running.control.kill(reason)


def worker_name() -> str:
    """A name for this process that no other process has had."""
    return f"{socket.gethostname()}:{os.getpid()}:{randomness.token_hex(3)}"

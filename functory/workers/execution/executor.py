"""claim → run → finish: the executions of one worker process.

Each execution runs in a child process of the runner, never in the worker's own. Its lease is renewed meanwhile
(``functory.workers.execution.held_claims``).

A parent that waits for a child execution runs it inline, on an extra thread. So a chain of waiting parents cannot
hold all slots and block the executions that they wait for.
"""

from __future__ import annotations

import os
import random
import secrets as randomness
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Protocol

import structlog

from functory.engine import threads
from functory.engine.access import grants
from functory.engine.access.path_grants import ProtectedPaths
from functory.engine.database.connection import Database
from functory.engine.errors import FunctoryError, Unavailable
from functory.engine.events.batch_publisher import BatchPublisher
from functory.engine.events.decided_events import EventWriter, KnownTriggers
from functory.engine.events.event_publishing import without_thread
from functory.engine.events.exchange import EventPublisher
from functory.engine.events.lineage_tokens import LineageTokens
from functory.engine.executions import dispatch, file_writes, worker_registry
from functory.engine.executions.attempts import Attempts
from functory.engine.executions.claims import Claim
from functory.engine.executions.retry_or_dead import AttemptResult
from functory.engine.functions.registry import Functions
from functory.engine.maintenance import trace_export
from functory.engine.service import STALL_SECONDS
from functory.engine.settings import Settings
from functory.engine.sources import file_watches
from functory.engine.telemetry import traces
from functory.workers.environments import Environments, package_folders
from functory.workers.execution import violations
from functory.workers.execution.engine_services import Services
from functory.workers.execution.file_writes import collect
from functory.workers.execution.held_claims import HeldClaims, Running
from functory.workers.execution.host_functions import EngineHost
from functory.workers.execution.job_mapping import attempt_result, error_record, job_from_claim, refuse_claim
from functory.workers.execution.poller import Poller
from functory.workers.execution.result_groups import MAX_PAUSE_SECONDS, ResultGroup, ResultGroups, defect
from functory.workers.execution.slots import Slots
from functory.workers.execution.trains import Trains, by_version
from functory.workers.execution.unavailable_retry import retry_while_unavailable
from functory.workers.gate.gate import Gate
from functory.workers.redaction.redactor import Redactor
from functory.workers.sandbox.checks.startup import check_startup, check_tier
from functory.workers.sandbox.confinement import syscalls
from functory.workers.sandbox.protocol.job import Job, Outcome
from functory.workers.sandbox.runner import Runner

log = structlog.get_logger("functory.worker")

# Time after the grace period to release the executions that were killed.
RELEASE_SECONDS = 2.0


class TriggerKnowledge(Protocol):
    """Keeps ``known``, what the writer of events knows about the triggers of a database."""

    known: KnownTriggers

    def refresh_if_stale(self) -> None:
        """Read the triggers again if they have changed, in a thread: the call does not wait for the database."""
        ...


KnowTriggers = Callable[[Database], TriggerKnowledge]


class Executor:
    """Runs the executions of one worker process; ``execute`` may be called from many threads.

    ``on_missing_messages`` gets the number of executions that were claimed without a message although one was sent
    shortly before. ``rng`` draws the jitter of retries. ``batches`` publishes the events of claims and results from
    memory; without it they are left to the outbox. Without ``know_triggers`` all of them wait for a router.
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
        rng: random.Random | None = None,
        batches: BatchPublisher | None = None,
        know_triggers: KnowTriggers | None = None,
    ) -> None:
        self._database = database
        self._settings = settings
        self._runner = runner
        self._owns_database = owns_database
        self.worker_id = worker_id
        self._batches = batches
        self._triggers = know_triggers(database) if know_triggers else None
        writer = EventWriter(
            batches or without_thread(settings), self._triggers.known if self._triggers else None
        )
        self._attempts = Attempts(
            database,
            worker_id,
            lease_seconds=settings.lease_seconds,
            isolation=check_tier(settings, runner),
            author_grants=grants.author_grant_kinds(settings),
            rng=rng,
            append_events=writer.append,
            settings=settings,
        )
        self._protected_paths = ProtectedPaths(settings)
        self._environments = Environments(settings, database)
        functions = Functions(database, runner.inspect, settings, self._environments.resolve)
        self._services = Services.of(database, settings, functions)
        self._lineage_tokens = LineageTokens(self._services.secrets.derive_keys)
        self._held_claims = HeldClaims(database, settings, self._attempts, worker_id, runner.tier)
        self._closed = threading.Event()
        self._result_groups = ResultGroups(self._attempts, self._held_claims, self._closed)
        self._trains = Trains(runner, self._held_claims, self._attempts, self._refuse, self._job)
        self._draining = threading.Event()
        self._stop_traces: Callable[[], None] = lambda: None
        self._slots = Slots(settings.worker_slots, self._on_slot_released)
        self._gate = Gate(
            database,
            settings,
            runner,
            self._environments,
            self._services.proposals,
            self._slots,
            worker_id,
            database.new_id,
        )
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
        cls,
        settings: Settings,
        *,
        on_missing_messages: Callable[[int], None] = lambda _: None,
        know_triggers: KnowTriggers | None = None,
    ) -> Executor:
        """Build an executor with its own connections to the database and the broker, and its own runner, for a worker
        process.

        Other processes of the same user can no longer read this one (PR_SET_DUMPABLE, prctl(2)): its memory and
        environment hold keys, and without namespaces functions run as the same user.
        """
        syscalls.prctl(syscalls.PR_SET_DUMPABLE, 0, "keep the worker's memory private")
        database = Database.of(settings, pool_size=connections(settings.worker_slots), by_keys=True)
        database.listen_for_wakeups()
        return cls(
            database,
            settings,
            Runner.from_settings(settings),
            worker_name(),
            owns_database=True,
            on_missing_messages=on_missing_messages,
            batches=BatchPublisher(database, EventPublisher(settings), settings.lease_seconds)
            if settings.publishes
            else None,
            know_triggers=know_triggers,
        )

    @property
    def database(self) -> Database:
        """The database of its executions."""
        return self._database

    @property
    def tier(self) -> str:
        """The confinement tier of its executions."""
        return self._runner.tier

    def start(self) -> None:
        """Check the sandbox, then start renewing leases and polling. Raises when the sandbox does not hold."""
        check_startup(self._settings, self._runner)
        role = "worker" if self._owns_database else "embedded"
        self._stop_traces = trace_export.start(self._settings, self._database, role)
        self._held_claims.start()
        self._poller.start()
        self._gate.start()

    def execute(self, ids: Sequence[str]) -> None:
        """Claim those of ``ids`` that still have to run, run them one after another, and finish them."""
        self._poller.message_received()
        # Executions that were claimed without a message may hold all slots.
        if not self._slots.acquire(self._draining):
            # The message is used up: another worker gets a new one now, not only after the redispatch time.
            dispatch.redispatch_now(self._database, ids)
            return
        try:
            self._run_all(self._claim_with_retry(ids))
        finally:
            self._slots.release()

    @property
    def idle(self) -> bool:
        """True while no execution runs."""
        return len(self._held_claims) == 0

    @property
    def progressing(self) -> bool:
        """False when the thread that polls or the one that renews leases hangs. An unavailable database is no reason:
        both go on trying.
        """
        began = min(self._poller.polled_at, self._held_claims.renewed_at)
        return self._draining.is_set() or time.monotonic() - began < STALL_SECONDS

    def _claim_with_retry(self, ids: Sequence[str]) -> list[Running]:
        """Claim; while the database is unavailable, wait: the message is used up and would be sent again only late."""

        def claim() -> list[Claim]:
            # An earlier claim whose commit outcome was unknown becomes claimable again.
            self._attempts.reconcile()
            return self._attempts.claim(ids)

        def log_wait(error: Unavailable) -> None:
            log.warning("database unavailable, claim waits", executions=len(ids), reason=error.why)

        try:
            claims = retry_while_unavailable(
                claim, self._draining, longest_pause=MAX_PAUSE_SECONDS, on_wait=log_wait
            )
        except Unavailable:
            return []
        return self._held_claims.add(claims)

    def drain(self, grace: float) -> None:
        """Claim nothing more; after ``grace`` seconds, release the executions that still run. Returns at once.

        May be called again with a shorter grace.
        """
        self._draining.set()
        self._poller.stop()
        self._gate.stop()
        threading.Thread(
            target=self._held_claims.release_waiting,
            args=("worker shutdown",),
            name="functory-release",
            daemon=True,
        ).start()
        threading.Thread(
            target=self._kill_after_grace, args=(grace,), name="functory-drain", daemon=True
        ).start()

    def close(self) -> None:
        """Release every claim, and stop."""
        self._draining.set()
        self._poller.stop()
        self._gate.stop()
        self._held_claims.kill_all("shutdown")
        self._held_claims.wait_empty(5, pause=0.01)
        self._closed.set()
        self._result_groups.close()
        self._held_claims.close()
        if self._poller.is_alive():
            self._poller.join(timeout=5)
        self._gate.join(timeout=5)
        self._runner.close()
        try:
            worker_registry.deregister(self._database, self.worker_id)
        except FunctoryError:
            log.warning("worker not deregistered", worker=self.worker_id)
        if self._batches is not None:
            self._batches.close()
        self._stop_traces()
        if self._owns_database:
            self._database.close()

    def _run_claimed(self, claims: Sequence[Claim]) -> None:
        """Run the poller's claims, one thread each; the poller has acquired their slots."""

        def run(running: Running) -> None:
            try:
                self._run_all([running])
            finally:
                self._slots.release()

        held = self._held_claims.add(claims)
        for number, running in enumerate(held):
            if threads.try_start(run, "functory-claimed", running) is None:
                rest = held[number:]
                self._held_claims.release(rest, "the worker had no thread for it")
                self._slots.release(len(rest))
                raise threads.none_left("executions wait")

    def _on_slot_released(self) -> None:
        self._poller.slot_freed()

    def _run_all(self, claims: Sequence[Running]) -> None:
        """Run the claims of one message and store their results: in trains, or one after another."""
        # The claim has written events, and so found out whether the triggers have changed.
        if self._triggers is not None:
            self._triggers.refresh_if_stale()
        results = self._result_groups.group(len(claims))
        try:
            for same in by_version(claims):
                self._run_version(same, results)
        except BaseException:
            # Their leases expire, and the reaper makes the executions claimable again.
            self._held_claims.remove(claims)
            raise

    def _run_version(self, waiting: list[Running], results: ResultGroup) -> None:
        """Run claims of one version."""
        while waiting:
            if self._draining.is_set():
                self._held_claims.release(waiting, "worker shutdown")
                for released in waiting:
                    results.drop(released)
                return
            if len(waiting) > 1:
                waiting = self._trains.run(waiting, results)
                results.settle()
            if waiting:
                # What a train gives back first runs alone.
                self._run(waiting.pop(0), results)

    def _run(self, running: Running, results: ResultGroup) -> None:
        """One claim from its start to its result; every failure ends here."""
        claim = running.claim
        running.redact = redact = Redactor()
        result: AttemptResult | None = None
        try:
            if self._held_claims.begin(running):
                with traces.working_on(claim.id, claim.row.root_id):
                    result = self._refuse(claim) or self._attempt(running, redact)
        except Unavailable as error:
            # The lease expires, and the reaper makes the execution claimable again.
            log.warning("execution abandoned, its lease will expire", execution_id=claim.id, reason=error.why)
        except Exception as error:
            result = defect(claim, error, redact)
        if result is None:
            results.drop(running)
        else:
            results.add(running, result)

    def _attempt(self, running: Running, redact: Redactor) -> AttemptResult | None:
        """Run a claim in a child process. None when there is no result to store: lease lost, or worker shut down.

        ``redact`` learns the secrets that the code asks for.
        """
        claim = running.claim
        try:
            job = self._job(claim)
        except Unavailable as error:
            return AttemptResult("crashed", error=error_record(error) | {"type": "EnvironmentUnavailable"})
        except FunctoryError as error:
            return AttemptResult("failed", error=error_record(error), retryable=False)
        host = EngineHost(
            claim,
            self._services,
            self._run_child_inline,
            running.control.ended,
            redact,
            lend_slot=self._slots.lent,
        )
        live = claim.log_policy.keeps_all(claim.id)
        output = self._held_claims.output.begin(running.key, running.control, redact, lines=live)
        try:
            outcome = self._runner.run(job, host, running.control)
        finally:
            self._held_claims.output.end(output)
        violations.count(outcome)
        self._held_claims.note_end(running)
        written = self._collect_written_files(claim, outcome, redact)
        result = host.denied_requests.append_to_log(attempt_result(claim, outcome, redact))
        running.calls = result.spans
        if outcome.status == "killed" and outcome.kill_reason in ("lost", "shutdown"):
            # Of its result only the writes to files stay, and its output if it still owns the execution.
            file_writes.record_writes_of_unfinished(self._database, claim.id, written)
            if outcome.kill_reason == "shutdown":
                self._attempts.release([running.key], outputs=[output.rest_of(result).output(running.key)])
                self._held_claims.record_released(running, outcome.duration_seconds)
            else:
                log.warning("lease lost, child killed", execution_id=claim.id, fence=claim.fence)
            return None
        return replace(output.rest_of(result), file_writes=written)

    def _refuse(self, claim: Claim) -> AttemptResult | None:
        return refuse_claim(claim, self._services.secrets, self._protected_paths)

    def _job(self, claim: Claim) -> Job:
        folders = package_folders(claim.codes, self._environments)
        return job_from_claim(claim, folders, self._lineage_headers(claim))

    def _lineage_headers(self, claim: Claim) -> Mapping[str, str]:
        """The headers for the requests of a claim; none where it has no network."""
        if not claim.grants.hosts and self._runner.tier != "none":
            return {}
        return self._lineage_tokens.headers(claim.row, self._database.clock.now())

    def _collect_written_files(
        self, claim: Claim, outcome: Outcome, redact: Redactor
    ) -> list[tuple[bytes, str]]:
        """The watched files that the attempt wrote, without those whose name holds a secret."""
        if not outcome.written_files:
            return []
        try:
            watched = file_watches.watched_paths(self._database)
        except Unavailable:
            # The result waits for the database as well: any of the paths may be watched.
            watched = claim.grants.write
        written = collect(outcome.written_files, claim.grants.write, watched)
        return [(path, content) for path, content in written if not redact.names_in(os.fsdecode(path))]

    def _run_child_inline(self, ids: Sequence[str]) -> None:
        """Run awaited executions that no worker has claimed, on an extra thread."""

        def run() -> None:
            try:
                for id_ in ids:
                    if self._draining.is_set():
                        break
                    self._run_all(self._held_claims.add(self._attempts.claim([id_])))
            except FunctoryError as error:
                # The dispatcher sends them again; the parent goes on waiting.
                log.warning("cannot run an awaited child inline, it stays queued", reason=error.what)

        threading.Thread(target=run, name="functory-inline", daemon=True).start()

    def _kill_after_grace(self, grace: float) -> None:
        self._held_claims.wait_empty(grace)
        self._held_claims.kill_all("shutdown")
        self._held_claims.wait_empty(RELEASE_SECONDS)
        if self._owns_database:
            # A silent database does not delay the end: what is not released is recovered when its lease expires.
            self._database.give_up()


def connections(slots: int) -> int:
    """The connections to PostgreSQL that one worker process keeps. A slot needs one for short times only; two are for
    wake-ups, one each for the leases and the poller.
    """
    return min(slots, 8) + 4


def worker_name() -> str:
    """A unique name for this process: host, process id and a random part."""
    return worker_registry.new_id(randomness.token_hex(3))

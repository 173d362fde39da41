"""Runs function code: ``Runner.run`` for an execution, ``Runner.train`` for several of one version, ``Runner.inspect``
for a signature.

The executor of a worker keeps one ``Runner`` and calls it from as many threads as it has slots. Zygotes start
with the first use in each process (see ``functory.workers.sandbox.pool.pool``); a copy of the worker made by
fork starts its own. Every run gives an ``Outcome``; it raises only when the runner is closed.

    with Runner() as runner:
        outcome = runner.run(job, host)
"""

from __future__ import annotations

import os
import threading
import time
import weakref
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from types import TracebackType

import msgspec
import structlog

from functory.engine.errors import FunctoryError, Unavailable
from functory.engine.serialization.control_characters import escape_control_characters
from functory.engine.settings import Settings
from functory.engine.telemetry import sandbox_metrics
from functory.workers.certificates import find_ca_file
from functory.workers.sandbox.confinement.cgroups import Cgroups
from functory.workers.sandbox.network.connection_broker import ConnectionBroker
from functory.workers.sandbox.pool.child import Child
from functory.workers.sandbox.pool.pool import Options, Pool
from functory.workers.sandbox.pool.pool_key import PoolKey, pool_key_of
from functory.workers.sandbox.pool.warm_children import WarmChildren, warm_key_of
from functory.workers.sandbox.pool.zygote_process import remove_stale_folders
from functory.workers.sandbox.protocol.control import Control
from functory.workers.sandbox.protocol.frames import (
    Described,
    Failed,
    FromGuest,
    Inspect,
    ProtocolError,
    Start,
    encode_for_guest,
)
from functory.workers.sandbox.protocol.host import Host
from functory.workers.sandbox.protocol.job import ChildGrants, ChildLimits, Job, Outcome, Signature, Status
from functory.workers.sandbox.protocol.plan import Tier
from functory.workers.sandbox.supervision.inspection import signature_of
from functory.workers.sandbox.supervision.run import Run, with_traffic
from functory.workers.sandbox.supervision.supervisor import Supervisor
from functory.workers.sandbox.supervision.train import Passenger, Train, TrainCalls, train_frames
from functory.workers.sandbox.supervision.train_habits import TrainHabits
from functory.workers.sandbox.supervision.verdict import Verdict, outcome_error

_log = structlog.get_logger(__name__)
_STARTS = 3  # a child found dead before it got its task has run nothing: another one is taken
_DEATH_SECONDS = 5.0
_SCHEMA_BYTES = 1_048_576
_NO_GRANTS = ChildGrants()
_DEFAULT_POOL_KEY = PoolKey()
_INSPECTION_POOL_KEY = PoolKey(inspecting=True)


class Runner:
    """Runs jobs in confined children. Safe to use from many threads and after a fork.

    ``monotonic`` is the clock for limits, ages and durations, in seconds. ``tier`` is the confinement of
    children; None means the strongest that this machine has. ``none`` (no confinement) is used only when it
    is named explicitly. ``private_networks`` lists networks (CIDR) that granted hosts may be in. ``ca_file`` is the
    absolute path of the certificate authorities that functions trust instead of the machine's.
    """

    def __init__(
        self,
        monotonic: Callable[[], float] = time.monotonic,
        *,
        tier: Tier | None = None,
        options: Options | None = None,
        private_networks: Sequence[str] = (),
        ca_file: str = "",
    ) -> None:
        self._monotonic = monotonic
        self._requested_tier: Tier | None = tier
        self._tier: Tier | None = tier
        self._options = options or Options()
        self._private_networks = tuple(private_networks)
        self._ca_file = ca_file
        self._lock = threading.Lock()
        self._habits = TrainHabits()
        self._pool: Pool | None = None
        self._warm: WarmChildren | None = None
        self._broker: ConnectionBroker | None = None
        self._groups: Cgroups | None = None
        self._closed = False
        _runners.add(self)

    @classmethod
    def from_settings(cls, settings: Settings) -> Runner:
        """Build a runner from the settings. Raises ``Invalid`` for a ``ca_file`` that cannot be used."""
        tier = "none" if settings.unsafe_no_sandbox else settings.sandbox_tier
        options = Options(
            zygotes=settings.zygotes or 4 * (os.cpu_count() or 1),
            spares=settings.spares,
            zygote_executions=settings.zygote_executions,
            zygote_seconds=settings.zygote_seconds,
            reuse_calls=settings.reuse_calls,
            reuse_seconds=settings.reuse_seconds,
        )
        return cls(
            tier=None if tier == "auto" else tier,
            options=options,
            private_networks=settings.private_networks,
            ca_file=find_ca_file(settings.ca_file),
        )

    @property
    def tier(self) -> Tier:
        """The confinement of children. Starts a zygote if it is not known yet; ``Unavailable`` when none can
        start."""
        if self._tier is None:
            self._tier = self._ensure_pool().tier
        return self._tier

    @property
    def zygote_pid(self) -> int | None:
        """The pid of the zygote of plain functions, None while there is none."""
        pool = self._pool
        return pool.pid_of(_DEFAULT_POOL_KEY) if pool is not None else None

    def start(self, *, inspecting: bool = False) -> None:
        """Start the zygote of plain functions, or of inspections, now instead of at its first use.

        ``Unavailable`` when it cannot start.
        """
        pool_key = _INSPECTION_POOL_KEY if inspecting else _DEFAULT_POOL_KEY
        self._ensure_pool(pool_key).start(pool_key)

    def close(self) -> None:
        """End every zygote and with it every run in progress; afterwards the runner refuses."""
        with self._lock:
            self._closed = True
            pool, self._pool = self._pool, None
        if self._warm is not None:
            self._warm.close()
        if pool is not None:
            pool.close()
        if self._broker is not None:
            self._broker.stop()
        if self._groups is not None:
            self._groups.close()

    def __enter__(self) -> Runner:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def run(self, job: Job, host: Host, control: Control | None = None) -> Outcome:
        """Run one attempt and wait for its end; ``control`` lets other threads end it.

        Raises ``Unavailable`` only when the runner is closed.
        """
        control = control or Control()
        try:
            whole = encode_for_guest(Start(job=job))
        except (TypeError, ValueError, OverflowError, RecursionError) as error:
            control.ended.set()
            return _not_started("failed", "Invalid", f"the input cannot be sent to the function: {error}")
        try:
            for _ in range(_STARTS):
                outcome = self._run_in_child(job, host, control, whole)
                if outcome is not None:
                    return outcome
        except Unavailable as error:
            if self._closed:
                raise
            return _not_started("sandbox_error", "Unavailable", str(error))
        except OSError as error:
            # No descriptor, process, folder or control group to be had: nothing has run.
            return _not_started("sandbox_error", "SandboxError", f"it could not be started: {error}")
        finally:
            control.ended.set()
        return _not_started("crashed", "ZygoteLost", "the process that starts executions keeps ending")

    def _run_in_child(self, job: Job, host: Host, control: Control, whole: bytes) -> Outcome | None:
        """Run one attempt in a child, and keep the child or end it. None when it was gone before it began: another
        child can be tried. ``whole`` is the first frame for a child that has no codes yet.
        """
        pool = self._ensure_pool()
        pool_key = pool_key_of(job, self._ca_file)
        warm = self._warm if job.reuse and self._may_keep(job) else None
        key = warm_key_of(job, pool_key) if warm else None
        began = self._monotonic()
        child = warm.acquire(key) if warm and key else pool.child(pool_key, job.limits.bounds())
        # A warm one has the codes already.
        known = msgspec.structs.replace(job, codes={}) if child.runs else None
        first = encode_for_guest(Start(job=known)) if known else whole
        run = Run(job, host, child, self._monotonic, control, partial(self._started, pool, began))
        kept = False
        try:
            outcome = run.outcome(first)
            traffic = pool.traffic(child)
            if outcome is not None and traffic is not None:
                sandbox_metrics.sandbox_violations.labels("network").inc(len(traffic.refused))
                outcome = with_traffic(outcome, traffic, self._options.traffic_bytes)
            succeeded = outcome is not None and outcome.status == "succeeded"
            if warm and key and succeeded and run.is_reusable:
                kept = warm.put_back(key, child, tidy=job.tidy)
        finally:
            if not kept:
                pool.reap(child, None if run.child_reported_end else _DEATH_SECONDS)
        if outcome is not None and (child.runs or run.talked):
            # The first run in a process is longer: it loads the code.
            self._habits.note(job.entry, run.seconds, talked=run.talked)
        return outcome

    def may_train(self, job: Job) -> bool:
        """Return True if executions like ``job`` may and should ride a train: ``train`` is then worth its while.

        Its code has no effect outside but through the worker, its process may be kept, and in this process of the
        worker the version has run before, was quick, and never said anything but its result.
        """
        return (
            job.reuse and job.grants == _NO_GRANTS and self._tier != "none" and self._habits.suits(job.entry)
        )

    def train(
        self,
        passengers: Sequence[Passenger],
        *,
        on_outcome: Callable[[Passenger, Outcome], None],
        on_given_back: Callable[[Sequence[Passenger]], None],
    ) -> None:
        """Run attempts of one version in one child, one after another, and wait for the end of all.

        The jobs have the same entry, codes, limits and packages; ask ``may_train`` before. Each passenger is handed
        once, either to ``on_outcome`` as soon as its result has come, in their order, or to ``on_given_back``. What is
        given back has had no effect: run the first of them alone, with ``run``, and the others in any way. It is given
        back at once when its ``control`` was used before it began (then for its reason), and those behind it with
        it; when the child ends; and when the code says something that is not a result.

        Limits hold for each passenger: the time of one begins with the result of the one before. All calls are made on
        this thread, and nothing is watched meanwhile: they should be short. An error of one ends the train.

        Raises ``Unavailable`` only when the runner is closed; then all that were not answered are given back before.
        """
        if not passengers:
            return
        calls = TrainCalls(on_outcome, on_given_back)
        if not self.may_train(passengers[0].job):
            on_given_back(passengers)
            return
        try:
            pool = self._ensure_pool()
        except Unavailable:
            on_given_back(passengers)
            raise
        self._train(pool, passengers, calls)

    def _train(self, pool: Pool, passengers: Sequence[Passenger], calls: TrainCalls) -> None:
        """Find a child for a train, run it there, and give back the passengers that it did not take."""
        warm = self._warm
        assert warm is not None
        wanted = [each for each in passengers if each.control.reason is None and not each.control.withdrawn]
        riding: Sequence[Passenger] = ()
        try:
            if wanted:
                job = wanted[0].job
                key = warm_key_of(job, pool_key_of(job, self._ca_file))
                child = warm.acquire(key)
                kept = False
                try:
                    frames = train_frames([each.job for each in wanted], new=not child.runs)
                    if frames:
                        riding = wanted[: len(frames)]
                        train = Train(riding, child, self._monotonic, calls, pool.task_started)
                        usable = train.run(frames)
                        self._habits.note(job.entry, train.seconds, runs=train.answered, talked=train.talked)
                        kept = usable and warm.put_back(key, child, runs=train.answered, tidy=job.tidy)
                finally:
                    if not kept:
                        pool.reap(child)
        except (Unavailable, OSError) as error:
            # No child to be had: those who run alone meet the same, and report it.
            _log.warning("no process for a train, its executions run alone", reason=str(error))
        finally:
            taken = {id(each) for each in riding}
            rest = [each for each in passengers if id(each) not in taken]
            if rest:
                calls.on_given_back(rest)

    def inspect(
        self,
        source: str,
        name: str,
        timeout: float = 10.0,
        *,
        imports: Sequence[str] = (),
        packages: Sequence[str] = (),
        modules: Mapping[str, str] | None = None,
    ) -> Signature:
        """Return the signature of function ``name`` in ``source``, found by executing the source in a child.

        Errors of the source are never raised: what could not be found out is in ``problems``, and the schema
        of that parameter is ``{}``. ``timeout`` is in seconds; ``packages`` as in ``Job``,
        ``modules`` as in ``Code``.
        """
        limits = ChildLimits(
            wall_seconds=timeout, total_seconds=timeout, cpu_seconds=timeout, result_bytes=_SCHEMA_BYTES
        )
        pool_key = PoolKey(packages=tuple(packages), inspecting=True)
        found: list[Described] = []

        def on_frame(frame: FromGuest, size: int, memory: int) -> Verdict | None:
            if isinstance(frame, Described) and size <= _SCHEMA_BYTES:
                found[:] = [frame]
                return Verdict("succeeded") if frame.final else None
            if isinstance(frame, Failed):
                return Verdict("failed", escape_control_characters(frame.error.message))
            raise ProtocolError(f"{type(frame).__name__} has no place in an inspection")

        verdict: Verdict | None = None
        try:
            first = encode_for_guest(
                Inspect(source=source, name=name, imports=list(imports), modules=dict(modules or {}))
            )
            # A pool key without packages determines the tier; one whose packages cannot be used would not.
            pool = self._ensure_pool(_INSPECTION_POOL_KEY)
            for _ in range(_STARTS):
                child = pool.child(pool_key, limits.bounds())
                supervisor = Supervisor(child, limits, self._monotonic, on_frame, Control())
                try:
                    verdict = supervisor.supervise(first)
                finally:
                    pool.reap(child, None if supervisor.child_reported_end else _DEATH_SECONDS)
                if verdict is not None:
                    break
        except (FunctoryError, TypeError, ValueError) as error:
            verdict = Verdict("crashed", str(error))
        return signature_of(found[0] if found else None, verdict, name)

    def _started(self, pool: Pool, began: float, child: Child) -> None:
        """Note that a child has its task."""
        cold = not child.runs and child.zygote.forks == 1
        start = sandbox_metrics.sandbox_start.labels(pool.tier, str(cold).lower())
        start.observe(self._monotonic() - began)
        pool.task_started(child)

    def _may_keep(self, job: Job) -> bool:
        """Return False where nothing sees the processes that a run leaves behind, unless its author wants them kept."""
        return self._tier != "none" or not job.tidy

    def _ensure_pool(self, pool_key: PoolKey = _DEFAULT_POOL_KEY) -> Pool:
        """Return the pool; the first use starts a zygote of ``pool_key``, which determines the tier."""
        pool = self._pool
        if pool is not None:
            return pool
        with self._lock:
            if self._closed:
                raise Unavailable(
                    "the runner is closed", "the worker is shutting down", "start another worker"
                )
            if self._pool is None:
                remove_stale_folders()
                self._broker = ConnectionBroker(self._private_networks)
                self._groups = Cgroups.open()
                self._pool = self._start_pool(pool_key, self._broker, self._groups)
                self._warm = WarmChildren(self._pool, self._options, self._monotonic)
            return self._pool

    def _start_pool(self, pool_key: PoolKey, broker: ConnectionBroker, groups: Cgroups | None) -> Pool:
        """Build a pool of the requested tier, or of the strongest one in which a zygote starts.

        Each tier's zygote starts only if every step of its confinement succeeds, so a started zygote is
        confined.
        """
        tiers: Sequence[Tier] = (self._requested_tier,) if self._requested_tier else _BY_STRENGTH
        reasons: list[str] = []
        for tier in tiers:
            pool = Pool(tier, self._options, self._monotonic, broker, groups)
            try:
                pool.start(pool_key)
            except Unavailable as error:
                pool.close()
                reasons.append(f"tier {tier}: {error.why}")
                continue
            self._tier = tier
            if tier == "none":
                _log.warning(
                    "isolation is off",
                    consequence="a function can read and write whatever this user can",
                    advice="run only functions that you trust, as a user without rights",
                )
            return pool
        raise Unavailable(
            "functions cannot be confined on this machine",
            "\n".join(reasons),
            "functory doctor says what to change",
        )

    def after_fork(self) -> None:
        """In the child of a fork: forget the zygotes of the parent."""
        self._lock = threading.Lock()
        pool, self._pool = self._pool, None
        if self._warm is not None:
            self._warm.close_inherited()
        if pool is not None:
            pool.close_inherited()
            # It has been found to work here.
            self._requested_tier = pool.tier
        self._warm = None
        self._broker = None
        self._groups = None


_BY_STRENGTH: tuple[Tier, ...] = ("A", "B", "C")
_runners: weakref.WeakSet[Runner] = weakref.WeakSet()


def _after_fork() -> None:
    for runner in list(_runners):
        runner.after_fork()


os.register_at_fork(after_in_child=_after_fork)


def _not_started(status: Status, kind: str, message: str) -> Outcome:
    return Outcome(status=status, error=outcome_error(Verdict(status, message, type=kind)))

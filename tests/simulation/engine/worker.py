"""The worker as a process of the simulation: slots that take messages, and a supervisor of leases."""

from __future__ import annotations

import threading
from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from random import Random
from typing import Any

from functory.engine.access import grants
from functory.engine.errors import ExecutionFailed, FunctoryError, Stale, Unavailable, Uncertain
from functory.engine.events.decided_events import EventWriter
from functory.engine.events.store import Events
from functory.engine.executions import dispatch, worker_registry
from functory.engine.executions import store as execution_store
from functory.engine.executions.attempts import Attempts
from functory.engine.executions.claims import Claim
from functory.engine.executions.retry_or_dead import AttemptResult, NextState
from functory.engine.executions.store import Executions
from functory.workers.execution.child_calls import ChildCalls
from functory.workers.execution.engine_services import Services
from functory.workers.execution.host_functions import EngineHost
from tests.simulation.engine.publishing import SimulatedBatchPublisher, SimulatedTriggerKnowledge
from tests.simulation.engine.world import Process, Steps, Violation, Wait, World

# Virtual seconds between two polls of a slot without a message.
POLL = 3.0
# A worker releases a claim that waits longer than this behind another claim of its message.
PATIENCE = 1.0


@dataclass(eq=False)
class Run:
    """A claim in a worker; ``killed`` is the reason why its child must be killed."""

    claim: Claim
    claimed_at: float
    begun: bool = False
    killed: str = ""

    @cached_property
    def key(self) -> tuple[str, int]:
        return self.claim.id, self.claim.fence


class Waits(Exception):
    """A function waits for its children."""

    def __init__(self, ids: Sequence[str]) -> None:
        super().__init__("waits")
        self.ids = list(ids)


class Later(Exception):
    """A request of a function waits for the database."""

    def __init__(self, ask: Callable[[], Any], error: Unavailable) -> None:
        super().__init__("later")
        self.ask = ask
        self.error = error


class SteppedWaits:
    """Replaces waiting in a thread by an exception, so that the worker's steps do the waiting."""

    def _retry_while_unavailable(self, operation: Callable[[], Any], *, repeatable: bool = True) -> Any:
        try:
            return operation()
        except Unavailable as error:
            if isinstance(error, Uncertain) and not repeatable:
                raise

            def again() -> Any:
                return self._retry_while_unavailable(operation, repeatable=repeatable)

            raise Later(again, error) from None


class SimulatedChildCalls(SteppedWaits, ChildCalls):
    """Child calls whose parent waits in the worker's steps."""

    def _wait(self, ids: Sequence[str], timeout: float | None) -> list[dict[str, Any]]:
        raise Waits(ids)


class SimulatedHost(SteppedWaits, EngineHost):
    """Host functions that wait in the worker's steps."""

    def __init__(self, *given: Any, **named: Any) -> None:
        super().__init__(*given, **named)
        self._child_calls.__class__ = SimulatedChildCalls


class Worker(Process):
    """A worker process: slots that take messages, and a supervisor of leases."""

    def __init__(self, world: World) -> None:
        worker = f"w{len(world.transactions)}-{world.count}"
        super().__init__(world, worker)
        self.slots = world.rng.choice((1, 2, 2))
        self._batches = SimulatedBatchPublisher(world)
        self._knowledge = SimulatedTriggerKnowledge(world)
        # As with a worker that celery starts: it knows no triggers.
        self._knows = world.rng.random() < 0.8
        writer = EventWriter(self._batches, self._knowledge.known if self._knows else None)
        self.attempts = Attempts(
            world.database,
            worker,
            lease_seconds=world.settings.lease_seconds,
            author_grants=grants.author_grant_kinds(world.settings),
            rng=Random(world.rng.random()),
            append_events=writer.append,
        )
        self.running: dict[tuple[str, int], Run] = {}
        self.draining = False
        self._services = Services(
            Events(world.database),
            Executions(world.database, world.settings),
            *[None] * 11,  # type: ignore[arg-type]
        )

    def actors(self) -> Iterator[tuple[str, Steps]]:
        yield "supervisor", self._keep()
        yield "publisher", self._batches.steps()
        yield "triggers", self._knowledge.steps()
        for number in range(self.slots):
            yield f"slot{number}", self._slot()

    def drain(self, grace: float) -> None:
        """Shut down softly: claim nothing more, and release what still runs after ``grace`` virtual seconds."""
        if not self.draining:
            self.world.note("drains", self.name, grace)
            self.draining = True
            self.world.spawn(self, "drain", self._drain(grace))

    def _drain(self, grace: float) -> Steps:
        deadline = self.world.now + grace
        while self.running and self.world.now < deadline:
            yield 0.5, None
        for run in self.running.values():
            run.killed = run.killed or "shutdown"
        for _ in range(20):
            if not self.running:
                break
            yield 0.5, None
        try:
            worker_registry.deregister(self.world.database, self.name)
        except Unavailable:
            pass
        self.world.kill(self, "ended in order")
        yield 0.0, None

    def _slot(self) -> Steps:
        world = self.world
        while not self.draining:
            ids = world.broker.take()
            if ids is None and not world.broker.away:
                yield POLL, "broker"
                continue
            try:
                if ids is None:
                    runs = self._hold(self.attempts.claim_any(1))
                else:
                    yield world.rng.random() * 0.1, None
                    if self.draining:
                        dispatch.redispatch_now(world.database, ids)
                        return
                    runs = self._hold(self.attempts.claim(ids))
            except Unavailable as error:
                # The message is used up; the dispatcher sends another one.
                world.note("no claim", error.why)
                yield 0.5, None
                continue
            yield from self._run_all(runs)
            yield (0.05, None) if runs or ids else (POLL * 0.5, None)

    def _hold(self, claims: Sequence[Claim]) -> list[Run]:
        if self._knows:
            self._knowledge.refresh_if_stale()
        runs = [Run(claim, self.world.now) for claim in claims]
        for run in runs:
            self.running[run.key] = run
            self.world.note("claimed", run.claim.row.function, run.key[0][-4:], "fence", run.key[1])
        self._batches.wake()
        return runs

    def _run_all(self, runs: Sequence[Run]) -> Steps:
        """Run the claims of a message. Their results are finished together, or by and by."""
        ended: list[tuple[Run, AttemptResult]] = []
        for run in runs:
            if ended and self._calls_others(run):
                # A real result waits for others of its message for at most 20 ms. This one may be what the call needs.
                yield from self._finish(ended)
                ended = []
            result = yield from self._run(run)
            if result is not None:
                ended.append((run, result))
            if ended and self.world.rng.random() < 0.5:
                yield from self._finish_all(ended)
            elif ended:
                # The next function may wait for one of them.
                self.world.spawn(self, "results", self._finish_soon(ended))
        yield from self._finish_all(ended)

    def _finish_soon(self, ended: list[tuple[Run, AttemptResult]]) -> Steps:
        yield self.world.rng.random(), None
        yield from self._finish_all(ended)

    def _finish_all(self, ended: list[tuple[Run, AttemptResult]]) -> Steps:
        taken = ended.copy()
        ended.clear()
        yield from self._finish(taken)

    def _calls_others(self, run: Run) -> bool:
        return any(act.calls for act in self.world.deck.behaviours[run.claim.row.function].acts)

    def _run(self, run: Run) -> Generator[Wait, None, AttemptResult | None]:
        """Run a claim; its result, or None when there is none to store."""
        if run.key not in self.running:
            return None
        run.begun = True
        try:
            if run.claim.row.cancel_requested_at is not None:
                return _cancelled()
            if run.claim.problem is not None:
                return AttemptResult("failed", error=_error("problem"), retryable=False)
            result = yield from self._function(run)
            if result is not None:
                # Every result differs from all others, so the engine can tell which one it has stored.
                return replace(result, duration_seconds=self.world.rng.random())
            if run.killed == "shutdown":
                self.attempts.release([run.key])
                self.world.note("released", run.key[0][-4:])
        except Stale:
            # A request of the function was refused.
            self._count_zombie(run)
        except Unavailable as error:
            self.world.note("left", run.key[0][-4:], error.why)
        self.running.pop(run.key, None)
        return None

    def _count_zombie(self, run: Run) -> None:
        self.world.record.zombies += 1
        self.world.note("zombie refused", run.key[0][-4:], "fence", run.key[1])

    def _function(self, run: Run):
        """Simulate the function: its effects, emissions and calls. Returns its result, or None when it was killed."""
        world, rng, claim = self.world, self.world.rng, run.claim
        behaviour = world.deck.behaviours[claim.row.function]
        world.record.begun.append((claim.id.replace("-", ""), claim.fence))
        host = SimulatedHost(claim, self._services, self._lend(run), threading.Event())
        outcome = behaviour.outcome(rng, claim.row.attempt)
        try:
            for act in behaviour.acts:
                yield rng.random() * 0.3, None
                if run.killed:
                    return self._killed(run)
                if act.emits:
                    yield from self._emit(run, host, act.emits)
                else:
                    yield from self._call(run, host, act.calls, act.durable)
        except FunctoryError as error:
            # A request that the engine refuses raises in the function.
            world.note("refused", claim.id[-4:], type(error).__name__)
            outcome = "failed"
        # The child continues while the worker's process is paused.
        ends = world.now + rng.choice(behaviour.seconds)
        while world.now < ends and not run.killed:
            yield min(ends - world.now, 1.0), None
        if run.killed:
            return self._killed(run)
        if outcome == "kill":
            world.kill(self, "by its function")
            yield 0.0, None
        if outcome == "succeeded":
            return AttemptResult("succeeded", result={"fence": claim.fence, "worker": self.name})
        return AttemptResult(outcome, error=_error(outcome))

    def _killed(self, run: Run) -> AttemptResult | None:
        return _cancelled() if run.killed == "cancelled" else None

    def _emit(self, run: Run, host: EngineHost, type_: str) -> Steps:
        yield from self._asked(run, lambda: host.emit(type_, {"by": run.claim.row.function}, None))
        if not run.killed:
            self.world.note("emitted", type_, "by", run.claim.id[-4:])
            self._check_owner(run, "zombie's event", "an event of a zombie was taken")

    def _asked(self, run: Run, ask: Callable[[], Any]) -> Generator[Wait, None, Any]:
        """The answer to a request, once the database is available; None when the run was killed meanwhile."""
        pause = 0.2
        while not run.killed:
            try:
                return ask()
            except Later as later:
                self.world.note("asks again", later.error.why)
                ask = later.ask
                yield pause, None
                pause = min(pause * 2, 5.0)
        return None

    def _check_owner(self, run: Run, code: str, what: str) -> None:
        """Check that a run that has just written for its execution still owns it."""
        row = self.world.database.raw.execute(
            "SELECT state, fence FROM execution WHERE id = ?", (run.claim.id.replace("-", ""),)
        ).fetchone()
        if row != ("running", run.claim.fence):
            raise Violation(
                code, f"{what}: execution {run.claim.id} is {row[0]}, fence {row[1]}; it had {run.key[1]}"
            )

    def _call(self, run: Run, host: EngineHost, function: str, durable: bool) -> Steps:
        """Call another function and wait for it in steps."""
        try:
            row = yield from self._asked(run, lambda: host.call(function, None, {}, [], {}, durable))
        except Waits as waits:
            ids = waits.ids
        else:
            if row is None:
                return
            # The request was answered late: these are the host's next steps.
            ids = [row["id"]]
            self._lend(run)(ids)
        ids = [id_.replace("-", "") for id_ in ids]
        marks = ",".join("?" * len(ids))
        while not run.killed:
            states = self.world.database.raw.execute(
                f"SELECT state FROM execution WHERE id IN ({marks})", ids
            ).fetchall()
            if all(state in execution_store.TERMINAL for (state,) in states):
                if any(state != "succeeded" for (state,) in states):
                    raise ExecutionFailed(f"{function} has failed")
                break
            yield 1.0, "finished"

    def _lend(self, run: Run) -> Callable[[Sequence[str]], None]:
        """Run awaited children in an actor of their own, so that waiting parents never hold all slots."""

        def lend(ids: Sequence[str]) -> None:
            self.world.spawn(self, "lent", help_out(list(ids)))

        def help_out(ids: Sequence[str]) -> Steps:
            for id_ in ids:
                yield 0.0, None
                if self.draining:
                    return
                try:
                    runs = self._hold(self.attempts.claim([id_]))
                except Unavailable:
                    return
                yield from self._run_all(runs)

        return lend

    def _finish(self, ended: Sequence[tuple[Run, AttemptResult]]) -> Steps:
        """Store results in one transaction, however long the database is unavailable."""
        pause = 0.2
        world = self.world
        while ended:
            number = len(world.transactions) + 1
            world.record.finishing[number] = {run.key[0].replace("-", ""): run.key[1] for run, _ in ended}
            try:
                following = self.attempts.finish_many([(run.claim, result) for run, result in ended])
            except Unavailable as error:
                world.note("results wait", len(ended), error.why)
                yield pause, None
                pause = min(pause * 2, 5.0)
                continue
            self._batches.wake()
            for (run, _), next_state in zip(ended, following, strict=True):
                self.running.pop(run.key, None)
                if isinstance(next_state, Stale):
                    self._count_zombie(run)
                elif isinstance(next_state, Exception):
                    raise next_state
                else:
                    self._check_stored(run, next_state)
                    world.note("finished", run.key[0][-4:], "fence", run.key[1], next_state.state)
            return

    def _check_stored(self, run: Run, next_state: NextState) -> None:
        """Check that a final state that the engine has reported is in the database."""
        row = self.world.database.raw.execute(
            "SELECT state FROM execution WHERE id = ?", (run.claim.id.replace("-", ""),)
        ).fetchone()
        if next_state.state != "queued" and row != (next_state.state,):
            raise Violation(
                "result lost", f"execution {run.claim.id} was reported as {next_state.state} and is {row[0]}"
            )

    def _keep(self) -> Steps:
        """Send heartbeats; handle cancel requests, lost leases and claims that wait behind a long one."""
        world = self.world
        every = world.settings.heartbeat_seconds
        seen = -1000.0
        while True:
            held = list(self.running.values())
            try:
                self.attempts.reconcile()
                if world.now - seen > world.settings.lease_seconds * 3:
                    worker_registry.record_heartbeat(world.database, self.name, self.slots, "none")
                    seen = world.now
                if held:
                    pulse = self.attempts.heartbeat([run.key for run in held])
                    for run in held:
                        if run.key in pulse.lost:
                            run.killed = run.killed or "lost"
                        else:
                            self._check_owner(run, "zombie's heartbeat", "a lease was extended by a zombie")
                            if run.key in pulse.cancel_requested:
                                run.killed = run.killed or "cancelled"
                    waiting = [r for r in held if not r.begun and world.now - r.claimed_at > PATIENCE]
                    if waiting:
                        for run in waiting:
                            self.running.pop(run.key, None)
                        self.attempts.release([r.key for r in waiting], "it waited", started=False)
            except Unavailable as error:
                world.note("no heartbeat", error.why)
            yield every * (0.7 + world.rng.random() * 0.3), None


def _cancelled() -> AttemptResult:
    return AttemptResult("cancelled", error=_error("Cancelled"))


def _error(what: str) -> dict[str, str]:
    return {"type": what, "message": what}

"""The roles beside the worker as processes of the simulation: the engine's own objects, called as their loops do."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from datetime import datetime, timedelta

from functory.engine.errors import Unavailable
from functory.engine.events import receipts
from functory.engine.events.event_row import EventRow
from functory.engine.executions.compensation.operator_commands import Compensations
from functory.engine.executions.dispatch_window import DispatchWindow
from functory.engine.maintenance import canceller, compensator
from functory.engine.maintenance.outbox_publisher import OutboxPublisher
from functory.engine.maintenance.reaper import Reaper
from functory.triggers.routing.release import Release
from functory.triggers.routing.router import Decision, Router
from functory.workers.sending.dispatcher import Dispatcher
from functory.workers.sending.sending import Sending
from functory.workers.sending.task_sender import TaskSender
from tests.simulation.engine.publishing import SimulatedBatchPublisher
from tests.simulation.engine.scenario import POISON
from tests.simulation.engine.world import Process, Steps, World

# Virtual seconds between two rounds of a loop without a wake-up.
POLL = 3.0


def now_text(world: World) -> str:
    """The virtual time as SQLite stores it."""
    return f"{world.database.clock.now():%Y-%m-%d %H:%M:%S.%f}"


class Role(Process):
    """A process with one loop: work until there is none, then sleep until a topic or the poll."""

    def __init__(
        self,
        world: World,
        name: str,
        work: Callable[[], bool],
        topic: str | None,
        idle: str,
        poll: float = POLL,
    ) -> None:
        super().__init__(world, name)
        self._work = work
        self._topic = topic
        self._idle = idle
        self._asks_when = ":now" in idle
        self._poll = poll

    def actors(self) -> Iterator[tuple[str, Steps]]:
        yield "loop", self._loop()

    def _moment(self) -> tuple[dict[str, str], ...]:
        """The parameter ``now`` as SQLite stores times, for a query that uses it; empty for any other query."""
        if not self._asks_when:
            return ()
        return ({"now": now_text(self.world)},)

    def _loop(self) -> Steps:
        world = self.world
        while True:
            # An empty round of the engine costs a hundred times as much as this query.
            if world.scalar(self._idle, *self._moment()) is None:
                yield self._poll, self._topic
                continue
            try:
                more = self._work()
            except Unavailable as error:
                world.note("unavailable", error.why)
                yield 0.2 + world.rng.random(), None
                continue
            if more:
                yield world.rng.random() * 0.02, None
            else:
                yield self._poll * (0.5 + world.rng.random()), self._topic


class RouterProcess(Role):
    """The process of a router: beside its loop, one actor publishes from memory and one from the outbox."""

    def __init__(self, world: World, work: Callable[[], bool], batches: SimulatedBatchPublisher) -> None:
        super().__init__(
            world, "router", work, "events", "SELECT 1 FROM event WHERE state = 'pending' LIMIT 1"
        )
        self._batches = batches
        self._sweeper = OutboxPublisher(world.database, world.settings)
        self._sweeper.batches, self._sweeper._exchange = batches, world.broker  # type: ignore[assignment]

    def actors(self) -> Iterator[tuple[str, Steps]]:
        yield from super().actors()
        yield "publisher", self._batches.steps()
        yield "sweeper", self._sweep()

    def _sweep(self) -> Steps:
        world = self.world
        found = "SELECT 1 FROM outbox WHERE claimed_until IS NULL OR claimed_until < :now LIMIT 1"
        while True:
            yield self._poll * (0.5 + world.rng.random()), "outbox"
            if self._batches.waiting or world.scalar(found, {"now": now_text(world)}) is None:
                continue
            try:
                self._sweeper.run_once()
            except Unavailable as error:
                world.note("outbox waits", error.why)


class SimulatedRouter(Router):
    """A router that raises at events of one type, as a defect of the router would make it."""

    world: World

    def decide(self, row: EventRow, now: datetime) -> list[Decision]:
        if row.type == POISON and not self.world.deck.cured(self.world):
            raise RuntimeError("a decision that raises")
        return super().decide(row, now)


def router(world: World) -> Process:
    """A router with small batches, so that two routers share the events."""
    settings = world.settings.model_copy(update={"batch_size": world.rng.choice((2, 4, 16, 16))})
    found = SimulatedRouter(world.database, settings)
    found.world = world
    world.deck.lend_triggers(found._triggers)
    batches = SimulatedBatchPublisher(world)
    found.publish_with(batches)
    if world.rng.random() < 0.8:
        # The dispatcher is another process here, with a window of its own, as that of another router would be.
        window = DispatchWindow()
        direct = Sending(world.database, window, SimulatedSender(world), monotonic=lambda: world.now)
        found.send_with(direct)

    def work() -> bool:
        done = found.route_batch()
        batches.wake()
        world.note("routed", done.events, *done.fired, *(f"{n}:{why}" for n, why in done.suppressed))
        return done.events > 0

    return RouterProcess(world, work, batches)


def flow(world: World) -> Process:
    """The flow-control role: it releases what flow control holds."""
    turn = Release(world.database, world.settings)

    def work() -> bool:
        more = turn.run_once()
        world.note("turn", more)
        return more

    waits = (
        "SELECT 1 FROM match_buffer UNION ALL SELECT 1 FROM cancellation UNION ALL "
        "SELECT 1 FROM backlog WHERE waiting_for_slot LIMIT 1"
    )
    return Role(world, "flow", work, "flow", waits, poll=1.5)


class SimulatedSender(TaskSender):
    """Sends to the simulated broker."""

    def __init__(self, world: World) -> None:
        self._world = world
        self.failed = False

    def send(self, ids: Sequence[str]) -> None:
        self._world.broker.send(ids)

    def close(self) -> None:
        """Nothing is open."""


def dispatcher(world: World) -> Process:
    """The dispatcher role: it sends queued executions to the broker."""
    found = Dispatcher(world.database, world.settings, SimulatedSender(world))
    return Role(
        world,
        "dispatcher",
        lambda: found.dispatch_batch() > 0,
        "executions",
        # Whatever could be sent: new, or sent longer ago than the shortest patience.
        "SELECT 1 FROM backlog WHERE NOT waiting_for_slot AND run_at <= :now UNION ALL"
        " SELECT 1 FROM in_flight WHERE NOT claimed AND dispatched_at"
        f" < datetime(:now, '-{world.settings.redispatch_seconds} seconds') LIMIT 1",
        poll=2.0,
    )


def reaper(world: World) -> Process:
    """The reaper role: it ends attempts whose lease has expired."""
    found = Reaper(world.database, world.settings, trust_at_once=world.rng.random() < 0.2)

    def work() -> bool:
        done = found.reap()
        if any(done.values()):
            world.note("reaped", done)
        return False

    open_ = "SELECT 1 FROM in_flight UNION ALL SELECT 1 FROM backlog WHERE expires_at IS NOT NULL"
    return Role(world, "reaper", work, None, f"{open_} LIMIT 1", poll=world.settings.lease_seconds / 3)


def cancels(world: World) -> Process:
    """The canceller role: it cancels the children of executions that have ended without success."""
    return Role(
        world,
        "cancels",
        lambda: canceller.advance(world.database)[0],
        "finished",
        "SELECT 1 FROM open_cancel LIMIT 1",
    )


def saga(world: World) -> Process:
    """The compensation role: it runs the compensations of failed executions."""
    return Role(
        world,
        "saga",
        lambda: compensator.advance(world.database, world.settings) > 0,
        "finished",
        "SELECT 1 FROM compensation WHERE state IN ('waiting', 'pending', 'running') LIMIT 1",
    )


def compensation_operator(world: World) -> Process:
    """An operator's role: it retries failed compensations."""
    stuck = "SELECT saga_id FROM compensation WHERE state = 'failed' LIMIT 1"

    def work() -> bool:
        Compensations(world.database).retry(world.scalar(stuck))
        world.note("retried compensation")
        return False

    return Role(world, "operator", work, None, stuck, poll=5.0)


def retention(world: World) -> Process:
    """The retention role: it deletes expired delivery receipts."""

    return Role(
        world,
        "retention",
        lambda: any(receipts.delete_expired(world.database, timedelta(days=1)).values()),
        None,
        "SELECT 1",
        poll=60.0,
    )

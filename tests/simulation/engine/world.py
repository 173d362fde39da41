"""The world of a simulation: one scheduler for all processes, and the database that they share.

An actor is a generator. It yields the virtual seconds that it sleeps, and the topic that may wake it. Between two
yields no other actor runs. Virtual time jumps to the next actor. The seed decides the order of all steps.
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from random import Random
from typing import TYPE_CHECKING, Any

from sqlalchemy.engine import Connection

from functory.engine.database.clock import ManualClock
from functory.engine.database.connection import Database
from functory.engine.database.transaction import Tx
from functory.engine.errors import Unavailable
from tests.simulation.engine.sqlalchemy_bypass import Direct, Transaction

if TYPE_CHECKING:
    from tests.simulation.engine.broker import Broker
    from tests.simulation.engine.faults import Plan
    from tests.simulation.engine.scenario import Deck

START = datetime(2026, 1, 1, tzinfo=UTC)
KEPT_STEPS = 40

# Seconds to sleep, and the topic that ends the sleep.
Wait = tuple[float, str | None]
Steps = Generator[Wait, None, None]


class Crash(BaseException):
    """The process ends here; only the scheduler catches it."""


class Violation(AssertionError):
    """A broken promise: its code, and what happened."""

    def __init__(self, code: str, what: str) -> None:
        super().__init__(f"{code}: {what}")
        self.code = code


class Process:
    """A simulated process: actors and memory that are lost together when it dies."""

    def __init__(self, world: World, name: str) -> None:
        self.world = world
        self.name = name
        self.alive = True
        self.paused_until = 0.0

    def actors(self) -> Iterator[tuple[str, Steps]]:
        """The name and the steps of each thread."""
        raise NotImplementedError


@dataclass(eq=False)
class Actor:
    """A thread of a process; ``token`` marks its valid entry in the scheduler's queue."""

    process: Process
    name: str
    steps: Steps
    topic: str | None = None
    at: float = 0.0
    token: int = 0


@dataclass
class Record:
    """What happened outside of the database; the checks compare it with the database."""

    emitted: dict[str, str] = field(
        default_factory=dict
    )  # dedup key → event type, once a process knows that the event is stored
    begun: list[tuple[str, int]] = field(default_factory=list)  # (execution, fence) whose function began
    sent_in_transaction: set[str] = field(default_factory=set)  # executions
    finishing: dict[int, dict[str, int]] = field(
        default_factory=dict
    )  # transaction → the executions that it finished, with the fences of their claims
    published: set[str] = field(default_factory=set)  # events that subscribers got
    keys: dict[str, str] = field(default_factory=dict)  # idempotency key → execution
    replays: list[str] = field(default_factory=list)  # executions that replays created
    zombies: int = 0
    crashes: int = 0
    pauses: int = 0
    outages: int = 0


class World:
    """One run of one seed: its clock, scheduler, database, broker and record."""

    def __init__(
        self, seed: int, database: SimulatedDatabase, deck: Deck, plan: Plan, rng: Random, trace: bool = False
    ) -> None:
        self.seed = seed
        self.rng = rng
        self.deck = deck
        self.plan = plan
        self.settings = deck.settings
        self.database = database
        self.record = Record()
        # The deck's state in this run: the client's script, and whether the router is corrected.
        self.deck_state: dict[str, Any] = {}
        self.broker: Broker
        self.now = 0.0
        self.away_until = 0.0
        self.current: Actor | None = None
        self.processes: list[Process] = []
        self.transactions: list[tuple[float, str]] = []
        self.steps: deque[tuple[Any, ...]] = deque(maxlen=None if trace else KEPT_STEPS)
        self.count = 0
        self._actors: dict[str | None, list[Actor]] = {}
        self._queue: list[tuple[float, float, int, Actor]] = []
        self._clock = ManualClock(START)
        self._last_id = 0
        database.join(self, self._clock)

    def note(self, *what: Any) -> None:
        """Add a step to the trace."""
        name = self.current.name if self.current else "-"
        self.steps.append((round(self.now, 3), name, *what))

    def new_id(self) -> str:
        """A UUIDv7 of the virtual time. Ids are ordered within a run, like those of one real process."""
        value = (int((START.timestamp() + self.now) * 1000) << 18) | self.rng.getrandbits(8)
        self._last_id = value = max(value, self._last_id + 1)
        text = f"{value >> 18:012x}7{value >> 6 & 0xFFF:03x}8{self.rng.getrandbits(52):013x}{value & 63:02x}"
        return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"

    def start(self, make: Callable[[], Process], after: float = 0.0) -> None:
        """Start a process. When it crashes, a new one of its kind replaces it."""
        if after:
            self._push(Actor(_Supervisor(self), "supervisor", self._later(make)), after)
            return
        process = make()
        process.make = make  # type: ignore[attr-defined]
        self.processes.append(process)
        for name, steps in process.actors():
            self.spawn(process, name, steps)

    def _later(self, make: Callable[[], Process]) -> Steps:
        self.start(make)
        yield 0.0, None

    def spawn(self, process: Process, name: str, steps: Steps) -> None:
        """Start a further thread of a process."""
        self._push(Actor(process, f"{process.name}/{name}", steps), self.rng.random() * 0.01)

    def kill(self, process: Process, why: str) -> None:
        """End a process at once, and start its successor later."""
        if not process.alive:
            return
        self.note("killed", process.name, why)
        self.record.crashes += 1
        process.alive = False
        self.processes.remove(process)
        self.start(process.make, 0.5 + self.rng.random() * 4)  # type: ignore[attr-defined]

    def pause(self, process: Process, seconds: float) -> None:
        """Stop all threads of a process for some virtual seconds."""
        self.note("paused", process.name, round(seconds, 1))
        self.record.pauses += 1
        process.paused_until = self.now + seconds

    def signal(self, topics: set[str]) -> None:
        """Wake the actors that wait for one of these topics, unless the wake-up is lost."""
        for topic in sorted(topics):
            for actor in self._actors.get(topic, ()):
                if actor.topic != topic or not actor.process.alive:
                    continue
                # Other wake-ups arrive meanwhile and share the round, as under load.
                at = self.now + self.rng.random() * 0.25
                if at < actor.at and not self.plan.happens(self.plan.lost_wakeup):
                    self._push(actor, at - self.now)

    def _push(self, actor: Actor, delay: float) -> None:
        actor.token += 1
        actor.at = self.now + delay
        heapq.heappush(self._queue, (actor.at, self.rng.random(), actor.token, actor))

    def run(self, until: Callable[[], bool], deadline: float) -> bool:
        """Run the actors until a condition holds. False when virtual time passes ``deadline`` first."""
        queue = self._queue
        while queue:
            at, _, token, actor = heapq.heappop(queue)
            process = actor.process
            if token != actor.token or not process.alive:
                continue
            if at > deadline:
                self._push(actor, at - self.now)
                return False
            if process.paused_until > at:
                # Its threads continue one by one.
                self._push(actor, process.paused_until - self.now + self.rng.random() * 1.5)
                continue
            self.advance_to(at)
            self._step(actor)
            if until():
                return True
        raise AssertionError("no actor is left")

    def advance_to(self, at: float) -> None:
        """Move the clock."""
        if at > self.now:
            self.now = at
            self._clock.set(START + timedelta(seconds=at))

    def _step(self, actor: Actor) -> None:
        self.current = actor
        self.count += 1
        try:
            delay, topic = next(actor.steps)
        except StopIteration:
            return
        except Crash as crash:
            self.kill(actor.process, str(crash))
            return
        finally:
            self.current = None
        if topic != actor.topic:
            if actor.topic is not None:
                self._actors[actor.topic].remove(actor)
            if topic is not None:
                self._actors.setdefault(topic, []).append(actor)
            actor.topic = topic
        self._push(actor, delay)

    def scalar(self, statement: str, *values: Any) -> Any:
        """Query the database without the engine: cheap, and without faults."""
        given = values[0] if values and isinstance(values[0], dict) else values
        row = self.database.raw.execute(statement, given).fetchone()
        return None if row is None else row[0]


class _Supervisor(Process):
    """A process without actors, which owns the steps that start other processes."""

    def __init__(self, world: World) -> None:
        super().__init__(world, "supervisor")


class _Doomed:
    """A connection that fails before one of its statements.

    It replaces the real connection: inside SQLAlchemy a crash would close the only connection to the database in
    memory.
    """

    def __init__(self, connection: Connection, place: int, fate: BaseException) -> None:
        self._connection = connection
        self._left = place
        self._fate = fate

    def execute(self, *given: Any, **named: Any) -> Any:
        self._left -= 1
        if self._left == 0:
            raise self._fate
        return self._connection.execute(*given, **named)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._connection, name)


class SimulatedDatabase(Database):
    """SQLite in memory; a transaction may fail, or crash the process that has begun it.

    With ``usual``, every statement goes through SQLAlchemy's connection.
    """

    def __init__(self, *, usual: bool = False) -> None:
        super().__init__("sqlite:///:memory:")
        self.world: World | None = None
        self.raw: Any = self.engine.raw_connection().driver_connection
        self.raw.create_function("sim_tx", 0, self._number)
        # One connection serves all transactions: the pool is not simulated, and asking it takes as long as a
        # statement.
        self._open = {
            write: self.engine.connect().execution_options(functory_write=write) for write in (True, False)
        }
        self._direct: dict[bool, Any] = {} if usual else {w: Direct(self._open[w]) for w in self._open}

    def _connected(self, *, write: bool = False) -> Any:
        return nullcontext(self._open[write])

    def _begin(self, connection: Connection, *, reading: bool = False, snapshot: bool = False) -> Any:
        if not self._direct:
            return super()._begin(connection, reading=reading, snapshot=snapshot)
        return Transaction(self.raw, write=connection is self._open[True])

    def _number(self) -> int:
        return 0 if self.world is None else len(self.world.transactions)

    def join(self, world: World, clock: ManualClock) -> None:
        """Attach the database to a run."""
        self.world, self.clock, self.new_id = world, clock, world.new_id

    @contextmanager
    def write(self) -> Iterator[Tx]:
        world = self.world
        if world is None:
            with super().write() as tx:
                yield tx
            return
        self._answer(world)
        place, fate = world.plan.fate()
        world.transactions.append((world.now, world.current.name if world.current else "-"))
        with super().write() as tx:
            tx.connection = self._direct.get(True, tx.connection)
            if fate is not None and place > 0:
                tx.connection = _Doomed(tx.connection, place, fate)  # type: ignore[assignment]
            yield tx
            if fate is not None and place == BEFORE_COMMIT:
                raise fate
        if fate is not None and place == AFTER_COMMIT:
            raise fate

    @contextmanager
    def read(self, *, snapshot: bool = False) -> Iterator[Tx]:
        if self.world is not None:
            self._answer(self.world)
        with super().read(snapshot=snapshot) as tx:
            tx.connection = self._direct.get(False, tx.connection)
            yield tx

    def _answer(self, world: World) -> None:
        if world.now < world.away_until:
            raise Unavailable("the database cannot be used", "it is away", "wait")

    def _after_commit(self, tx: Tx) -> None:
        if tx.topics and self.world is not None:
            self.world.signal(tx.topics)


# Where a transaction fails: these, or before a statement (1, 2, …).
BEFORE_COMMIT = -1
AFTER_COMMIT = -2

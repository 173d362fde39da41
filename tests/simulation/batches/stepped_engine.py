"""The engine in one thread, at one batch size. Roles work in turns, each until it has nothing left to do."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

from msgspec.structs import asdict

from functory.engine.database.clock import ManualClock
from functory.engine.database.connection import Database
from functory.engine.events import emit_many
from functory.engine.events.event_row import EventRow
from functory.engine.maintenance import canceller
from functory.engine.maintenance.compensator import Compensator
from functory.engine.maintenance.outbox_publisher import OutboxPublisher
from functory.engine.maintenance.reaper import Reaper
from functory.triggers import definition
from functory.triggers.routing.decision import Decision
from functory.triggers.routing.router import Router
from functory.triggers.trigger_knowledge import WorkerTriggerKnowledge
from functory.workers.execution.executor import Executor
from functory.workers.sending.dispatcher import Dispatcher
from functory.workers.sending.sending import Sending
from functory.workers.sending.task_sender import TaskSender
from tests.simulation.batches import normalised_rows
from tests.simulation.batches.scripted_runner import Behaviour, ScriptedRunner, WorkerKilled
from tests.support.world import World

# More rounds, and more events at once, than any scenario needs.
MAX_ROUNDS, MAX_EVENTS = 200, 2000


class HalfJitter(random.Random):
    """Jitter that does not depend on the order of the draws."""

    def random(self) -> float:
        return 0.5


class _Recorder:
    """Plays the exchange: keeps what subscribers would get."""

    def __init__(self) -> None:
        self.rows: list[dict[str, Any]] = []

    def publish(self, rows: Sequence[EventRow]) -> list[int]:
        self.rows += [asdict(row) for row in rows]
        return [0] * len(rows)

    def close(self) -> None:
        """Nothing is open."""


class _Router(Router):
    """Fails at the events that the scenario names."""

    def __init__(self, engine: SteppedEngine) -> None:
        super().__init__(engine.world.database, engine.world.settings)
        self._engine = engine

    def decide(self, row: EventRow, now: datetime) -> list[Decision]:
        if self._engine.refuses(row):
            raise RuntimeError("a decision that raises")
        return super().decide(row, now)


class _Sender(TaskSender):
    """Sends messages of ``size`` ids to a list."""

    def __init__(self, engine: SteppedEngine) -> None:
        self._engine = engine
        self.failed = False

    def send(self, ids: Sequence[str]) -> None:
        self._engine.send(ids)

    def close(self) -> None:
        """Nothing is open."""


class _Knowledge(WorkerTriggerKnowledge):
    """Reads the triggers between two steps, where the real one does it in a thread."""

    asked = False

    def refresh_if_stale(self) -> None:
        self.asked = self.known.is_stale

    def refresh_if_asked(self) -> None:
        if self.asked:
            self.asked = False
            with self._database.read() as tx:
                self.refresh(tx)


class SteppedEngine:
    """All roles over one database, at one batch size.

    ``states`` are the normalised rows of each settled state. Nothing happens between two steps, and time stands still
    unless the scenario moves it with :meth:`advance`. Without ``decides``, the worker knows no trigger, and all its
    events wait for the router. With ``fresh``, every step is done by new processes: nothing that
    a process remembers can be out of date. ``refuses`` makes the router fail at an event (its row) that it is true for.
    ``runner`` runs functions instead of the scripted one. The router sends what it starts itself, unless ``direct`` is
    False.
    """

    def __init__(
        self,
        url: str,
        home: Path,
        size: int,
        *,
        decides: bool = True,
        fresh: bool = False,
        direct: bool = True,
        runner: Any = None,
        **settings: Any,
    ) -> None:
        self.size = size
        self._decides = decides
        self._knowledge: _Knowledge | None = None
        self._direct = direct
        self._worlds: list[World] = []
        self._fresh = fresh
        self._clock = ManualClock()
        numbers = itertools.count(1)
        # Ids are ordered by time, and equal for all sizes as far as the order of their creation is.
        self._new_id = lambda: _uuid7(int(self._clock.now().timestamp() * 1000), next(numbers))
        # A broker that is never connected to: the dispatcher and the publisher below replace it.
        given: dict[str, Any] = {"broker_url": "redis://127.0.0.1:1/0", "worker_slots": 1} | settings
        self._make_world = lambda: World(
            url,
            home,
            clock=self._clock,
            like=self._worlds[0] if self._worlds else None,
            batch_size=size,
            message_size=size,
            **given,
        )
        self.runner = runner or ScriptedRunner()
        self.states: list[dict[str, list[str]]] = []
        self.messages: list[list[str]] = []
        # The ids of all messages, in the order of sending.
        self.sent: list[str] = []
        self.exchange = _Recorder()
        self.refuses: Callable[[Mapping[str, Any]], bool] = lambda row: False
        self._start()
        self._reaper = Reaper(self.world.database, self.world.settings, trust_at_once=True)

    def _start(self) -> None:
        """Start all processes."""
        self.world = world = self._make_world()
        self._worlds.append(world)
        world.database.new_id = self._new_id
        self._router = _Router(self)
        self._dispatcher = Dispatcher(world.database, world.settings, _Sender(self))
        if self._direct:
            self._router.send_with(Sending(world.database, self._dispatcher.window, _Sender(self)))
        self._publisher = OutboxPublisher(world.database, world.settings)
        self._publisher._exchange = self.exchange  # type: ignore[assignment]
        self._compensator = Compensator(world.database, world.settings)
        self._executor = self._new_worker()

    def _next_step(self) -> None:
        if self._fresh:
            self._start()

    def _new_worker(self) -> Executor:
        return Executor(
            self.world.database,
            self.world.settings,
            self.runner,
            "worker",
            rng=HalfJitter(),
            know_triggers=self._know_triggers if self._decides else None,
        )

    def _know_triggers(self, database: Database) -> _Knowledge:
        self._knowledge = _Knowledge(database)
        return self._knowledge

    def function(
        self, name: str, does: Behaviour | None = None, parameters: str = "given=None", **declared: Any
    ) -> None:
        """Save a function that behaves like ``does``; without it, it returns None."""
        self.world.function(name, parameters, **declared)
        if does is not None:
            self.runner.behaviours[name] = does

    def trigger(
        self,
        name: str,
        function: str,
        on: str | Mapping[str, Any] | None = None,
        *,
        shadow: bool = False,
        **fields: Any,
    ) -> None:
        """Save a trigger on a type of events, or on a pattern; a composite has none."""
        if on is not None:
            fields["on"] = {"type": [on]} if isinstance(on, str) else on
        self.world.triggers.save(name, definition.define(function=function, **fields), shadow=shadow)

    def emit(self, type_: str, *numbers: int, **data: Any) -> list[str]:
        """Emit one event for each number; the event's data has it as ``n``."""
        return [self.world.events.emit(type_, {"n": number} | data) for number in numbers]

    def emit_many(self, type_: str, numbers: Iterable[int]) -> list[str]:
        """Emit events as :meth:`emit` does, in one transaction."""
        given = [{"type": type_, "data": {"n": number}} for number in numbers]
        checked = emit_many.check_all(given, self.world.settings.max_event_bytes)
        return emit_many.write(self.world.database, checked)

    def start(self, function: str, number: int = 0, **options: Any) -> dict[str, Any]:
        """Start an execution by hand."""
        return self.world.executions.start(function, {"given": {"n": number}}, **options)

    def advance(self, seconds: float) -> None:
        """Move the clock."""
        self.world.advance(seconds)

    def send(self, ids: Sequence[str]) -> None:
        """Send ids in messages of the batch size."""
        self.sent += ids
        self.messages += [list(ids[at : at + self.size]) for at in range(0, len(ids), self.size)]

    # The steps of the roles.

    def route(self) -> int:
        """Route until nothing is pending. Returns the number of events."""
        self._next_step()
        total = 0
        # While triggers are halted events are published and not routed.
        while (result := self._router.route_batch()).events or result.published:
            total += result.events
            if total > MAX_EVENTS:
                raise AssertionError("events are routed again and again")
        return total

    def release(self) -> None:
        """Release what flow control holds, until nothing is due."""
        self._next_step()
        _repeat(self.world.turn.run_once)

    def compensate(self) -> None:
        """Advance compensations."""
        _repeat(self._compensator.run_once)

    def go_down(self) -> None:
        """Let cancels reach what is below."""
        _repeat(lambda: canceller.advance(self.world.database)[0])

    def publish(self) -> None:
        """Publish what is in the outbox."""
        _repeat(self._publisher.run_once)

    def dispatch(self) -> int:
        """Send due executions to the workers. Returns their number."""
        self._next_step()
        return self._dispatcher.dispatch_batch()

    def work(self, at_most: int | None = None) -> int:
        """Run the messages that wait. Returns their number."""
        count = 0
        while self.messages and count != at_most:
            count += 1
            self._next_step()
            try:
                self._executor.execute(self.messages.pop(0))
            except WorkerKilled:
                self._executor = self._new_worker()
            if self._knowledge is not None:
                self._knowledge.refresh_if_asked()
        return count

    def reap(self) -> None:
        """Recover executions of lost workers, and expire those that waited too long."""
        self._reaper.reap()

    def wait_for_the_reaper(self) -> None:
        """Let time pass until the reaper has recovered what a lost worker held."""
        for _ in range(8):
            # After a longer pause the reaper would trust no lease.
            self.advance(5)
            self.reap()

    def settle(self) -> None:
        """Let all roles work until nothing is left that is due now, then keep all rows for the comparison."""
        for _ in range(MAX_ROUNDS):
            routed = self.route()
            self.release()
            self.go_down()
            self.compensate()
            self.dispatch()
            # A compensation writes events as well.
            if not self.work() and not routed and not self.route():
                break
        else:
            raise AssertionError(f"no end after {MAX_ROUNDS} rounds")
        self.publish()
        self.compare()

    def compare(self) -> None:
        """Keep all rows as they are now for the comparison."""
        self.states.append(normalised_rows.read(self.world, self.exchange.rows))

    def close(self) -> None:
        """Close the connections."""
        for world in self._worlds:
            world.close()


def _repeat(step: Callable[[], Any]) -> None:
    for _ in range(MAX_ROUNDS):
        if not step():
            return
    raise AssertionError(f"no end after {MAX_ROUNDS} steps")


def _uuid7(milliseconds: int, number: int) -> str:
    text = f"{milliseconds:012x}7{number >> 62:03x}8{number & (1 << 60) - 1:015x}"
    return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"

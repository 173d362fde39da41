"""The clients of the simulated engine: requests of people and programs while it runs.

A client repeats a request that got no answer. A request with an idempotency key takes effect once. A client repeats a
request without a key until the engine confirms its effect.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from functory.engine.errors import Conflict, NotFound, Refused, Unavailable
from functory.engine.events import emit_many
from functory.engine.events.store import Events
from functory.engine.executions.store import Executions
from functory.engine.firings.kill_switch import TRIGGERS, Switches
from functory.engine.firings.trigger_store import Triggers
from functory.triggers import definition
from tests.simulation.engine.scenario import POISON
from tests.simulation.engine.world import Process, Steps, World

# Events that a client emits at once.
MANY = 7


class Client(Process):
    """A process that runs the script of requests; a restarted client continues at the same place."""

    def __init__(self, world: World) -> None:
        super().__init__(world, "client")
        self._events = Events(world.database)
        self._executions = Executions(world.database, world.settings)
        self._triggers = Triggers(world.database)
        self._switches = Switches(world.database)

    def actors(self) -> Iterator[tuple[str, Steps]]:
        yield "script", self._script()

    def _script(self) -> Steps:
        world = self.world
        script: list[str] = world.deck_state["script"]
        while script:
            yield world.rng.random() * 2.5, None
            deed = script[0]
            try:
                self._do(deed, len(script))
            except (Unavailable, NotFound, Conflict, Refused) as error:
                world.note(deed, type(error).__name__, error.why)
                if isinstance(error, Unavailable):
                    continue
            else:
                world.note("client", deed)
            script.pop(0)

    def _do(self, deed: str, number: int) -> None:
        world, record = self.world, self.world.record
        key = f"{deed}:{number}"
        if deed in ("tick", "tock", POISON):
            self._events.emit(deed, {"n": number}, dedup_key=key)
            record.emitted[key] = deed
        elif deed.startswith("many "):
            type_, keys = deed.removeprefix("many "), [f"{key}:{n}" for n in range(MANY)]
            many = [{"type": type_, "data": {"n": number}, "dedup_key": one} for one in keys]
            emit_many.write(world.database, emit_many.check_all(many, world.settings.max_event_bytes))
            record.emitted |= dict.fromkeys(keys, type_)
        elif deed.startswith("start "):
            function = {"delayed": "flaky", "with": "flaky"}.get(deed.split()[1], deed.split()[1])
            delay = 3.0 if deed == "start delayed" else 0.0
            if deed == "start with key":
                key = "the same key"
            row = self._executions.start(function, {}, idempotency_key=key, delay=delay)
            if record.keys.setdefault(key, row["id"]) != row["id"]:
                record.keys[f"{key} twice"] = row["id"]
        elif deed in ("cancel", "replay"):
            ids = [
                id_
                for (id_,) in world.database.raw.execute("SELECT id FROM execution ORDER BY id").fetchall()
            ]
            if not ids:
                raise NotFound("nothing to do it with")
            chosen = world.rng.choice(ids)
            if deed == "cancel":
                self._executions.cancel(chosen)
            else:
                record.replays.append(self._executions.replay(chosen)["id"])
        else:
            self._operate(deed)

    def _operate(self, deed: str) -> None:
        world = self.world
        name = world.rng.choice(sorted(world.deck.rules))
        rule = world.deck.rules[name]
        acts: dict[str, Callable[[], Any]] = {
            "pause": lambda: self._triggers.pause(name),
            "resume": lambda: self._triggers.resume(name),
            "delete": lambda: self._triggers.delete(name),
            "change": lambda: self._triggers.save(
                name,
                definition.define(
                    on=rule.on(), function=rule.function, guards={"max_revisits": world.rng.randrange(1, 5)}
                ),
            ),
            "halt": lambda: self._switches.throw(TRIGGERS),
            "go on": lambda: self._switches.release(TRIGGERS),
            "release": self._release,
        }
        acts[deed]()

    def _release(self) -> None:
        """An operator corrects the defect, and sends quarantined events to the router again."""
        world = self.world
        world.deck_state["cured"] = True
        id_ = world.scalar("SELECT id FROM event WHERE state = 'quarantined'")
        if id_ is not None:
            self._events.release(id_)

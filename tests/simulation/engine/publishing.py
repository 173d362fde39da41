"""What publishes and decides events inside a process of the simulation: threads of the engine, as actors."""

from __future__ import annotations

import threading

from functory.engine.errors import Unavailable
from functory.engine.events.batch_publisher import BatchPublisher
from functory.engine.flow_control.trigger_row import TriggerRow
from functory.engine.serialization import json_codec
from functory.triggers.trigger_knowledge import WorkerTriggerKnowledge
from tests.simulation.engine.world import Steps, World

# Virtual seconds between two looks of an actor that has nothing to do.
IDLE = 6.0


class SimulatedBatchPublisher(BatchPublisher):
    """A batch publisher whose thread is an actor of the simulation."""

    def __init__(self, world: World) -> None:
        lease = world.settings.lease_seconds
        super().__init__(world.database, world.broker, lease, monotonic=lambda: world.now)
        self._world = world
        # It never starts one of its own.
        self._thread = threading.current_thread()

    @property
    def waiting(self) -> bool:
        """True while batches are in memory."""
        return bool(self._waiting)

    @property
    def to_delete(self) -> bool:
        """True while rows of confirmed batches are to be deleted."""
        return bool(self._confirmed)

    def step(self) -> None:
        """Do what the thread does in one round. Raises :class:`Unavailable`."""
        batches = self._take()
        if batches:
            self._publish(batches)
        elif self._pause() == 0.0:
            self._delete_confirmed()

    def wake(self) -> None:
        """Wake the actor when batches are in memory."""
        if self.waiting:
            self._world.signal({"memory"})

    def steps(self) -> Steps:
        """The actor."""
        world = self._world
        while True:
            # Between the commit and the publishing, the process may die.
            busy = self.waiting or self.to_delete
            yield world.rng.random() * 0.3 if busy else IDLE, "memory"
            try:
                self.step()
            except Unavailable as error:
                world.note("outbox stays", error.why)


class SimulatedTriggerKnowledge(WorkerTriggerKnowledge):
    """What a worker knows about the triggers, read by an actor of the simulation."""

    def __init__(self, world: World) -> None:
        super().__init__(world.database)
        self._world = world
        self._asked = False

    def refresh_if_stale(self) -> None:
        if self.known.is_stale:
            self._asked = True
            self._world.signal({"triggers"})

    def wanted_by(self, row: TriggerRow) -> frozenset[str]:
        # To compile a trigger takes longer than all steps of a seed.
        key = f"{json_codec.dumps(row.definition)} {row.state == 'deleted'}"
        if key not in _wanted:
            _wanted[key] = super().wanted_by(row)
        return _wanted[key]

    def steps(self) -> Steps:
        """The actor."""
        while True:
            yield self._world.rng.random() * 0.5 if self._asked else IDLE, "triggers"
            if not self._asked:
                continue
            self._asked = False
            try:
                with self._database.read() as tx:
                    self.refresh(tx)
            except Unavailable as error:
                self._world.note("triggers not read", error.why)


_wanted: dict[str, frozenset[str]] = {}

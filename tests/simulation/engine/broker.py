"""The simulated broker: it drops, doubles and reorders messages, and sometimes loses all of them. Its exchange
confirms events; it may fail after some events of a batch."""

from __future__ import annotations

from collections.abc import Sequence

from functory.engine.errors import Unavailable
from functory.engine.events.event_row import EventRow
from tests.simulation.engine.world import World


class Broker:
    """The simulated broker. A message is a list of execution ids."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._messages: list[list[str]] = []
        self.away_until = 0.0

    @property
    def away(self) -> bool:
        """True while the broker is unavailable."""
        return self._world.now < self.away_until

    def send(self, ids: Sequence[str]) -> None:
        """Accept messages from a dispatcher. May raise :class:`Unavailable` after it has accepted some of them."""
        world, plan = self._world, self._world.plan
        size = world.rng.choice((1, 1, 2, 4, 100))
        for start in range(0, len(ids), size):
            if self.away or plan.happens(plan.failed_send):
                raise Unavailable("the broker cannot be used", "it is away", "wait")
            message = list(ids[start : start + size])
            if world.database.raw.in_transaction:
                world.record.sent_in_transaction.update(message)
            world.note("send", *(id_[-4:] for id_ in message))
            if plan.happens(plan.dropped):
                world.note("dropped")
                continue
            self._messages.append(message)
            if plan.happens(plan.doubled):
                self._messages.append(message)
        if plan.happens(plan.wiped):
            world.note("wiped", len(self._messages))
            self._messages.clear()
        if self._messages:
            world.signal({"broker"})

    def take(self) -> list[str] | None:
        """A message for a worker. Messages come in any order."""
        if self.away or not self._messages:
            return None
        return self._messages.pop(self._world.rng.randrange(len(self._messages)))

    def publish(self, rows: Sequence[EventRow]) -> Sequence[int]:
        """Take events for subscribers, as an exchange does. Raises :class:`Unavailable` after some of them."""
        world, plan = self._world, self._world.plan
        for row in rows:
            if self.away or plan.happens(plan.failed_send):
                raise Unavailable("the broker cannot be used", "it is away", "wait")
            world.record.published.add(row.id.replace("-", ""))
        world.note("published", len(rows))
        return [0] * len(rows)

    def close(self) -> None:
        """Nothing is open."""

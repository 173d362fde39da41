"""Two routers publish side by side: what a subscriber gets is whole, and has by its ids the order of its emitter."""

from __future__ import annotations

import json
import threading
import uuid
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import kombu
import pytest

from functory.engine.database.clock import ServerClock
from functory.engine.events import batch_publisher
from functory.engine.events.batch_publisher import BatchPublisher
from functory.engine.events.event_row import EventRow
from functory.engine.events.exchange import EventPublisher, topic_exchange
from functory.engine.maintenance.outbox_publisher import OutboxPublisher
from functory.engine.settings import Settings, load_settings
from functory.triggers.routing.router import Router
from tests.support.patience import patient
from tests.support.world import World

pytest_plugins = ["tests.support.world"]

NOW = datetime(2026, 1, 1, tzinfo=UTC)
BATCH = 20
SUBJECTS = [f"order-{number}" for number in range(4)]


class SlowPublisher(EventPublisher):
    """Sends nothing until it may."""

    def __init__(self, settings: Settings) -> None:
        super().__init__(settings)
        self.may = threading.Event()

    def publish(self, rows: Sequence[EventRow]) -> list[int]:
        assert self.may.wait(patient(30))
        return super().publish(rows)


class StandingClock(ServerClock):
    """The server's clock at one time, as a process sees it that has measured it with an error."""

    def __init__(self, error: timedelta) -> None:
        super().__init__(lambda: (0.0, NOW))
        self._error = error

    def now(self) -> datetime:
        return NOW + self._error

    def cached_microseconds(self) -> int:
        return int(self.now().timestamp() * 1_000_000)


class Subscriber:
    """A queue with the events of orders, in the order in which they came."""

    def __init__(self, settings: Settings) -> None:
        self._connection = kombu.Connection(settings.broker)
        exchange = topic_exchange(settings.namespace)
        queue = kombu.Queue(f"mine-{uuid.uuid4().hex[:8]}", exchange, routing_key="order.*")
        self._queue = queue(self._connection.channel())
        self._queue.declare()

    def all(self) -> list[dict[str, Any]]:
        found = []
        while (message := self._queue.get(no_ack=True)) is not None:
            found.append(json.loads(message.body))
        return found

    def close(self) -> None:
        self._queue.delete()
        self._connection.release()


@pytest.fixture
def settings(rabbitmq_url: str, tmp_path: Any) -> Settings:
    namespace = f"n{uuid.uuid4().hex[:8]}"
    return load_settings(
        home=tmp_path, broker_url=rabbitmq_url, namespace=namespace, batch_size=BATCH, lease_seconds=30
    )


@pytest.fixture
def subscriber(settings: Settings) -> Iterator[Subscriber]:
    made = Subscriber(settings)
    yield made
    made.close()


def by_subject(events: Sequence[Mapping[str, Any]]) -> dict[str, list[int]]:
    """The numbers of the events of each subject."""
    found = defaultdict(list)
    for one in events:
        found[one["subject"]].append(one["data"]["n"])
    return dict(found)


@pytest.mark.rabbitmq
def test_a_subscriber_that_sorts_by_id_has_the_order_of_the_emitter(
    world: World,
    make_world: Callable[..., World],
    settings: Settings,
    subscriber: Subscriber,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # What was published stays in the outbox, as after a crash before that is recorded.
    monkeypatch.setattr(batch_publisher, "DELETE_SECONDS", 3600)
    other = make_world(clock=world.clock)
    slow = SlowPublisher(settings)
    batches = [
        BatchPublisher(world.database, slow, 30),
        BatchPublisher(other.database, EventPublisher(settings), 30),
    ]
    routers = [Router(one.database, settings) for one in (world, other)]
    for router, own in zip(routers, batches, strict=True):
        router.publish_with(own)
    emitted = [(SUBJECTS[n % len(SUBJECTS)], n) for n in range(2 * BATCH)]
    for subject, n in emitted:
        world.events.emit("order.placed", {"n": n}, subject=subject)
    for router in routers:
        assert router.route_batch().events == BATCH
    assert batches[1].wait_until_published(patient(30))
    slow.may.set()
    assert batches[0].wait_until_published(patient(30))

    came = subscriber.all()
    wanted = by_subject([{"subject": subject, "data": {"n": n}} for subject, n in emitted])
    assert by_subject(came) != wanted
    assert by_subject(sorted(came, key=lambda one: one["id"])) == wanted

    # The claims of both end, so all of it comes again: as the same events.
    world.advance(31)
    publisher = OutboxPublisher(world.database, settings)
    while publisher.run_once():
        pass
    again = subscriber.all()
    publisher.close()
    assert sorted(again, key=lambda one: one["id"]) == sorted(came, key=lambda one: one["id"])
    for own in batches:
        own.close()


def test_an_effect_has_a_higher_id_than_its_cause_of_a_process_whose_clock_is_ahead(
    make_world: Callable[..., World],
) -> None:
    emitter, router, behind = (
        make_world(clock=StandingClock(timedelta(milliseconds=-50 * n))) for n in range(3)
    )
    emitter.function()
    emitter.trigger("t", "work", {"type": ["order.placed"]})
    event_id = emitter.events.emit("order.placed", subject="A-1")
    router.route()
    (claim,) = router.worker.claim_any(1)
    paid_id = behind.events.emit("order.paid", subject="A-1", cause=claim.cause)
    assert event_id < claim.id < paid_id

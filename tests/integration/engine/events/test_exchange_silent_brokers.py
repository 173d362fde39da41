"""A broker that does not answer: publishing waits outside transactions and not for long, and nothing is lost."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pytest
import sqlalchemy as sa

from functory.engine.database import schema
from functory.engine.errors import Unavailable
from functory.engine.events import exchange, outbox
from functory.engine.events.event_publishing import OutboxOnly
from functory.engine.maintenance.outbox_publisher import OutboxPublisher
from functory.engine.settings import load_settings
from functory.workers.sending.dispatcher import Dispatcher
from functory.workers.sending.task_sender import TaskSender
from tests.services.faulty_proxy import FaultyProxy
from tests.support.queue_places import place_of, with_places
from tests.support.world import World, on_postgresql

pytest_plugins = ["tests.support.world"]

BROKERS = [
    pytest.param("redis", marks=pytest.mark.redis),
    pytest.param("rabbitmq", marks=pytest.mark.rabbitmq),
]


@pytest.fixture
def proxy(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[FaultyProxy]:
    """A proxy in front of the broker of the test's parameter. Publishers wait a second for an answer."""
    monkeypatch.setattr(exchange, "PUBLISH_SECONDS", 1)
    with FaultyProxy(request.getfixturevalue(f"{request.param}_url")) as found:
        yield found


@pytest.fixture
def published(world: World, proxy: FaultyProxy) -> Iterator[World]:
    """A world whose broker is behind the proxy."""
    world.settings = load_settings(home=world.home, broker_url=proxy.url)
    world.router.publish_with(OutboxOnly())
    world.function("work")
    yield world


def put(world: World, ids: Sequence[str]) -> None:
    """Put events into the outbox."""
    with world.database.write() as tx:
        outbox.put(tx, ids)


def claims_beside(world: World) -> int:
    """What a worker that polls can claim while the dispatcher waits for the broker."""
    return len(world.worker.claim_any(10))


@on_postgresql
@pytest.mark.parametrize("proxy", BROKERS, indirect=True)
@pytest.mark.parametrize("fault", ["half_open", "swallow"])
def test_a_worker_polls_what_the_dispatcher_cannot_send(
    published: World, proxy: FaultyProxy, fault: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = published
    dispatcher = Dispatcher(world.database, world.settings)
    world.start()
    assert dispatcher.dispatch_batch() == 1
    world.work()
    world.start()
    getattr(proxy, fault)()
    claimed: list[int] = []
    send = TaskSender.send

    def beside(self: TaskSender, ids: Any) -> None:
        try:
            send(self, ids)
        finally:
            claimed.append(claims_beside(world))

    monkeypatch.setattr(TaskSender, "send", beside)
    with pytest.raises(Unavailable, match="the broker cannot be used"):
        dispatcher.dispatch_batch()
    # No lock of the dispatcher was in the way, and its end does not take the execution from the worker.
    assert claimed == [1]
    (row,) = world.rows(schema.execution, schema.execution.c.state == "running")
    assert place_of(world.database, row["id"])["dispatched_at"] is not None
    proxy.heal()
    world.start()
    assert dispatcher.dispatch_batch() == 1
    dispatcher.close()


@pytest.mark.parametrize("proxy", BROKERS, indirect=True)
def test_what_could_not_be_sent_is_due_at_once(published: World, proxy: FaultyProxy) -> None:
    world = published
    dispatcher = Dispatcher(world.database, world.settings)
    proxy.swallow()
    started = world.start()
    for _ in range(2):
        with pytest.raises(Unavailable, match="the broker cannot be used"):
            dispatcher.dispatch_batch()
        assert place_of(world.database, started["id"])["queue"] == "backlog"
    proxy.heal()
    assert dispatcher.dispatch_batch() == 1
    (row,) = with_places(world.database, world.rows(schema.execution))
    assert row["id"] == started["id"] and row["dispatch_count"] == 1
    dispatcher.close()


@pytest.mark.parametrize("proxy", BROKERS, indirect=True)
def test_while_the_broker_is_silent_the_dispatcher_takes_no_rows(
    published: World, proxy: FaultyProxy
) -> None:
    world = published
    dispatcher = Dispatcher(world.database, world.settings)
    proxy.swallow()
    world.start()
    with pytest.raises(Unavailable):
        dispatcher.dispatch_batch()
    with world.statements() as sent, pytest.raises(Unavailable):
        dispatcher.dispatch_batch()
    assert sent == []
    dispatcher.close()


@on_postgresql
@pytest.mark.parametrize("proxy", BROKERS, indirect=True)
def test_events_wait_without_locks_and_are_published_afterwards(
    published: World, proxy: FaultyProxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = published
    publisher = OutboxPublisher(world.database, world.settings)
    world.route()
    while publisher.run_once():
        pass
    assert not world.rows(schema.outbox)
    world.events.emit("order.placed", {})
    world.route()
    proxy.half_open()
    free: list[int] = []
    publish = exchange.EventPublisher.publish

    def beside(self: exchange.EventPublisher, rows: Any) -> list[int]:
        with world.database.write() as tx:
            locked = sa.select(schema.outbox).with_for_update(skip_locked=True)
            free.append(len(tx.rows(locked)))
        return publish(self, rows)

    monkeypatch.setattr(exchange.EventPublisher, "publish", beside)
    with pytest.raises(Unavailable, match="the broker cannot be used"):
        publisher.run_once()
    assert free == [1]
    assert len(world.rows(schema.outbox)) == 1
    publisher.run_once()
    assert not world.rows(schema.outbox)
    publisher.close()


def test_two_publishers_do_not_publish_the_same_event(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    published: list[str] = []
    second: list[bool] = []

    def publish(self: exchange.EventPublisher, rows: Any) -> list[int]:
        published.extend(row.id for row in rows)
        if not second:
            second.append(True)
            OutboxPublisher(world.database, world.settings).run_once()
        return []

    monkeypatch.setattr(exchange.EventPublisher, "publish", publish)
    ids = [world.events.emit("order.placed", {"n": n}) for n in range(3)]
    put(world, ids)
    OutboxPublisher(world.database, world.settings).run_once()
    assert published == ids and not world.rows(schema.outbox)


def test_events_of_a_publisher_that_died_are_published_by_another(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Died(BaseException):
        """The process ends."""

    published: list[str] = []

    def die(self: exchange.EventPublisher, rows: Any) -> list[int]:
        raise Died

    def publish(self: exchange.EventPublisher, rows: Any) -> list[int]:
        published.extend(row.id for row in rows)
        return []

    id_ = world.events.emit("order.placed", {})
    put(world, [id_])
    publisher = OutboxPublisher(world.database, world.settings)
    monkeypatch.setattr(exchange.EventPublisher, "publish", die)
    with pytest.raises(Died):
        publisher.run_once()
    monkeypatch.setattr(exchange.EventPublisher, "publish", publish)
    publisher.run_once()
    assert published == []
    world.advance(world.settings.lease_seconds + 1)
    publisher.run_once()
    assert published == [id_] and not world.rows(schema.outbox)

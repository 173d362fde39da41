"""Every event is published at least once, in order: by the process that routes it, or from the outbox."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import pytest

from functory.engine.database import schema
from functory.engine.errors import Unavailable
from functory.engine.events import batch_publisher, event_row, outbox, routing_queue
from functory.engine.events.batch_publisher import BatchPublisher
from functory.engine.events.event_publishing import OutboxOnly
from functory.engine.events.event_row import EventRow
from functory.engine.firings.kill_switch import TRIGGERS, Switches
from functory.engine.maintenance import state_gauges
from functory.engine.maintenance.outbox_publisher import OutboxCleaner, OutboxPublisher
from functory.engine.settings import load_settings
from tests.support.patience import patient
from tests.support.waiting import wait_for
from tests.support.world import World, on_postgresql

pytest_plugins = ["tests.support.world"]


class Exchange:
    """Plays the broker: keeps the ids that it has confirmed. ``down`` lets it fail, ``before`` is called first."""

    def __init__(self) -> None:
        self.ids: list[str] = []
        self.calls = 0
        self.down = False
        self.before: Callable[[], Any] = lambda: None

    def publish(self, rows: Sequence[EventRow]) -> list[int]:
        self.calls += 1
        self.before()
        if self.down:
            raise Unavailable("the broker cannot be used")
        self.ids += [row.id for row in rows]
        return [100] * len(rows)

    def close(self) -> None:
        """Nothing is open."""


class Publishers:
    """The publishers of a router's process, and the broker of both."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.exchange = Exchange()
        settings = load_settings(home=world.home, broker_url="redis://127.0.0.1:1/0", lease_seconds=30)
        self.service = OutboxPublisher(world.database, settings)
        self.service._exchange = self.exchange  # type: ignore[assignment]
        self.batches = BatchPublisher(world.database, self.exchange, 30)
        self.service.batches = self.batches
        world.router._settings = settings
        world.router.publish_with(self.batches)

    def emit(self, count: int = 1, type_: str = "order.placed") -> list[str]:
        return [self.world.events.emit(type_, {"n": n}) for n in range(count)]

    def settle(self) -> list[str]:
        """Wait until nothing is in memory, publish what is left, and return what the broker has."""
        assert self.batches.wait_until_published()
        while self.service.run_once():
            pass
        return self.exchange.ids

    def waiting(self) -> list[dict[str, Any]]:
        return self.world.rows(schema.outbox)


@pytest.fixture
def publishers(world: World, monkeypatch: pytest.MonkeyPatch) -> Iterator[Publishers]:
    monkeypatch.setattr(batch_publisher, "RETRY_SECONDS", 0.0)
    made = Publishers(world)
    yield made
    made.service.close()


def test_what_is_routed_together_is_one_row_and_one_confirm(publishers: Publishers) -> None:
    ids = publishers.emit(100)
    assert publishers.waiting() == []
    publishers.world.route()
    assert publishers.settle() == ids
    assert publishers.exchange.calls == 1
    wait_for(lambda: not publishers.waiting(), "an empty outbox")


def test_the_row_of_a_confirmed_batch_goes_with_the_next_one(
    publishers: Publishers, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(batch_publisher, "DELETE_SECONDS", 3600)
    first, second = publishers.emit(), []
    publishers.world.route()
    publishers.settle()
    (row,) = publishers.waiting()
    second = publishers.emit()
    publishers.world.route()
    (other,) = publishers.waiting()
    assert other["id"] != row["id"]
    assert publishers.settle() == first + second


def test_routing_goes_on_while_a_confirm_is_outstanding(publishers: Publishers) -> None:
    silent = threading.Event()
    publishers.exchange.before = lambda: silent.wait(patient(10))
    first = publishers.emit()
    publishers.world.route()
    second = publishers.emit()
    publishers.world.route()
    assert publishers.exchange.ids == []
    assert {row["claimed_until"] is None for row in publishers.waiting()} == {False}
    silent.set()
    assert publishers.settle() == first + second


def test_a_batch_is_never_overtaken_by_one_of_the_memory(publishers: Publishers) -> None:
    publishers.exchange.down = True
    first = publishers.emit()
    publishers.world.route()
    assert publishers.batches.wait_until_published()
    wait_for(lambda: publishers.waiting()[0]["claimed_until"] is None, "the batch is left to others")
    publishers.exchange.down = False
    # The first one still waits, so this one waits behind it.
    second = publishers.emit()
    publishers.world.route()
    assert publishers.batches.wait_until_published()
    assert publishers.exchange.ids == []
    assert publishers.settle() == first + second
    third = publishers.emit()
    publishers.world.route()
    assert publishers.batches.wait_until_published()
    assert publishers.exchange.ids == first + second + third


@pytest.mark.parametrize("why", ["the broker failed", "the memory was full"])
def test_a_batch_waits_for_older_ones_that_another_process_publishes_now(
    publishers: Publishers, why: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = publishers.world
    if why == "the broker failed":
        publishers.exchange.down = True
    else:
        monkeypatch.setattr(batch_publisher, "MAX_EVENTS", 0)
    publishers.emit()
    world.route()
    assert publishers.batches.wait_until_published()
    wait_for(lambda: publishers.waiting()[0]["claimed_until"] is None, "the batch is left to others")
    publishers.exchange.down = False
    monkeypatch.setattr(batch_publisher, "MAX_EVENTS", 100)
    with world.database.write() as tx:
        ids, _ = outbox.claim_unpublished(tx, 10, 30)
    second = publishers.emit()
    world.route()
    assert publishers.batches.wait_until_published()
    assert publishers.exchange.ids == []
    with world.database.write() as tx:
        outbox.mark_published(tx, ids)
    assert publishers.settle() == second
    third = publishers.emit()
    world.route()
    assert publishers.batches.wait_until_published()
    assert publishers.exchange.ids == second + third


def test_a_batch_that_was_begun_before_a_failure_waits_behind_the_one_that_failed(
    publishers: Publishers,
) -> None:
    world, done, silent = publishers.world, threading.Event(), threading.Event()
    before = publishers.emit()
    world.route()
    assert publishers.settle() == before

    def fail() -> None:
        done.set()
        silent.wait(patient(10))
        publishers.exchange.before = lambda: None
        raise Unavailable("the broker cannot be used")

    publishers.exchange.before = fail
    first = publishers.emit()
    world.route()
    done.wait(patient(10))
    second = publishers.emit()
    world.route()
    silent.set()
    assert publishers.settle() == before + first + second


def test_a_full_memory_leaves_batches_to_the_outbox(
    publishers: Publishers, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(batch_publisher, "MAX_EVENTS", 2)
    silent = threading.Event()
    publishers.exchange.before = lambda: silent.wait(patient(10))
    ids = []
    for _ in range(6):
        ids += publishers.emit()
        publishers.world.route()
    assert publishers.batches._waiting_events <= 2
    assert len(publishers.waiting()) == 6
    silent.set()
    assert publishers.settle() == ids


def test_a_rolled_back_batch_is_not_published(publishers: Publishers) -> None:
    (id_,) = publishers.emit()
    with pytest.raises(RuntimeError), publishers.world.database.write() as tx:
        publishers.batches.put(tx, routing_queue.take_pending(tx, 10).unpublished)
        raise RuntimeError
    assert publishers.settle() == []
    publishers.world.route()
    assert publishers.settle() == [id_]


def test_what_a_dead_process_has_left_is_published_when_its_claim_ends(publishers: Publishers) -> None:
    (id_,) = publishers.emit()
    world = publishers.world
    with world.database.write() as tx:
        routing_queue.mark_routed(tx, [id_])
        outbox.put(tx, [id_], claim_seconds=30)
    assert publishers.settle() == []
    world.advance(31)
    assert publishers.settle() == [id_]
    assert publishers.waiting() == []


def test_waiting_events_are_published_once_while_triggers_are_halted(publishers: Publishers) -> None:
    world = publishers.world
    Switches(world.database).throw(TRIGGERS)
    ids = publishers.emit(3)
    for _ in range(3):
        world.route()
    assert publishers.settle() == [*_switch_events(world), *ids]
    assert {row["state"] for row in world.rows(schema.event)} == {"pending"}
    later = publishers.emit(1)
    world.route()
    Switches(world.database).release(TRIGGERS)
    world.route()
    assert {row["state"] for row in world.rows(schema.event)} == {"routed"}
    published = publishers.settle()
    assert sorted(published) == sorted({*published}) and set(published) >= {*ids, *later}


def _switch_events(world: World) -> list[str]:
    return [row["id"] for row in world.rows(schema.event) if row["type"] != "order.placed"]


def test_an_event_that_cannot_be_routed_is_published_once(
    publishers: Publishers, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = publishers.world
    real = world.router.decide

    def poisoned(row: Mapping[str, Any], now: Any) -> Any:
        if row["type"] == "poison":
            raise ValueError("no")
        return real(row, now)

    monkeypatch.setattr(world.router, "decide", poisoned)
    (id_,) = publishers.emit(1, "poison")
    world.route()
    assert publishers.settle() == [id_]
    for _ in range(5):
        world.advance(60)
        world.route()
    assert world.events.get(id_)["state"] == "quarantined"
    monkeypatch.setattr(world.router, "decide", real)
    assert world.events.release_all() == 1
    world.route()
    assert world.events.get(id_)["state"] == "routed"
    assert publishers.settle() == [id_]


def test_without_a_publisher_in_the_process_the_outbox_has_the_batch(world: World) -> None:
    world.router.publish_with(OutboxOnly())
    for n in range(3):
        world.events.emit("order.placed", {"n": n})
    world.route()
    (row,) = world.rows(schema.outbox)
    assert (row["count"], row["claimed_until"]) == (3, None)
    gauges = {one.name: one for one in state_gauges.read(world.database, world.settings)}
    assert gauges["functory_outbox_pending"].samples[0].value == 3
    assert world.lineage.open_work()["unpublished events"] == 3
    first = world.rows(schema.event)[0]["id"]
    assert world.lineage.open_work(first)["unpublished events"] == 1


def test_without_a_broker_nothing_is_left_in_the_outbox(world: World) -> None:
    ids = [world.events.emit("order.placed", {"n": n}) for n in range(3)]
    world.route()
    assert world.rows(schema.outbox) == []
    with world.database.write() as tx:
        outbox.put(tx, ids)
    OutboxCleaner(world.database, world.settings).run_once()
    assert world.rows(schema.outbox) == []


def test_a_long_outbox_drains_in_batches(publishers: Publishers) -> None:
    ids = publishers.emit(450)
    with publishers.world.database.write() as tx:
        outbox.put(tx, ids)
    assert [row["count"] for row in publishers.waiting()] == [200, 200, 50]
    assert publishers.settle() == ids
    assert publishers.exchange.calls == 3
    assert publishers.waiting() == []


def test_only_the_part_of_a_shared_transaction_that_was_kept_is_published(publishers: Publishers) -> None:
    ids = publishers.emit(3)
    with publishers.world.database.write() as tx:
        rows = routing_queue.take_pending(tx, 10).unpublished
        publishers.batches.put(tx, rows[:1])
        with pytest.raises(RuntimeError), tx.savepoint():
            publishers.batches.put(tx, rows[1:2])
            raise RuntimeError
        publishers.batches.put(tx, rows[2:])
    assert publishers.batches.wait_until_published()
    assert publishers.exchange.ids == [ids[0], ids[2]]


def test_batches_that_follow_each_other_closely_are_published_together(
    publishers: Publishers, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(batch_publisher, "LINGER_SECONDS", 60.0)
    ids: list[str] = []
    for _ in range(3):
        ids += publishers.emit()
        publishers.world.route()
    assert publishers.exchange.calls == 0
    # A round that is full, or the end, does not wait for more.
    ids += publishers.emit(batch_publisher.ROUND_EVENTS)
    publishers.world.route()
    wait_for(lambda: len(publishers.exchange.ids) > batch_publisher.ROUND_EVENTS / 2)
    ids += publishers.emit()
    publishers.world.route()
    publishers.batches.close()
    assert publishers.exchange.ids == ids


def test_what_is_left_to_others_does_not_overtake_the_memory(
    publishers: Publishers, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(batch_publisher, "MAX_EVENTS", 2)
    world, exchange = publishers.world, publishers.exchange
    asked, answer = threading.Event(), threading.Event()

    def be_silent() -> None:
        asked.set()
        answer.wait(patient(20))

    exchange.before = be_silent
    ids: list[str] = []
    for _ in range(8):
        ids += publishers.emit()
        world.route()
    assert asked.wait(patient(20))
    # A publisher of another process publishes whatever is free.
    others = Exchange()
    others.ids = exchange.ids
    beside = OutboxPublisher(world.database, world.router._settings)
    beside._exchange = others  # type: ignore[assignment]
    assert not beside.run_once(), "what came later is free before what came earlier is published"
    answer.set()
    wait_for(lambda: [row for row in publishers.waiting() if row["claimed_until"] is None])
    assert exchange.ids == ids[: len(exchange.ids)]
    while beside.run_once():
        pass
    assert publishers.settle() == ids
    beside.close()


@on_postgresql
def test_transactions_side_by_side_are_published_from_memory(publishers: Publishers) -> None:
    world, batches = publishers.world, publishers.batches
    ids = publishers.emit(2)
    rows = [event_row.from_mapping(world.events.get(id_)) for id_ in ids]
    with world.database.write() as one, world.database.write() as two:
        batches.put(one, rows[:1])
        batches.put(two, rows[1:])
    assert batches.wait_until_published()
    assert sorted(publishers.exchange.ids) == ids
    # Nothing was left to others, so the next one need not ask.
    assert batches._ways.sure


def beside(publishers: Publishers, exchange: Exchange) -> OutboxPublisher:
    """The outbox publisher of another process."""
    made = OutboxPublisher(publishers.world.database, publishers.world.router._settings)
    made._exchange = exchange  # type: ignore[assignment]
    return made


def left_batches(publishers: Publishers, count: int) -> list[str]:
    """Batches of a worker that had no broker: each is as large as one round of a publisher."""
    ids: list[str] = []
    for _ in range(count):
        batch = publishers.emit(outbox.MAX_BATCH)
        with publishers.world.database.write() as tx:
            outbox.put(tx, batch)
        ids += batch
    return ids


def test_one_process_at_a_time_publishes_what_waits_so_a_later_batch_comes_later(
    publishers: Publishers,
) -> None:
    exchange = publishers.exchange
    other = beside(publishers, exchange)

    def look() -> None:
        exchange.before = lambda: None
        assert not other.run_once(), "it takes the batch behind the one that is being published"

    ids = left_batches(publishers, 3)
    exchange.before = look
    assert publishers.settle() == ids
    # Nothing waits any more: the next ones may be published by any process.
    more = left_batches(publishers, 1)
    assert other.run_once()
    assert exchange.ids == ids + more
    other.close()


def test_a_process_that_cannot_reach_the_broker_leaves_what_waits_to_another(publishers: Publishers) -> None:
    other = beside(publishers, publishers.exchange)
    ids = left_batches(publishers, 2)
    publishers.exchange.down = True
    with pytest.raises(Unavailable):
        publishers.service.run_once()
    publishers.exchange.down = False
    while other.run_once():
        pass
    assert publishers.exchange.ids == ids
    other.close()


def test_what_waits_behind_a_killed_publisher_is_published_when_its_lease_ends(
    publishers: Publishers,
) -> None:
    class Killed(BaseException):
        """The process ends."""

    other = beside(publishers, publishers.exchange)

    def die() -> None:
        publishers.exchange.before = lambda: None
        raise Killed

    ids = left_batches(publishers, 2)
    publishers.exchange.before = die
    with pytest.raises(Killed):
        publishers.service.run_once()
    assert not other.run_once()
    publishers.world.advance(31)
    while other.run_once():
        pass
    assert publishers.exchange.ids == ids
    other.close()

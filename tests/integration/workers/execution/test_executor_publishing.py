"""A worker publishes the events of its executions from memory, in the order of their commits."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from functory.engine.database import schema
from functory.engine.errors import Unavailable
from functory.engine.events.batch_publisher import BatchPublisher
from functory.engine.events.event_publishing import OutboxOnly
from functory.engine.events.event_row import EventRow
from functory.triggers.trigger_knowledge import WorkerTriggerKnowledge
from functory.workers.execution.executor import Executor
from functory.workers.sandbox.runner import Runner
from tests.support.patience import patient
from tests.support.waiting import wait_for
from tests.support.world import World

pytest_plugins = ["tests.support.world"]

LEASE_SECONDS = 30


class Exchange:
    """Plays the broker: keeps types and executions of what it has confirmed. ``before`` is called first."""

    def __init__(self) -> None:
        self.confirmed: list[tuple[str, str]] = []
        self.before: Callable[[], Any] = lambda: None
        self.closed = False

    def publish(self, rows: Sequence[EventRow]) -> list[int]:
        self.before()
        self.confirmed += [(row.data["execution_id"], row.type) for row in rows]
        return [100] * len(rows)

    def close(self) -> None:
        self.closed = True


@pytest.fixture
def exchange() -> Exchange:
    return Exchange()


@pytest.fixture(params=["knows triggers", "knows no triggers"])
def executor(world: World, exchange: Exchange, request: pytest.FixtureRequest) -> Executor:
    world.function("work")
    world.route()
    executor = Executor(
        world.database,
        world.settings,
        Runner(),
        "worker",
        batches=BatchPublisher(world.database, exchange, LEASE_SECONDS),
        know_triggers=WorkerTriggerKnowledge if request.param == "knows triggers" else None,
    )
    request.addfinalizer(executor.close)
    executor.start()
    return executor


def run(world: World, executor: Executor, count: int = 1) -> list[tuple[str, str]]:
    """Run executions. Returns their events, in the order of their subscribers."""
    ids = [world.start()["id"] for _ in range(count)]
    executor.execute(ids)
    wait_for(lambda: {world.executions.get(id_)["state"] for id_ in ids} == {"succeeded"})
    return [(id_, f"execution.{state}") for state in ("started", "succeeded") for id_ in ids]


def test_a_start_is_published_before_its_end(world: World, executor: Executor, exchange: Exchange) -> None:
    expected = run(world, executor, 3) + run(world, executor)
    executor.close()
    order = [exchange.confirmed.index(one) for one in expected if one[1] == "execution.started"]
    assert sorted(exchange.confirmed) == sorted(expected)
    for id_ in {id_ for id_, _ in expected}:
        assert [type_ for other, type_ in exchange.confirmed if other == id_] == [
            "execution.started",
            "execution.succeeded",
        ]
    assert order == sorted(order)


def test_a_worker_that_ends_publishes_its_last_results(
    world: World, executor: Executor, exchange: Exchange
) -> None:
    silent = threading.Event()
    exchange.before = lambda: silent.wait(patient(10))
    expected = run(world, executor)
    ending = threading.Thread(target=executor.close)
    ending.start()
    silent.set()
    ending.join(patient(30))
    assert exchange.confirmed == expected
    assert exchange.closed
    assert world.rows(schema.outbox) == []


def test_what_a_worker_could_not_publish_waits_in_the_outbox(
    world: World, executor: Executor, exchange: Exchange
) -> None:
    def fail() -> None:
        raise Unavailable("the broker cannot be used")

    exchange.before = fail
    run(world, executor)
    executor.close()
    assert exchange.confirmed == []
    batches = world.rows(schema.outbox)
    assert sum(row["count"] for row in batches) == 2
    assert {row["claimed_until"] for row in batches} == {None}


def test_the_router_does_not_publish_what_a_worker_has_published(
    world: World, executor: Executor, exchange: Exchange
) -> None:
    world.router.publish_with(OutboxOnly())
    world.trigger("t", "work", {"type": ["execution.succeeded"]}, guards={"allow_self": False})
    expected = run(world, executor)
    world.route()
    executor.close()
    assert exchange.confirmed == expected
    # That is trigger.created.
    assert [row["count"] for row in world.rows(schema.outbox)] == [1]

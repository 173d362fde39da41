"""A worker decides about the events of its executions with what it knows about the triggers."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import sqlalchemy as sa

from functory.engine.database import schema
from functory.engine.events.decided_events import EventWriter, UnwantedTypes
from functory.engine.events.event_publishing import NotPublished
from functory.engine.executions.attempts import Attempts
from functory.engine.executions.retry_or_dead import AttemptResult
from functory.engine.settings import load_settings
from functory.engine.telemetry import metrics
from functory.triggers import trigger_knowledge
from functory.triggers.trigger_knowledge import WorkerTriggerKnowledge
from functory.workers.execution.executor import Executor
from functory.workers.sandbox.runner import Runner
from tests.support.waiting import wait_for
from tests.support.world import LEASE, World

pytest_plugins = ["tests.support.world"]


@pytest.fixture(autouse=True)
def without_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trigger_knowledge, "REFRESH_SECONDS", 0.0)


@pytest.fixture
def knowledge(world: World) -> WorkerTriggerKnowledge:
    return WorkerTriggerKnowledge(world.database)


def read(knowledge: WorkerTriggerKnowledge) -> UnwantedTypes | None:
    """What it knows; it is read again soon, as before each message of a worker."""
    knowledge.refresh_if_stale()
    return knowledge.known.unwanted


@pytest.fixture
def worker(world: World, knowledge: WorkerTriggerKnowledge) -> Attempts:
    """A worker that has read the triggers."""
    world.function("work")
    wait_for(lambda: read(knowledge))
    world.route()
    writer = EventWriter(NotPublished(), knowledge.known)
    return Attempts(world.database, "worker", lease_seconds=LEASE, append_events=writer.append)


def run(world: World, worker: Attempts, outcome: str = "succeeded") -> str:
    """Run an execution. Returns its id."""
    claim = world.claim(world.start(), worker)
    error = None if outcome == "succeeded" else {"type": "ValueError", "message": "no"}
    worker.finish(claim, AttemptResult(outcome, result=None, error=error))
    return claim.id


def pending(world: World) -> list[str]:
    """The types of the events that wait for a router."""
    return sorted(row["type"] for row in world.events.list(state="pending"))


def is_current(world: World, knowledge: WorkerTriggerKnowledge) -> bool:
    known = read(knowledge)
    (counter,) = world.rows(schema.counter, schema.counter.c.name == "triggers")
    return known is not None and known.trigger_changes == counter["value"]


def test_events_that_no_trigger_wants_need_no_router(world: World, worker: Attempts) -> None:
    run(world, worker)
    run(world, worker, "failed")
    assert pending(world) == []
    assert world.types("execution.") == [
        "execution.started",
        "execution.succeeded",
        "execution.started",
        "execution.failed",
    ]
    assert {row["state"] for row in world.rows(schema.event)} == {"routed"}


def test_a_trigger_gets_all_events_from_its_save_on(
    world: World, worker: Attempts, knowledge: WorkerTriggerKnowledge
) -> None:
    run(world, worker)
    world.trigger("t", "work", {"type": ["execution.succeeded"]}, guards={"allow_self": False})
    # The worker knows the triggers as they were: its events wait, and it reads them anew.
    run(world, worker)
    assert pending(world) == ["execution.started", "execution.succeeded", "trigger.created"]
    wait_for(lambda: is_current(world, knowledge))
    run(world, worker)
    assert pending(world) == ["execution.started", *["execution.succeeded"] * 2, "trigger.created"]
    assert len(world.route()) == 2


def test_after_a_trigger_is_deleted_its_events_need_no_router(
    world: World, worker: Attempts, knowledge: WorkerTriggerKnowledge
) -> None:
    world.trigger("t", "work", {"subject": ["work"]})
    run(world, worker)
    wait_for(lambda: is_current(world, knowledge))
    world.triggers.delete("t")
    world.route()
    run(world, worker)
    wait_for(lambda: is_current(world, knowledge))
    world.route()
    run(world, worker)
    assert pending(world) == []


def test_a_trigger_that_cannot_be_compiled_wants_all_types(
    world: World, worker: Attempts, knowledge: WorkerTriggerKnowledge
) -> None:
    world.trigger("t", "work", {"type": ["order"]})
    with world.database.write() as tx:
        version = schema.trigger_version
        tx.execute(sa.update(version).values(definition={"function": "work", "pass": "nonsense"}))
    run(world, worker)
    wait_for(lambda: is_current(world, knowledge))
    world.route()
    run(world, worker)
    assert pending(world) == ["execution.started", "execution.succeeded"]


def test_each_event_is_counted_once(world: World, worker: Attempts) -> None:
    def counts() -> tuple[float, float]:
        value = metrics.registry.get_sample_value
        return (
            value("functory_router_events_total", {"outcome": "unmatched"}) or 0.0,
            value("functory_causation_depth_count") or 0.0,
        )

    before = counts()
    run(world, worker)
    assert counts() == (before[0] + 2, before[1] + 2)
    world.route()
    assert counts() == (before[0] + 2, before[1] + 2)


@pytest.fixture
def executor(world: World) -> Iterator[Executor]:
    settings = load_settings(home=world.home, broker_url="none://")
    made = Executor(
        world.database,
        settings,
        Runner(),
        "executor",
        know_triggers=lambda database: WorkerTriggerKnowledge(database),
    )
    made.start()
    yield made
    made.close()


def test_an_executor_decides_about_the_events_of_its_executions(world: World, executor: Executor) -> None:
    world.function("work")
    world.route()

    def decided() -> bool:
        id_ = world.start()["id"]
        executor.execute([id_])
        wait_for(lambda: world.executions.get(id_)["state"] == "succeeded")
        waiting = pending(world)
        world.route()
        return not waiting

    wait_for(decided)

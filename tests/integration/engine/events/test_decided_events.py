"""Events that no trigger can want are routed in the transaction that writes them, and published by their writer."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from functory.engine.database import schema
from functory.engine.events import decided_events, store
from functory.engine.events.decided_events import UnwantedTypes
from functory.engine.events.event_publishing import NotPublished, OutboxOnly
from functory.engine.firings.kill_switch import TRIGGERS, Switches
from functory.engine.maintenance import invariants
from functory.triggers.trigger_knowledge import WorkerTriggerKnowledge
from tests.support.world import World

pytest_plugins = ["tests.support.world"]


def known(world: World) -> UnwantedTypes:
    knowledge = WorkerTriggerKnowledge(world.database)
    with world.database.read() as tx:
        knowledge.refresh(tx)
    found = knowledge.known.unwanted
    assert found is not None
    return found


def write(
    world: World, types: Sequence[str], unwanted: UnwantedTypes | None, publisher: Any = None
) -> list[str]:
    with world.database.write() as tx:
        rows = [store.record(tx, type_, "work", {"n": n}, source="/s") for n, type_ in enumerate(types)]
        decided_events.append(tx, rows, unwanted, publisher or OutboxOnly())
    return [row["id"] for row in rows]


def waiting(world: World) -> dict[str, bool]:
    return {row["event_id"]: row["published"] for row in world.rows(schema.routing_queue)}


@pytest.mark.parametrize("count", [1, 10])
def test_unwanted_events_are_routed_at_once_and_share_a_row_of_the_outbox(world: World, count: int) -> None:
    world.function("work")
    world.trigger("t", "work", {"type": ["order"]})
    world.route()
    ids = write(world, ["execution.started"] * count, known(world))
    assert waiting(world) == {}
    (row,) = world.rows(schema.outbox)
    assert row["count"] == count
    assert [world.events.get(id_)["state"] for id_ in ids] == ["routed"] * count
    assert world.route() == []
    for one in invariants.verify(world.database, world.settings, only=["I1", "I2"], patience=0):
        assert one.count == 0, one.examples


def test_it_is_the_row_that_a_router_leaves_without_a_match(world: World) -> None:
    (directly,) = write(world, ["execution.started"], known(world), NotPublished())
    (by_router,) = write(world, ["execution.started"], None, NotPublished())
    assert world.events.get(by_router)["state"] == "pending"
    world.route()
    own = ("id", "root_id")
    rows = [world.events.get(id_) for id_ in (directly, by_router)]
    first, second = ({name: value for name, value in row.items() if name not in own} for row in rows)
    assert first == second


def test_wanted_events_wait_for_the_router_and_are_published_by_their_writer(world: World) -> None:
    world.function("work")
    world.trigger("t", "work", {"type": [{"prefix": "execution.f"}]})
    world.router.publish_with(OutboxOnly())
    world.route()
    before = len(world.rows(schema.outbox))
    started, failed = write(world, ["execution.started", "execution.failed"], known(world))
    assert waiting(world) == {failed: True}
    (batch,) = sorted(world.rows(schema.outbox), key=lambda row: row["id"])[before:]
    assert batch["count"] == 2
    assert world.route() == [("t", None)]
    assert len(world.rows(schema.outbox)) == before + 1
    assert world.events.get(started)["state"] == world.events.get(failed)["state"] == "routed"


def test_a_trigger_that_was_saved_meanwhile_gets_its_event(world: World) -> None:
    old = known(world)
    world.function("work")
    world.trigger("t", "work", {"type": ["execution.started"]})
    (id_,) = write(world, ["execution.started"], old)
    assert waiting(world)[id_] is True
    assert world.route() == [("t", None)]


def test_while_triggers_are_halted_every_event_waits(world: World) -> None:
    Switches(world.database).throw(TRIGGERS)
    (id_,) = write(world, ["execution.started"], known(world))
    assert waiting(world) == {id_: True}
    Switches(world.database).release(TRIGGERS)
    world.route()
    assert world.events.get(id_)["state"] == "routed"

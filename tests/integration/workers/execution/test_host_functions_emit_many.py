"""``emit_many`` of a running function: all or none, in the causal tree of its execution, once for all attempts."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from functory.engine.database.schema import event
from functory.engine.errors import Invalid, Refused, Stale
from functory.engine.executions.claims import Claim
from functory.workers.execution.engine_services import Services
from functory.workers.execution.host_functions import EngineHost
from tests.support.orders import ORDER
from tests.support.world import World

pytest_plugins = ["tests.support.world"]

ORDERS = [("order.created", {"n": n}, f"o{n}") for n in range(3)]


def host_of(world: World, claim: Claim) -> EngineHost:
    services = Services.of(world.database, world.settings, world.functions)
    return EngineHost(claim, services, lambda ids: None, threading.Event())


@pytest.fixture
def claim(world: World) -> Claim:
    world.function("work", limits={"retries": 1})
    return world.claim(world.start("work"))


def orders(world: World) -> list[dict[str, Any]]:
    return world.rows(event, event.c.type == "order.created")


def test_many_events_have_the_cause_and_the_source_of_one(world: World, claim: Claim) -> None:
    host = host_of(world, claim)
    ids = host.emit_many(ORDERS)
    one = world.events.get(host.emit("order.created", {"n": 3}, "o3"))
    rows = {row["id"]: row for row in orders(world)}
    assert [(rows[id_]["data"], rows[id_]["subject"]) for id_ in ids] == [
        (data, to) for _, data, to in ORDERS
    ]
    same = ("source", "root_id", "cause_execution_id", "depth", "chain", "state")
    assert [[rows[id_][name] for name in same] for id_ in ids] == [[one[name] for name in same]] * 3
    assert one["cause_execution_id"] == claim.id


def test_a_later_attempt_writes_the_same_events_once(world: World, claim: Claim) -> None:
    twice = [*ORDERS, ORDERS[0]]
    first = host_of(world, claim).emit_many(twice)
    assert len(set(first)) == 4
    world.finish(claim, "failed")
    world.advance(3600)
    (again,) = world.worker.claim([claim.id])
    host = host_of(world, again)
    # One by one or together: the nth event of a content is the same.
    assert [host.emit(*one) for one in twice[:2]] + host.emit_many(twice[2:]) == first
    assert len(orders(world)) == 4


def test_one_wrong_event_is_enough_for_none(world: World, claim: Claim) -> None:
    host = host_of(world, claim)
    for wrong in (("execution.failed", 1, None), ("a b", 1, None), ("order.created", "x" * 2_000_000, None)):
        with pytest.raises(Invalid, match=r"^event 4: "):
            host.emit_many([*ORDERS, wrong])
    assert orders(world) == []


def test_an_attempt_that_lost_its_lease_writes_nothing(world: World, claim: Claim) -> None:
    host = host_of(world, claim)
    world.executions.cancel(claim.id)
    world.finish(claim, "cancelled")
    with pytest.raises(Stale):
        host.emit_many(ORDERS)
    assert orders(world) == []


def test_guards_see_many_events_as_they_see_one(world: World, claim: Claim) -> None:
    world.trigger("again", "work", ORDER)
    host_of(world, claim).emit_many(ORDERS)
    # The events of its own execution: the trigger would start the function that emitted them.
    decided = world.route()
    assert [name for name, _ in decided] == ["again"] * 3
    host_of(world, claim).emit("order.created", {"n": 9}, None)
    ((_, reason),) = world.route()
    assert {found for _, found in decided} == {reason}


def test_secrets_are_kept_out_of_many_events(world: World) -> None:
    world.secrets.set("KEY", "very-secret-value")
    world.function("work", secrets=["KEY"])
    claim = world.claim(world.start("work"))
    host = host_of(world, claim)
    host.redact.add("KEY", "very-secret-value")
    (id_,) = host.emit_many([("order.created", {"k": "very-secret-value"}, "of very-secret-value")])
    row = world.events.get(id_)
    assert "very-secret" not in repr((row["data"], row["subject"]))
    with pytest.raises(Refused, match="secret KEY"):
        host.emit_many([ORDERS[0], ("very-secret-value", 1, None)])
    assert len(orders(world)) == 1

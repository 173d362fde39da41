"""The guards against loops: own events, cycles, depth and budget, each exactly at its limit."""

import threading
from typing import TYPE_CHECKING

import pytest

from functory.engine.database import schema
from functory.engine.executions import root_budget

if TYPE_CHECKING:
    from tests.support.world import World
from tests.support.orders import suppressed

pytest_plugins = ["tests.support.world"]


def test_an_execution_of_a_trigger_does_not_fire_the_same_trigger(world):
    world.function("work")
    world.trigger("self", "work", {"type": ["work.done", "execution.succeeded"]})
    world.start()
    assert world.run_all() == 2
    (stopped,) = suppressed(world)
    assert (stopped["reason"], stopped["limit_value"], stopped["actual_value"]) == ("own_event", 0, 1)
    assert stopped["detail"] == "its own execution caused this event: self → self"
    assert [link["name"] for link in stopped["chain"]] == ["self"]


def test_a_cycle_of_triggers_is_stopped_at_the_second_visit(world):
    for name in ("ping", "pong"):
        world.function(name)
    world.trigger("to-pong", "pong", {"type": ["execution.succeeded"], "subject": ["ping"]})
    world.trigger("to-ping", "ping", {"type": ["execution.succeeded"], "subject": ["pong"]})
    world.start("ping")
    assert world.run_all() == 3
    (stopped,) = suppressed(world)
    assert (stopped["reason"], stopped["limit_value"], stopped["actual_value"]) == ("cycle", 1, 2)
    assert stopped["detail"] == "to-pong → to-ping → to-pong"


@pytest.mark.parametrize(("guards", "reason", "runs"), [
    ({"allow_self": True, "max_revisits": 0, "max_depth": 5}, "depth", 5),
    ({"allow_self": True, "max_revisits": 4}, "cycle", 4),
    ({"allow_self": True, "max_revisits": 0}, "depth", 16),
])  # fmt: skip
def test_a_self_trigger_that_is_allowed_runs_exactly_to_its_limit(world, guards, reason, runs):
    world.function("work")
    world.trigger("self", "work", {"type": ["execution.succeeded"]}, guards=guards)
    world.start()
    assert world.run_all() == runs + 1
    (stopped,) = suppressed(world)
    assert (stopped["reason"], stopped["limit_value"], stopped["actual_value"]) == (reason, runs, runs + 1)


@pytest.mark.parametrize("limit", [1, 5, 8])
def test_a_budget_of_n_runs_n_and_suppresses_the_next(make_world, limit):
    world = make_world(root_budget=limit)
    world.function("work")
    world.trigger("fan", "work", {"type": ["bomb"]})
    claim = world.claim(world.start())
    for n in range(limit + 1):
        world.events.emit("bomb", n, cause=claim.cause, subject=str(n))
    world.finish(claim)
    assert sorted(world.route(), key=str) == sorted([("fan", None)] * limit + [("fan", "budget")], key=str)
    (stopped,) = suppressed(world)
    assert (stopped["limit_value"], stopped["actual_value"]) == (limit, limit + 1)
    assert len(world.executions.list(root_id=claim.id)) == limit + 1
    assert world.lineage.tree(claim.id).budget == (limit, limit)


def test_a_budget_shared_by_routers_is_exact(make_world):
    worlds = [make_world(root_budget=20, batch_size=3) for _ in range(2)]
    worlds[0].function("work")
    worlds[0].trigger("fan", "work", {"type": ["bomb"]})
    claim = worlds[0].claim(worlds[0].start())
    for n in range(50):
        worlds[0].events.emit("bomb", cause=claim.cause, subject=str(n))

    def route(one: "World") -> None:
        while one.lineage.open_work()["pending events"]:
            one.router.route_batch()

    threads = [threading.Thread(target=route, args=(one,)) for one in worlds]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [f["decision"] for f in worlds[0].rows(schema.firing)].count("fired") == 20
    assert [row["reason"] for row in suppressed(worlds[0])] == ["budget"] * 30


def test_a_router_that_locks_a_budget_sees_what_the_one_before_spent(make_world):
    one, two = make_world(), make_world()
    root = one.events.emit("order.created")
    seen: list[tuple[int, int]] = []

    def take(world: "World") -> None:
        with world.database.write() as tx:
            seen.append(root_budget.take(tx, {root: 5}, 20)()[root])

    take(one)
    with one.database.write() as tx:
        seen.append(root_budget.take(tx, {root: 3}, 20)()[root])
        other = threading.Thread(target=take, args=(two,))
        other.start()
        # It cannot end before this transaction does; an instant is left to it to try.
        other.join(0.2)
        root_budget.give_back(tx, {root: 1})
    other.join()
    assert seen == [(0, 20), (5, 20), (7, 20)]


def test_a_guard_that_refuses_is_reported_and_the_report_starts_nothing(world):
    world.function("work")
    world.function("alarm")
    world.trigger("self", "work", {"type": ["execution.succeeded"], "subject": ["work"]})
    world.trigger("on-suppressed", "alarm", {"type": ["trigger.suppressed"]})
    world.trigger(
        "on-anything",
        "alarm",
        {"source": [{"prefix": "/functory/triggers/"}], "type": [{"prefix": "trigger.s"}]},
    )
    world.start()
    world.run_all()
    (reported,) = world.rows(schema.event, schema.event.c.type == "trigger.suppressed")
    assert reported["data"] | {"event_id": ""} == {
        "trigger": "self",
        "version": 1,
        "event_id": "",
        "reason": "own_event",
        "limit": 0,
        "value": 1,
        "chain": ["self", "self"],
        "detail": "its own execution caused this event: self → self",
    }
    assert reported["state"] == "routed"
    assert world.executions.list(function="alarm") == []
    assert reported["cause_execution_id"] in {e["id"] for e in world.executions.list(function="work")}

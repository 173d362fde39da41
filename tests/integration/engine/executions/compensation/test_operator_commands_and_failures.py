"""Compensations that fail: an operator decides, several schedulers meet, the database fails."""

import contextlib
import threading
from typing import Any

import pytest
import sqlalchemy as sa

from functory.engine.database.schema import compensation, execution
from functory.engine.errors import Conflict, NotFound, Unavailable
from functory.engine.executions.compensation.operator_commands import Compensations
from functory.engine.maintenance import compensator, lost_workers
from functory.engine.maintenance.invariants import verify
from tests.support.fault_injection import Faults, Rates
from tests.support.sagas import begun, plan, step, undone
from tests.support.world import World

pytest_plugins = ["tests.support.world"]


def test_a_compensation_that_fails_stops_the_saga_until_an_operator_decides(shop: World) -> None:
    parent = begun(shop)
    step(shop, parent, "reserve")
    step(shop, parent, "charge")
    shop.finish(parent, "failed")
    (failed,) = undone(shop, "failed")
    assert plan(shop, parent.id) == [("charge", "failed"), ("reserve", "pending")]
    assert shop.types("saga.") == ["saga.started", "saga.stuck"]
    assert shop.lineage.open_work()["open compensations"] == 0
    with shop.database.read() as tx:
        problem = tx.scalar(sa.text("SELECT data FROM event WHERE type = 'saga.stuck'"))
    assert "undo_charge" in problem and "ValueError: no" in problem
    operator = Compensations(shop.database)
    again = operator.retry(parent.id, author="ada")
    assert again["state"] == "running"
    assert again["execution_id"] != failed["id"]
    assert shop.lineage.open_work()["open compensations"] == 2
    assert [row["function"] for row in undone(shop)] == ["undo_charge", "undo_reserve"]
    assert shop.types("saga.") == ["saga.started", "saga.stuck", "saga.compensated"]


def test_an_operator_may_skip_what_cannot_be_undone(shop: World) -> None:
    parent = begun(shop)
    step(shop, parent, "reserve")
    step(shop, parent, "charge")
    shop.finish(parent, "failed")
    undone(shop, "failed")
    operator = Compensations(shop.database)
    assert operator.skip(parent.id, author="ada", reason="paid back by hand")["state"] == "skipped"
    undone(shop, "failed")
    operator.skip(parent.id, author="ada")
    assert [row["problem"] for row in operator.plan(parent.id)] == [
        "skipped by ada: paid back by hand",
        "skipped by ada",
    ]
    assert shop.types("saga.")[-1] == "saga.compensated"
    with shop.database.read() as tx:
        actions = [row["action"] for row in tx.rows(sa.text("SELECT action FROM audit ORDER BY id"))]
    assert actions.count("execution.compensate.skip") == 2
    with pytest.raises(Conflict, match="2 skipped"):
        operator.retry(parent.id)


def test_an_operator_learns_why_there_is_nothing_to_decide(shop: World) -> None:
    operator = Compensations(shop.database)
    parent = begun(shop)
    with pytest.raises(Conflict, match="it is running"):
        operator.retry(parent.id)
    step(shop, parent, "reserve")
    shop.finish(parent, "failed")
    with pytest.raises(Conflict, match="1 pending"):
        operator.skip(parent.id)
    (compensation,) = undone(shop)
    with pytest.raises(Conflict, match=f"(?s)compensation itself.*{parent.id}"):
        operator.retry(compensation["id"])
    with pytest.raises(NotFound):
        operator.retry("0198c1f0-0000-7000-8000-000000000000")


def test_a_compensation_retries_as_its_own_version_says(shop: World) -> None:
    shop.function("undo_reserve", "result", limits={"retries": 1})
    parent = begun(shop)
    step(shop, parent, "reserve")
    shop.finish(parent, "failed")
    compensator.advance(shop.database, shop.settings)
    shop.advance(1)
    (claim,) = shop.worker.claim_any(1)
    assert shop.finish(claim, "failed").state == "queued"
    compensator.advance(shop.database, shop.settings)
    assert plan(shop, parent.id) == [("reserve", "running")]
    shop.advance(60)
    (claim,) = shop.worker.claim_any(1)
    shop.finish(claim)
    undone(shop)
    assert plan(shop, parent.id) == [("reserve", "done")]


def test_a_pinned_compensation_stays_and_a_floating_one_is_the_active_one(shop: World) -> None:
    shop.function("reserve", "order", compensate="undo_reserve@1")
    shop.functions.save("def undo_reserve(result):\n    return 2\n")
    shop.functions.save("def undo_charge(result):\n    return 2\n")
    parent = begun(shop)
    step(shop, parent, "reserve")
    step(shop, parent, "charge")
    shop.finish(parent, "failed")
    assert [(row["function"], row["version"]) for row in undone(shop)] == [
        ("undo_charge", 2),
        ("undo_reserve", 1),
    ]


@pytest.mark.parametrize(
    ("spoil", "problem"),
    [
        (lambda w: w.functions.disable("undo_reserve"), "is disabled"),
        (lambda w: w.functions.delete("undo_reserve", force=True), "does not exist"),
        (lambda w: w.function("undo_reserve", "hold, result"), "needs hold"),
        (
            lambda w: w.functions.save(
                "def undo_reserve(result):\n    return 2\n",
                input_parameters={"type": "object", "properties": {"result": {"type": "integer"}}},
            ),
            "input of undo_reserve v2",
        ),
    ],
)
def test_what_cannot_be_started_stops_the_saga_with_the_reason(shop: World, spoil: Any, problem: str) -> None:
    parent = begun(shop)
    step(shop, parent, "reserve", "text")
    shop.finish(parent, "failed")
    spoil(shop)
    assert undone(shop) == []
    (row,) = Compensations(shop.database).plan(parent.id)
    assert row["state"] == "failed"
    assert problem in row["problem"]


def test_no_guard_keeps_from_compensation(make_world: Any) -> None:
    world = make_world(max_depth=1, root_budget=1)
    world.function("undo", "result", limits={"expires": 1})
    world.function("act", "", compensate="undo")
    world.function("outer", "")
    parent = begun_plain(world, "outer")
    child = world.claim(world.executions.start("act", {}, parent=parent.cause))
    world.finish(child)
    world.finish(parent, "failed")
    compensator.advance(world.database, world.settings)
    world.advance(100)
    lost_workers.reap(world.database, cancel_grace=60)
    assert [row["function"] for row in undone(world)] == ["undo"]


def begun_plain(world: World, function: str) -> Any:
    return world.claim(world.executions.start(function, {}))


def test_a_failing_compensation_is_no_saga(shop: World) -> None:
    shop.function("undo_reserve", "result", compensate="undo_charge")
    parent = begun(shop)
    step(shop, parent, "reserve")
    shop.finish(parent, "failed")
    compensator.advance(shop.database, shop.settings)
    shop.advance(1)
    (claim,) = shop.worker.claim_any(1)
    step(shop, claim, "charge")
    shop.finish(claim, "failed")
    assert plan(shop, claim.id) == []


def test_many_schedulers_start_each_compensation_once(shop: World, make_world: Any) -> None:
    parents = [begun(shop) for _ in range(8)]
    for parent in parents:
        for _ in range(3):
            step(shop, parent, "reserve")
        shop.finish(parent, "failed")
    worlds = [make_world(clock=shop.clock) for _ in range(4)]
    ended = threading.Event()
    broken: list[BaseException] = []

    def keep_advancing(world: World) -> None:
        try:
            while not ended.is_set():
                compensator.advance(world.database, world.settings)
        except BaseException as error:
            broken.append(error)

    threads = [threading.Thread(target=keep_advancing, args=(one,)) for one in worlds]
    for thread in threads:
        thread.start()
    try:
        for _ in range(2000):
            for claim in shop.worker.claim_any(100):
                shop.finish(claim)
            if not shop.lineage.open_work()["open compensations"] or broken:
                break
    finally:
        ended.set()
        for thread in threads:
            thread.join()
    assert not broken
    ran = shop.rows(execution, execution.c.cause == "compensation")
    assert len(ran) == 24
    assert len(shop.rows(compensation, compensation.c.state == "done")) == 24
    assert shop.types("saga.").count("saga.compensated") == 8


@pytest.mark.parametrize("seed", range(2))
def test_a_database_that_fails_now_and_then_doubles_and_loses_nothing(shop: World, seed: int) -> None:
    parents = [begun(shop) for _ in range(3)]
    for parent in parents:
        step(shop, parent, "reserve")
        begun(shop, "charge", parent=parent.cause)
        step(shop, parent, "charge")
        shop.finish(parent, "failed")
    rates = Rates(before=0.05, after=0.05, lost=0.03, uncommitted=0.05, committed=0.1)
    faults = Faults(shop.database, seed, rates)
    for _ in range(300):
        with faults, contextlib.suppress(Unavailable):
            compensator.advance(shop.database, shop.settings)
        for running in shop.rows(execution, execution.c.cancel_requested_at.is_not(None)):
            if running["state"] == "running":
                shop.advance(61)
                lost_workers.reap(shop.database, cancel_grace=60)
        shop.work()
        if not shop.lineage.open_work()["open compensations"]:
            break
    assert faults.injected
    for parent in parents:
        # The open one may have been lost, and have succeeded at its next attempt, before it was cancelled.
        assert plan(shop, parent.id)[1:] == [("charge", "done"), ("reserve", "done")]
    done = shop.rows(compensation, compensation.c.state == "done")
    ran = shop.rows(execution, execution.c.cause == "compensation")
    assert sorted(row["execution_id"] for row in done) == sorted(row["id"] for row in ran)
    assert shop.types("saga.compensated") == ["saga.compensated"] * 3
    shop.route()
    assert [found for found in verify(shop.database, shop.settings, patience=0) if found.count] == []


def test_a_failure_without_steps_costs_one_statement_and_a_success_none(shop: World) -> None:
    for outcome in ("succeeded", "failed"):
        parent = begun(shop)
        with shop.statements() as sent:
            shop.finish(parent, outcome)
        assert sum("UNION ALL" in statement for statement in sent) == (outcome == "failed")

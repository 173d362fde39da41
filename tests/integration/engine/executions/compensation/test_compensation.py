"""What a failed execution had done is undone, the newest first, once, and by any number of processes."""

import contextlib
import threading
from collections.abc import Mapping
from typing import Any

import pytest
import sqlalchemy as sa

from functory.engine.database.schema import compensation, execution
from functory.engine.errors import Conflict, Invalid, NotFound, Unavailable
from functory.engine.events import store as event_store
from functory.engine.executions.compensation import saga, steps
from functory.engine.executions.compensation.operator_commands import Compensations
from functory.engine.maintenance import compensator, lease_recovery
from functory.engine.maintenance.invariants import verify
from tests.support.fault_injection import Faults, Rates
from tests.support.world import World

pytest_plugins = ["tests.support.world"]


@pytest.fixture
def shop(world: World) -> World:
    """Two steps with what undoes them, and what calls them."""
    for name in ("undo_reserve", "undo_charge"):
        world.function(name, "input, result, execution_id, error")
    world.function("reserve", "order", compensate="undo_reserve")
    world.function("charge", "order", compensate="undo_charge")
    world.function("order", "order")
    return world


def begun(world: World, function: str = "order", **options: Any) -> Any:
    """A claimed execution."""
    row = world.executions.start(function, {"order": 7}, **options)
    world.advance(1)
    return world.claim(row)


def step(world: World, parent: Any, function: str, result: Any = None, outcome: str = "succeeded") -> str:
    """A child execution that ends."""
    claim = begun(world, function, parent=parent.cause)
    world.advance(1)
    world.finish(claim, outcome, result=result)
    world.advance(1)
    return claim.id


def plan(world: World, id_: str) -> list[tuple[str, str]]:
    """The plan of an execution: (function of the step, state)."""
    return [(row["function"], row["state"]) for row in Compensations(world.database).plan(id_)]


def undone(world: World, outcome: str = "succeeded", rounds: int = 100) -> list[dict[str, Any]]:
    """Advance and run compensations until nothing moves; the executions in their order, with their input."""
    ran: list[dict[str, Any]] = []
    for _ in range(rounds):
        moved = compensator.advance(world.database, world.settings)
        world.advance(1)
        claims = world.worker.claim_any(100)
        for claim in claims:
            world.finish(claim, outcome)
            ran.append(dict(claim.row))
        if not moved and not claims:
            return ran
    raise AssertionError(f"no end after {rounds} rounds")


def test_steps_are_undone_in_reverse_with_what_they_were_and_returned(shop: World) -> None:
    parent = begun(shop)
    reserved = step(shop, parent, "reserve", {"hold": 1})
    charged = step(shop, parent, "charge", {"payment": 2})
    shop.finish(parent, "failed")
    assert plan(shop, parent.id) == [("charge", "pending"), ("reserve", "pending")]
    ran = undone(shop)
    assert [row["function"] for row in ran] == ["undo_charge", "undo_reserve"]
    error = {"type": "ValueError", "message": "no"}
    assert [row["input"] for row in ran] == [
        {"input": {"order": 7}, "result": {"payment": 2}, "execution_id": charged, "error": error},
        {"input": {"order": 7}, "result": {"hold": 1}, "execution_id": reserved, "error": error},
    ]
    for row in ran:
        assert row["cause"] == "compensation"
        assert (row["parent_id"], row["root_id"], row["depth"]) == (parent.id, parent.row["root_id"], 1)
    assert plan(shop, parent.id) == [("charge", "done"), ("reserve", "done")]
    assert shop.types("saga.") == ["saga.started", "saga.compensated"]


def test_one_compensation_runs_at_a_time(shop: World) -> None:
    parent = begun(shop)
    step(shop, parent, "reserve")
    step(shop, parent, "charge")
    shop.finish(parent, "failed")
    for _ in range(3):
        compensator.advance(shop.database, shop.settings)
    assert [row["function"] for row in shop.rows(execution, execution.c.cause == "compensation")] == [
        "undo_charge"
    ]


@pytest.mark.parametrize("outcome", ["failed", "timed_out", "crashed", "cancelled"])
def test_every_end_that_is_no_success_is_undone(shop: World, outcome: str) -> None:
    shop.function("order", "order", limits={"retries": 0, "max_attempts": 1})
    parent = begun(shop)
    step(shop, parent, "reserve")
    shop.finish(parent, outcome)
    assert plan(shop, parent.id) == [("reserve", "pending")]


def test_a_success_and_a_further_attempt_undo_nothing(shop: World) -> None:
    shop.function("order", "order", limits={"retries": 1})
    parent = begun(shop)
    step(shop, parent, "reserve")
    assert shop.finish(parent, "failed").state == "queued"
    assert plan(shop, parent.id) == []
    shop.advance(60)
    shop.finish(shop.claim(parent.row))
    assert plan(shop, parent.id) == []
    assert undone(shop) == []


def test_steps_of_every_attempt_are_undone(shop: World) -> None:
    shop.function("order", "order", limits={"retries": 1})
    parent = begun(shop)
    step(shop, parent, "reserve", 1)
    shop.finish(parent, "failed")
    shop.advance(60)
    again = shop.claim(parent.row)
    step(shop, again, "reserve", 2)
    shop.finish(again, "failed")
    assert [row["input"]["result"] for row in undone(shop)] == [2, 1]


def test_a_lost_worker_s_last_attempt_is_undone_by_the_reaper(shop: World) -> None:
    shop.function("order", "order", limits={"max_attempts": 1, "retries": 0})
    parent = begun(shop)
    step(shop, parent, "reserve")
    shop.advance(shop.lease + 1)
    lease_recovery.reap(shop.database, cancel_grace=60)
    assert shop.executions.get(parent.id)["state"] == "dead"
    assert [row["function"] for row in undone(shop)] == ["undo_reserve"]


def test_what_was_cancelled_between_two_attempts_is_undone_and_what_never_began_is_not(shop: World) -> None:
    shop.function("order", "order", limits={"retries": 1})
    parent = begun(shop)
    step(shop, parent, "reserve")
    shop.finish(parent, "failed")
    shop.executions.cancel(parent.id)
    assert plan(shop, parent.id) == [("reserve", "pending")]
    with shop.statements() as sent:
        row = shop.executions.start("order", {"order": 7})
        shop.executions.cancel(row["id"])
    assert not [statement for statement in sent if "UNION ALL" in statement]


def test_a_step_that_nothing_undoes_is_looked_into(shop: World) -> None:
    shop.function("pack", "order")
    parent = begun(shop)
    step(shop, parent, "reserve", 1)
    packing = begun(shop, "pack", parent=parent.cause)
    step(shop, packing, "charge", 2)
    shop.finish(packing)
    shop.advance(1)
    step(shop, parent, "reserve", 3)
    shop.finish(parent, "failed")
    assert [row["input"]["result"] for row in undone(shop)] == [3, 2, 1]


def test_a_step_that_is_undone_is_not_looked_into(shop: World) -> None:
    parent = begun(shop)
    charging = begun(shop, "charge", parent=parent.cause)
    step(shop, charging, "reserve")
    shop.finish(charging)
    shop.finish(parent, "failed")
    assert plan(shop, parent.id) == [("charge", "pending")]


def test_a_failed_step_is_a_saga_of_its_own(shop: World) -> None:
    parent = begun(shop)
    charging = begun(shop, "charge", parent=parent.cause)
    step(shop, charging, "reserve")
    shop.finish(charging, "failed")
    assert plan(shop, charging.id) == [("reserve", "pending")]
    shop.finish(parent, "failed")
    assert plan(shop, parent.id) == []
    assert [row["parent_id"] for row in undone(shop)] == [charging.id]


def span(seq: int, function: str, end: float, parent: int | None = None, **more: Any) -> dict[str, Any]:
    return {
        "seq": seq,
        "parent_seq": parent,
        "function": function,
        "version": 1,
        "input": {"order": seq},
        "output": f"output {seq}",
        "error": None,
        "offset_seconds": end - 0.5,
        "duration_seconds": 0.5,
    } | more


def fail(world: World, claim: Any, *spans: Mapping[str, Any], seconds: float = 10.0) -> None:
    world.finish(claim, "failed", spans=list(spans), duration_seconds=seconds)


def test_calls_by_name_are_undone_and_what_happened_inside_of_them_is_not(shop: World) -> None:
    parent = begun(shop)
    shop.advance(10)
    fail(
        shop,
        parent,
        span(1, "reserve", 9.0),
        span(2, "order", 8.0, parent=1),
        span(3, "charge", 7.0, parent=2),
        span(4, "charge", 9.5),
        span(5, "reserve", 9.6, error={"type": "ValueError", "message": "no"}),
        span(6, "charge", 9.55, parent=5),
    )
    ran = undone(shop)
    assert [row["input"]["input"] for row in ran] == [{"order": 6}, {"order": 4}, {"order": 1}]
    assert ran[0]["input"]["result"] == "output 6"
    assert {row["input"]["execution_id"] for row in ran} == {parent.id}


def test_calls_of_both_kinds_are_undone_in_the_order_of_their_ends(shop: World) -> None:
    parent = begun(shop)
    shop.advance(2)
    step(shop, parent, "charge")  # ends between the two
    shop.advance(5)
    fail(shop, parent, span(1, "reserve", 1.0), span(2, "reserve", 9.0), seconds=10)
    assert [row["function"] for row in undone(shop)] == ["undo_reserve", "undo_charge", "undo_reserve"]


@pytest.mark.parametrize("lost", [{"input": {"$type": "Order", "$repr": "<Order>"}}, {"output": ["key ***"]}])
def test_a_step_whose_values_were_not_recorded_whole_stops_the_saga(
    shop: World, lost: dict[str, Any]
) -> None:
    parent = begun(shop)
    fail(shop, parent, span(1, "reserve", 1.0, **lost))
    assert undone(shop) == []
    (row,) = Compensations(shop.database).plan(parent.id)
    assert row["state"] == "failed"
    assert "was not recorded whole" in row["problem"]
    assert "durable=True" in row["problem"]


def test_values_that_nobody_asks_for_need_not_be_whole(shop: World) -> None:
    shop.function("undo_reserve", "execution_id")
    parent = begun(shop)
    fail(shop, parent, span(1, "reserve", 1.0, output={"$type": "Order", "$repr": "<Order>"}))
    assert [row["input"] for row in undone(shop)] == [{"execution_id": parent.id}]


def test_what_triggers_started_is_undone_where_they_say_so(shop: World) -> None:
    shop.trigger("reserve-it", "reserve", {"type": ["order.placed"]}, compensate=True)
    shop.trigger("charge-it", "charge", {"type": ["order.placed"]})
    parent = begun(shop)
    shop.events.emit("order.placed", {"n": 1}, cause=parent.cause)
    shop.route()
    shop.work(lambda claim: claim.row["function"])
    shop.advance(1)
    shop.finish(parent, "failed")
    assert plan(shop, parent.id) == [("reserve", "pending")]
    assert [row["function"] for row in undone(shop)] == ["undo_reserve"]


def test_a_trigger_s_step_is_not_begun_once_its_execution_has_failed(shop: World) -> None:
    shop.trigger("reserve-it", "reserve", {"type": ["order.placed"]}, compensate=True)
    shop.function("pack", "order")
    parent = begun(shop)
    packing = begun(shop, "pack", parent=parent.cause)
    shop.events.emit("order.placed", {"n": 1}, cause=packing.cause)
    shop.finish(packing)
    shop.events.emit("order.placed", {"n": 2}, cause=parent.cause)
    shop.finish(parent, "failed")
    assert shop.route() == [("reserve-it", "undone"), ("reserve-it", "undone")]


def test_a_trigger_on_the_failure_itself_fires(shop: World) -> None:
    shop.trigger("mourn", "reserve", {"type": ["execution.failed"]}, compensate=True)
    parent = begun(shop)
    shop.finish(parent, "failed")
    assert shop.route() == [("mourn", None)]


def test_an_open_step_is_cancelled_and_waited_for(shop: World) -> None:
    parent = begun(shop)
    step(shop, parent, "reserve", 1)
    running = begun(shop, "charge", parent=parent.cause)
    queued = shop.executions.start("charge", {"order": 1}, parent=parent.cause)
    shop.finish(parent, "failed")
    assert plan(shop, parent.id) == [("charge", "waiting"), ("charge", "waiting"), ("reserve", "pending")]
    for _ in range(3):
        compensator.advance(shop.database, shop.settings)
    assert shop.executions.get(queued["id"])["state"] == "cancelled"
    assert shop.executions.get(running.id)["cancel_requested_at"] is not None
    assert plan(shop, parent.id) == [("charge", "skipped"), ("charge", "waiting"), ("reserve", "pending")]
    # It succeeds nevertheless: then it is undone as well, before what was before it.
    shop.finish(running, result=2)
    assert [row["input"]["result"] for row in undone(shop)] == [2, 1]


def test_an_open_step_that_ends_badly_is_left_to_its_own_saga(shop: World) -> None:
    parent = begun(shop)
    step(shop, parent, "reserve", 1)
    charging = begun(shop, "charge", parent=parent.cause)
    step(shop, charging, "reserve", 2)
    shop.finish(parent, "failed")
    compensator.advance(shop.database, shop.settings)
    shop.finish(charging, "cancelled")
    assert sorted(row["input"]["result"] for row in undone(shop)) == [1, 2]
    assert plan(shop, parent.id) == [("charge", "skipped"), ("reserve", "done")]
    assert plan(shop, charging.id) == [("reserve", "done")]


def test_an_open_step_that_nothing_undoes_is_looked_into_when_it_has_ended(shop: World) -> None:
    shop.function("pack", "order")
    parent = begun(shop)
    first, second = (begun(shop, "pack", parent=parent.cause) for _ in range(2))
    step(shop, parent, "reserve", 1)
    shop.finish(parent, "failed")
    for result, packing in ((2, first), (4, second)):
        step(shop, packing, "charge", result)
        step(shop, packing, "charge", result + 1)
        shop.finish(packing)
        shop.advance(1)
    assert [row["input"]["result"] for row in undone(shop)] == [5, 4, 3, 2, 1]
    assert [state for _, state in plan(shop, parent.id)] == [
        "skipped",
        "done",
        "done",
        "skipped",
        "done",
        "done",
        "done",
    ]


def test_what_has_no_compensation_anywhere_is_neither_cancelled_nor_told_of(shop: World) -> None:
    shop.function("pack", "order")
    parent = begun(shop)
    packing = begun(shop, "pack", parent=parent.cause)
    shop.finish(parent, "failed")
    compensator.advance(shop.database, shop.settings)
    assert shop.executions.get(packing.id)["cancel_requested_at"] is None
    shop.finish(packing)
    undone(shop)
    assert shop.types("saga.") == []
    assert plan(shop, parent.id) == [("pack", "skipped")]


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
        told = tx.scalar(sa.text("SELECT data FROM event WHERE type = 'saga.stuck'"))
    assert "undo_charge" in told and "ValueError: no" in told
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
    assert actions == ["execution.compensate.skip"] * 2
    with pytest.raises(Conflict, match="2 skipped"):
        operator.retry(parent.id)


def test_an_operator_is_told_why_there_is_nothing_to_decide(shop: World) -> None:
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
    ("spoil", "told"),
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
def test_what_cannot_be_started_stops_the_saga_with_the_reason(shop: World, spoil: Any, told: str) -> None:
    parent = begun(shop)
    step(shop, parent, "reserve", "text")
    shop.finish(parent, "failed")
    spoil(shop)
    assert undone(shop) == []
    (row,) = Compensations(shop.database).plan(parent.id)
    assert row["state"] == "failed"
    assert told in row["problem"]


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
    lease_recovery.reap(world.database, cancel_grace=60)
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
                lease_recovery.reap(shop.database, cancel_grace=60)
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
    counts = {}
    for outcome in ("succeeded", "failed"):
        parent = begun(shop)
        with shop.statements() as sent:
            shop.finish(parent, outcome)
        counts[outcome] = len(sent)
        assert sum("UNION ALL" in statement for statement in sent) == (outcome == "failed")
    assert counts["failed"] == counts["succeeded"] + 1


def test_a_compensation_is_part_of_the_content(world: World) -> None:
    plain = world.function("reserve", "order")
    named = world.functions.update("reserve", compensate="undo_reserve")
    assert named["number"] == 2
    assert named["sha256"] != plain["sha256"]
    assert named["compensate"] == "undo_reserve"
    assert world.functions.update("reserve", compensate=None)["sha256"] == plain["sha256"]


def test_a_compensation_is_checked_when_it_is_saved(world: World) -> None:
    with pytest.raises(Invalid, match="cannot undo itself"):
        world.function("reserve", "order", compensate="reserve@1")
    with pytest.raises(Invalid, match="does not name a compensation"):
        world.function("reserve", "order", compensate="undo reserve")
    with pytest.raises(Invalid, match="does not name a compensation"):
        world.function("reserve", "order", compensate=3)
    missing = world.function("reserve", "order", compensate="undo_reserve")
    assert missing["warnings"] == ["the compensation undo_reserve does not exist yet"]
    world.function("undo_reserve", "hold, result, limit=3")
    wrong = world.functions.update("reserve", metadata={"a": 1})
    assert wrong["warnings"] == [
        "the compensation undo_reserve needs hold: it is given input, result, execution_id, error and nothing else"
    ]
    world.function("undo_reserve", "result, limit=3")
    assert world.functions.update("reserve", metadata={"a": 2})["warnings"] == []
    with pytest.raises(Conflict, match="reserve"):
        world.functions.delete("undo_reserve")


def test_saga_events_are_the_engine_s_own(world: World) -> None:
    with pytest.raises(Invalid):
        world.events.emit("saga.compensated", {})
    assert "saga" in event_store.RESERVED


def test_the_order_of_compensation_is_pure() -> None:
    from datetime import UTC, datetime, timedelta

    start = datetime(2026, 1, 1, tzinfo=UTC)
    made = [
        steps.Step(str(n), 0, 0, "f", "undo", None if ended is None else start + timedelta(seconds=ended))
        for n, ended in enumerate([3, None, 1, 2, None, 2])
    ]
    assert [one.step_id for one in steps.compensation_order(made)] == ["4", "1", "0", "5", "3", "2"]


@pytest.mark.parametrize(
    ("states", "following", "result"),
    [
        ("pending pending", 0, None),
        ("done pending", 1, None),
        ("waiting pending", None, None),
        ("skipped running pending", None, None),
        ("done failed pending", None, "stuck"),
        ("done skipped", None, "compensated"),
        ("", None, "compensated"),
    ],
)
def test_what_follows_of_a_plan(states: str, following: int | None, result: str | None) -> None:
    rows = [{"position": n, "state": state} for n, state in enumerate(states.split())]
    expected = None if following is None else rows[following]
    assert saga.next_step(rows) == (expected, result)

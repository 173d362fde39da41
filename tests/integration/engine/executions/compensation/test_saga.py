"""What a failed execution had done is undone, the newest first, once, and by any number of processes."""

from collections.abc import Mapping
from typing import Any

import pytest

from functory.engine.database.schema import execution
from functory.engine.errors import Conflict, Invalid
from functory.engine.events import store as event_store
from functory.engine.executions.attempt_output import AttemptOutput
from functory.engine.executions.compensation import compensable_steps, saga
from functory.engine.executions.compensation.operator_commands import Compensations
from functory.engine.maintenance import compensator, lost_workers
from tests.support.sagas import begun, plan, step, undone
from tests.support.world import LEASE, World

pytest_plugins = ["tests.support.world"]


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
        assert (row["parent_id"], row["root_id"], row["depth"]) == (parent.id, parent.row.root_id, 1)
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
    lost_workers.reap(shop.database, cancel_grace=60)
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


def test_a_lost_attempt_s_calls_are_undone_in_the_order_of_their_ends(shop: World) -> None:
    shop.function("order", "order", limits={"retries": 0, "max_attempts": 1})
    parent = begun(shop)
    shop.worker.store_output([AttemptOutput((parent.id, parent.fence), spans=[span(1, "reserve", 1.0)])])
    shop.advance(2)
    step(shop, parent, "charge")
    shop.worker.store_output([AttemptOutput((parent.id, parent.fence), spans=[span(2, "reserve", 4.5)])])
    shop.advance(LEASE + 1)
    lost_workers.reap(shop.database, cancel_grace=60)
    assert shop.executions.get(parent.id)["state"] == "dead"
    assert [row["input"]["input"] for row in undone(shop)] == [{"order": 2}, {"order": 7}, {"order": 1}]


def test_a_released_attempt_s_calls_are_undone_when_a_later_one_fails(shop: World) -> None:
    parent = begun(shop)
    key = (parent.id, parent.fence)
    shop.worker.release([key], outputs=[AttemptOutput(key, spans=[span(1, "reserve", 1.0)])])
    fail(shop, shop.claim(parent.row))
    assert [row["function"] for row in undone(shop)] == ["undo_reserve"]


def test_calls_of_both_kinds_are_undone_in_the_order_of_their_ends(shop: World) -> None:
    parent = begun(shop)
    shop.advance(2)
    step(shop, parent, "charge")  # ends between the two
    shop.advance(5)
    fail(shop, parent, span(1, "reserve", 1.0), span(2, "reserve", 9.0), seconds=10)
    assert [row["function"] for row in undone(shop)] == ["undo_reserve", "undo_charge", "undo_reserve"]


@pytest.mark.parametrize(
    "lost",
    [
        {"input": {"$type": "Order", "$preview": "<Order>"}},
        {"input": {"$type": "Order", "$repr": "<Order>"}},
        {"output": ["key ***"]},
    ],
)
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


def test_values_that_no_compensation_asks_for_need_not_be_whole(shop: World) -> None:
    shop.function("undo_reserve", "execution_id")
    parent = begun(shop)
    fail(shop, parent, span(1, "reserve", 1.0, output={"$type": "Order", "$preview": "<Order>"}))
    assert [row["input"] for row in undone(shop)] == [{"execution_id": parent.id}]


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
        compensable_steps.Step(
            str(n), 0, 0, "f", "undo", None if ended is None else start + timedelta(seconds=ended)
        )
        for n, ended in enumerate([3, None, 1, 2, None, 2])
    ]
    assert [one.step_id for one in compensable_steps.compensation_order(made)] == [
        "4",
        "1",
        "0",
        "5",
        "3",
        "2",
    ]


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

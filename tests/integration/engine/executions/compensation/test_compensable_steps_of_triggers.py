"""Steps that triggers started, and steps that are still open when their execution has failed."""

from functory.engine.maintenance import compensator
from tests.support.sagas import begun, plan, step, undone
from tests.support.world import World

pytest_plugins = ["tests.support.world"]


def test_what_triggers_started_is_undone_where_they_say_so(shop: World) -> None:
    shop.trigger("reserve-it", "reserve", {"type": ["order.placed"]}, compensate=True)
    shop.trigger("charge-it", "charge", {"type": ["order.placed"]})
    parent = begun(shop)
    shop.events.emit("order.placed", {"n": 1}, cause=parent.cause)
    shop.route()
    shop.work(lambda claim: claim.row.function)
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


def test_what_has_no_compensation_anywhere_is_neither_cancelled_nor_reported(shop: World) -> None:
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

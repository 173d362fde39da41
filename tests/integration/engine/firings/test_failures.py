"""Failures in routing: of a function, a template, a condition, an event, a batch. The other events flow."""

from typing import TYPE_CHECKING, Any

import pytest
import sqlalchemy as sa

from functory.engine.database import schema
from functory.engine.errors import Invalid, NotFound, Unavailable
from functory.engine.events import routing_queue

if TYPE_CHECKING:
    pass
from tests.support.orders import ORDER, suppressed

pytest_plugins = ["tests.support.world"]


def test_an_unavailable_function_is_a_suppressed_firing(shop):
    shop.trigger("to-missing", "missing", ORDER)
    shop.trigger("to-version", "work@7", ORDER)
    shop.functions.disable("work")
    shop.events.emit("order.created")
    assert sorted(shop.route()) == [
        (name, "function_unavailable") for name in ("on-order", "to-missing", "to-version")
    ]
    assert sorted(row["detail"] for row in suppressed(shop)) == [
        "function missing does not exist",
        "function work is disabled",
        "function work@7 does not exist",
    ]


def test_an_input_that_cannot_be_made_is_a_suppressed_firing(shop):
    shop.trigger("templated", "work", ORDER, input={"sku": "{{ event.data.sku }}"})
    shop.events.emit("order.created", {"name": "x"})
    assert sorted(shop.route()) == [("on-order", None), ("templated", "input_error")]
    shop.events.emit("order.created", {"sku": 5})
    shop.route()
    assert {"sku": 5} in [e["input"] for e in shop.executions.list(payloads=True)]


def test_a_condition_that_fails_is_a_suppressed_firing_and_a_false_one_is_none(shop):
    shop.trigger("broken", "work", ORDER, when="data.missing.deeper > 3")
    shop.trigger("false", "work", ORDER, when="data.n > 3")
    shop.trigger("true", "work", ORDER, when="data.n < 3")
    shop.events.emit("order.created", {"n": 1})
    assert sorted(shop.route()) == [("broken", "condition_error"), ("on-order", None), ("true", None)]


def failures(world: Any) -> list[dict[str, Any]]:
    return [row["data"] for row in reversed(world.events.list(type_="trigger.failed", payloads=True))]


def test_a_match_of_which_no_execution_can_be_made_is_an_event(shop):
    shop.functions.save("def typed(n):\n    return n\n", input_parameters=[{"name": "n", "type": "int"}])
    shop.trigger("templated", "work", ORDER, input={"sku": "{{ event.data.sku }}"})
    shop.trigger("to-missing", "missing", ORDER)
    shop.trigger("unfit", "typed", ORDER, input={"n": "{{ data.n }}"})
    shop.trigger("undecided", "work", ORDER, when="data.a.b > 3")
    event = shop.events.emit("order.created", {"n": "many"})
    shop.route()
    found = {data["trigger"]: data for data in failures(shop)}
    assert {name: data["reason"] for name, data in found.items()} == {
        "templated": "input_error",
        "to-missing": "function_unavailable",
        "unfit": "input_error",
        "undecided": "condition_error",
    }
    assert '"many" is not of type "integer"' in found["unfit"]["error"]
    assert "has no member sku" in found["templated"]["error"]
    for data in found.values():
        assert (data["event_id"], data["event_type"], data["count"]) == (event, "order.created", 1)
    assert {row["root_id"] for row in shop.events.list(type_="trigger.failed")} == {event}


def test_a_trigger_that_fails_for_each_event_of_a_flood_sends_one_event_a_minute(shop):
    shop.trigger("to-missing", "missing", ORDER)
    for _ in range(3):
        for _ in range(5):
            shop.events.emit("order.created")
        shop.route()
        shop.advance(20)
    assert [data["count"] for data in failures(shop)] == [5]
    shop.events.emit("order.created")
    shop.route()
    assert [data["count"] for data in failures(shop)] == [5, 11]
    (row,) = shop.rows(schema.trigger_failure)
    assert (row["count"], row["unreported"], row["reason"]) == (16, 0, "function_unavailable")


def test_a_failure_about_a_failure_sends_no_event(shop):
    shop.trigger("to-missing", "missing", {"type": [{"prefix": ""}]})
    shop.events.emit("order.created")
    for _ in range(4):
        # One batch a time: the event about the failure is routed when another one would be due.
        shop.router.route_batch()
        shop.advance(100)
    assert [data["event_type"] for data in failures(shop)] == ["order.created"]
    (row,) = shop.rows(schema.trigger_failure)
    assert row["count"] == 3, "its own trigger.created, the order, and the failure"
    shop.trigger("alarm", "work", {"type": ["trigger.failed"]})
    shop.events.emit("order.created")
    shop.route()
    shop.route()
    assert [e["trigger_id"] for e in shop.executions.list()].count(shop.triggers.get("alarm")["id"]) == 1


def test_what_a_guard_stops_or_a_person_pauses_is_no_failure(shop):
    shop.triggers.pause("on-order")
    shop.events.emit("order.created")
    shop.route()
    assert (failures(shop), shop.rows(schema.trigger_failure)) == ([], [])


class Poison(Exception):
    pass


@pytest.mark.parametrize("kind", [Poison, Invalid, RecursionError])
def test_a_poison_event_is_set_aside_and_the_others_flow(shop, monkeypatch, kind):
    real = shop.router.decide

    def decide(row: dict[str, Any], now: Any) -> Any:
        if row.data == "poison":
            raise kind("poison")
        return real(row, now)

    monkeypatch.setattr(shop.router, "decide", decide)
    events = [shop.events.emit("order.created", data) for data in ("a", "poison", "b")]
    for attempt in range(1, 6):
        done = shop.router.route_batch()
        assert done.events == (2 if attempt == 1 else 0)
        poisoned = shop.events.get(events[1])
        assert (poisoned["route_attempts"], poisoned["state"]) == (
            attempt,
            "quarantined" if attempt == 5 else "pending",
        )
        assert kind.__name__ in poisoned["problem"]
        assert shop.router.route_batch().failed == [], "it waits"
        shop.events.emit("order.created", f"after {attempt}")
        assert shop.router.route_batch().events == 1
        shop.advance(2**attempt)
    assert len(shop.executions.list()) == 2 + 5
    shop.advance(10_000)
    assert shop.router.route_batch().events == 0

    monkeypatch.undo()
    shop.events.release(events[1])
    with pytest.raises(NotFound, match="no quarantined event"):
        shop.events.release(events[1])
    assert shop.route() == [("on-order", None)]
    assert shop.events.get(events[1])["problem"] is None


def test_an_event_that_cannot_be_read_is_set_aside_and_the_others_flow(shop):
    events = [shop.events.emit("order.created", n) for n in range(3)]
    with shop.database.write() as tx:
        tx.execute(
            sa.update(schema.event)
            .where(schema.event.c.id == events[1])
            .values(data=sa.literal_column("'{broken'"))
        )
    shop.router.route_batch()
    assert sorted(e["event_id"] for e in shop.executions.list()) == [events[0], events[2]]


def test_a_database_that_is_away_is_no_fault_of_an_event(shop, monkeypatch):
    def away(*_: Any) -> None:
        raise Unavailable("the database cannot be used")

    event = shop.events.emit("order.created")
    monkeypatch.setattr(shop.router, "decide", away)
    with pytest.raises(Unavailable):
        shop.router.route_batch()
    assert (shop.events.get(event)["route_attempts"], shop.events.get(event)["state"]) == (0, "pending")


def test_a_batch_that_fails_while_it_is_written_leaves_no_half(shop, monkeypatch):
    real, calls = routing_queue.mark_routed, []

    def breaks(tx: Any, ids: Any) -> None:
        calls.append(ids)
        if len(calls) == 1:
            raise Poison
        real(tx, ids)

    monkeypatch.setattr(routing_queue, "mark_routed", breaks)
    for n in range(4):
        shop.events.emit("order.created", n)
    assert shop.router.route_batch().events == 4
    assert [len(ids) for ids in calls] == [4, 1, 1, 1, 1]
    assert len(shop.executions.list()) == len(shop.rows(schema.firing)) == 4


def test_a_stored_trigger_that_no_longer_compiles_does_not_stop_the_others(shop):
    broken = shop.trigger("broken", "work", {"type": ["order.created"], "subject": ["x"]})
    with shop.database.write() as tx:
        tx.execute(
            sa.update(schema.trigger_version)
            .where(schema.trigger_version.c.trigger_id == broken["id"])
            .values(definition={"on": {"type": [{"colour": 1}]}})
        )
    shop.events.emit("order.created", subject="x")
    assert shop.route() == [("on-order", None)]

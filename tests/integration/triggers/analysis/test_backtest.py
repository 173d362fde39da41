"""A backtest decides as the truth does: flow control, missing functions, inputs and guards included."""

from datetime import timedelta
from typing import Any

import pytest

from functory.client.functory import Functory
from functory.engine.database import schema
from functory.engine.errors import NotFound
from functory.engine.events.causation import Cause
from functory.triggers import definition
from tests.support.aging_world import ids_of
from tests.support.backtests import backtested, decided, really_decided
from tests.support.flow import TICK, emit, settle, turn
from tests.support.world import World

pytest_plugins = ["tests.support.world"]

# What the real run does with 120 events, one a second, of eight keys; every fourth has a total.
CASES: dict[str, tuple[dict[str, Any], int]] = {
    "plain": ({}, 120),
    "debounce": ({"flow": {"debounce": {"period": "1h", "key": "string(data.k)"}}}, 8),
    "idempotency": ({"flow": {"idempotency": {"key": "string(data.k)", "window": "24h"}}}, 8),
    "rate limit": ({"flow": {"rate_limit": {"limit": 5, "period": "24h", "burst": 5}}}, 5),
    "wrong input": ({"input": {"total": "{{ data.total }}"}}, 30),
    "missing function": ({}, 0),
}


@pytest.mark.parametrize("name", CASES)
def test_would_fire_is_what_really_fired(world: World, name: str) -> None:
    fields, starts = CASES[name]
    if name != "missing function":
        world.function()
    world.trigger("t", "work", TICK, guards={"rate": 0}, **fields)
    for number in range(120):
        emit(world, number, k=number % 8, **({"total": 1} if number % 4 == 0 else {}))
        world.route()
        world.advance(1)
    world.advance(7200)
    turn(world)
    assert really_decided(world, "t").get("executions", 0) == starts
    assert decided(backtested(world, "t")) == really_decided(world, "t")


def test_a_backtest_decides_as_the_router_did(world: World) -> None:
    world.function()
    world.trigger("t", "work", TICK, when="data.n < 5", guards={"rate": 3})
    emit(world, *range(8))
    firings = world.route()
    result = backtested(world, "t")
    assert decided(result) == {"executions": 3, "fired": firings.count(("t", None)), "rate": 2}
    assert result.events == 8
    draft = definition.define(on=TICK, function="work", when="data.n >= 4")
    compared = backtested(world, "t", draft)
    assert compared.differing == 3 + 4
    assert len(compared.only_draft) == 4 and len(compared.only_stored) == 3
    assert len(world.rows(schema.execution)) == 3, "nothing is run"


def test_a_composite_is_replayed_with_its_timers(world: World) -> None:
    world.function()
    parts = {"of": {"on": {"type": ["paid"]}}, "after": {"on": {"type": ["placed"]}}}
    composite = {"absence": parts, "within": "10s", "key": "string(data.n)", "allowance": "1s"}
    world.triggers.save("t", definition.define(function="work", composite=composite))
    for number in range(6):
        emit(world, number, type_="placed")
        world.advance(2)
        emit(world, *([number] if number % 2 else []), type_="paid")
        settle(world)
    world.advance(60)
    turn(world)
    assert decided(backtested(world, "t")) == really_decided(world, "t")
    assert really_decided(world, "t")["executions"] == 3


def test_a_silence_is_replayed_without_any_event(world: World) -> None:
    world.function()
    composite = {"absence": {"of": {"on": TICK}}, "within": "10s", "allowance": "0s"}
    world.triggers.save("t", definition.define(function="work", composite=composite))
    settle(world)
    for _ in range(3):
        world.advance(11)
        turn(world)
        emit(world, 1)
        settle(world)
    assert decided(backtested(world, "t")) == really_decided(world, "t")
    assert really_decided(world, "t")["executions"] == 3


def test_cancel_on_drops_what_waits(world: World) -> None:
    world.function()
    stop = {"on": {"type": ["stop"]}, "when": "data.k == started.data.k"}
    world.trigger(
        "t", "work", TICK, flow={"debounce": {"period": "1m", "key": "data.k"}, "cancel_on": [stop]}
    )
    emit(world, 1, 2, k="a")
    emit(world, 3, k="b")
    settle(world)
    world.advance(1)
    emit(world, 4, type_="stop", k="a")
    settle(world)
    world.advance(100)
    turn(world)
    result = backtested(world, "t")
    assert decided(result) == really_decided(world, "t") == {"executions": 1, "fired": 1, "cancelled": 2}
    assert "cancel_on" in {one.what for one in result.draft.unknown}


def test_what_still_waits_is_counted_apart(world: World) -> None:
    world.function()
    world.trigger("t", "work", TICK, flow={"batch": {"max_size": 4, "timeout": "1m"}})
    emit(world, *range(6))
    settle(world)
    assert decided(backtested(world, "t")) == really_decided(world, "t")
    assert decided(backtested(world, "t")) == {"executions": 1, "fired": 4, "waiting": 2}


@pytest.mark.parametrize("policy", ["skip", "buffer_one"])
def test_what_depends_on_running_executions_is_said_to_be_unknown(world: World, policy: str) -> None:
    world.function()
    world.trigger("t", "work", TICK, flow={"overlap": {"policy": policy, "key": "data.k"}})
    emit(world, 1, 2, 3, 4, k="a")
    emit(world, 5, k="b")
    settle(world)
    result = backtested(world, "t").as_json()
    certain = {"skip": 2, "buffer_one": 3}[policy]
    assert (result["would_fire"], result["cannot_know"]) == (certain, {"overlap": 5 - certain})
    (said,) = [one for one in result["unknown"] if one["what"] == "overlap"]
    assert said["events"] == 5 - certain and "still ran" in said["why"]


def test_a_policy_that_always_starts_is_known(world: World) -> None:
    world.function()
    world.trigger("t", "work", TICK, flow={"overlap": "buffer_all"})
    emit(world, *range(5))
    settle(world)
    assert decided(backtested(world, "t")) == really_decided(world, "t") == {"executions": 5, "fired": 5}


def test_a_budget_that_others_used_is_said_to_be_unknown(world: World) -> None:
    world.function()
    world.trigger("a", "work", TICK, guards={"budget": 4})
    world.trigger("b", "work", TICK, guards={"budget": 4})
    cause = Cause.from_row(world.claim(world.start("work")).row)
    for number in range(3):
        world.events.emit("tick", {"n": number}, cause=cause)
        world.route()
    result = backtested(world, "b").draft
    assert (result.decisions.executions, really_decided(world, "b")["executions"]) == (3, 2)
    assert [one.events for one in result.unknown if one.what == "budget"] == [1]


def test_a_limit_that_grows_with_the_usual_rate_is_said_to_be_unknown(world: World) -> None:
    world.function()
    world.trigger("t", "work", TICK, guards={"rate": 1, "source_rate": 2, "repeat_rate": 0})
    for number in range(4):
        world.events.emit("tick", {"n": number}, subject=str(number), source="https://example.org")
    world.route()
    result = backtested(world, "t")
    assert decided(result) == really_decided(world, "t") == {"executions": 2, "fired": 2, "source_rate": 2}
    assert [one.events for one in result.draft.unknown if one.what == "source_rate"] == [2]


def test_pending_and_quarantined_events_are_named(world: World) -> None:
    world.function()
    world.trigger("t", "work", TICK)
    emit(world, 1, 2, 3)
    with world.database.write() as tx:
        tx.execute(schema.event.update().where(schema.event.c.data == {"n": 1}).values(state="quarantined"))
    result = backtested(world, "t").draft
    assert result.decisions.executions == 2
    said = {one.what: one.events for one in result.unknown}
    assert (said["pending events"], said["quarantined events"]) == (2, 1)


def test_events_that_no_trigger_meets_are_left_out(world: World) -> None:
    world.function()
    world.trigger("t", "work", {"type": ["trigger.suppressed", "trigger.paused"]})
    world.trigger("other", "work", TICK, guards={"rate": 1})
    emit(world, *range(9))
    settle(world)
    assert {"trigger.suppressed", "trigger.paused"} <= set(world.types())
    assert decided(backtested(world, "t")) == really_decided(world, "t") == {}
    world.triggers.pause("other")
    settle(world)
    assert decided(backtested(world, "t")) == really_decided(world, "t") == {"executions": 1, "fired": 1}


def test_events_decide_in_the_order_in_which_they_were_routed(world: World) -> None:
    """An event whose routing failed at first is decided late, as it was."""
    world.database.new_id = ids_of(world.database)
    world.function()
    world.trigger("t", "work", TICK, flow={"rate_limit": {"limit": 1, "period": "1h"}})
    (first,) = emit(world, 1)
    world.advance(1)
    (second,) = emit(world, 2)
    with world.database.write() as tx:
        tx.execute(
            schema.routing_queue.update()
            .where(schema.routing_queue.c.event_id == first)
            .values(route_after=world.clock.now() + timedelta(seconds=30))
        )
    world.route()
    world.advance(60)
    world.route()
    (fired,) = world.rows(schema.execution)
    assert fired["event_id"] == second
    result = backtested(world, "t")
    assert decided(result) == really_decided(world, "t")
    assert result.draft.decisions.fired_ids == {second}


def test_the_engine_of_a_user_backtests_drafts_with_flow_control(engine: Functory) -> None:
    engine.functions.save("def work(event):\n    return 1\n")
    since = engine.database.clock.now() - timedelta(hours=1)
    for number in range(6):
        engine.emit("tick", {"n": number})
    engine.settle(30)
    draft = {"on": TICK, "function": "work", "flow": {"idempotency": {"key": "string(data.n % 2)"}}}
    answer = engine.backtest("t", draft, since=since).as_json()
    assert (answer["would_fire"], answer["would_be_suppressed"]) == (2, {"idempotent": 4})
    assert {"what came before", "consequences"} <= {one["what"] for one in answer["unknown"]}
    missing = engine.backtest("t", draft | {"function": "no_such"}, since=since).as_json()
    assert (missing["would_fire"], missing["would_be_suppressed"]["function_unavailable"]) == (0, 2)
    with pytest.raises(NotFound):
        engine.backtest("no-such", since=since)

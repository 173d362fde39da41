"""The guards that count, at their exact limits: rate and breaker, budgets, agents' limits, shadow, kill switch."""

from __future__ import annotations

import threading
from datetime import timedelta

import pytest
import sqlalchemy as sa

from functory.client.functory import Functory
from functory.engine.database import schema
from functory.engine.errors import Conflict, Invalid, NotFound, WaitTimeout
from functory.engine.events.causation import Cause
from functory.engine.firings.kill_switch import TRIGGERS, Switches
from functory.engine.firings.suppressions import Suppressions
from functory.engine.flow_control import circuit_breaker, trigger_row
from functory.triggers import definition
from functory.triggers.analysis import cycles
from functory.triggers.routing.router import Router
from tests.support.world import World

pytest_plugins = ["tests.support.world"]

ON = {"type": ["tick"]}


def emit(world: World, count: int, subject: str | None = "s") -> list[str]:
    return [world.events.emit("tick", {"n": n}, subject=subject) for n in range(count)]


def test_the_rate_lets_exactly_its_limit_through_and_then_one_by_one(world: World) -> None:
    world.function()
    world.trigger("t", "work", ON, guards={"rate": 6})
    emit(world, 8)
    assert world.route() == [("t", None)] * 6 + [("t", "rate")] * 2
    world.advance(10)
    emit(world, 2)
    assert sorted(world.route(), key=str) == [("t", "rate"), ("t", None)], (
        "a limit of six a minute gives one each ten seconds"
    )


def test_the_rate_counts_each_subject_for_itself(world: World) -> None:
    world.function()
    world.trigger("t", "work", ON, guards={"rate": 1})
    for subject in ("a", "b", None):
        emit(world, 2, subject)
    assert sorted(reason or "" for _, reason in world.route()) == ["", "", "", "rate", "rate", "rate"]


def test_a_rate_of_nought_is_no_limit(world: World) -> None:
    world.function()
    world.trigger("t", "work", ON, guards={"rate": 0})
    emit(world, 50)
    assert world.route() == [("t", None)] * 50


def test_the_breaker_opens_after_repeated_trips_and_closes_by_cooling_down(world: World) -> None:
    world.function()
    world.trigger("t", "work", ON, guards={"rate": 1})
    emit(world, 1 + circuit_breaker.VIOLATIONS_TO_OPEN + 2)
    reasons = [reason for _, reason in world.route()]
    assert reasons.count(None) == 1
    assert reasons.count("rate") == circuit_breaker.VIOLATIONS_TO_OPEN
    assert reasons.count("breaker_open") == 2
    paused = world.events.list(type_="trigger.paused")
    assert len(paused) == 1 and paused[0]["state"] == "routed", (
        "reported once, by an event that can start nothing"
    )
    world.advance(61)
    emit(world, 1)
    assert world.route() == [("t", "breaker_open")], "the rate would allow it, the breaker does not"
    world.advance(circuit_breaker.COOL_DOWN)
    emit(world, 1)
    assert world.route() == [("t", None)]


def test_an_operator_closes_the_breaker_at_once(world: World) -> None:
    world.function()
    world.trigger("t", "work", ON, guards={"rate": 1})
    emit(world, 10)
    world.route()
    world.triggers.resume("t")
    world.advance(61)
    emit(world, 1)
    assert world.route() == [("t", None)]


def test_the_rate_is_exact_with_two_routers(world: World) -> None:
    world.function()
    world.trigger("t", "work", ON, guards={"rate": 20})
    emit(world, 60)

    def drain() -> None:
        router = Router(world.database, world.settings)
        while router.route_batch().events:
            pass

    threads = [threading.Thread(target=drain) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    world.route()
    fired = [row for row in world.rows(schema.firing) if row["decision"] == "fired"]
    assert len(fired) == 20
    assert len(world.rows(schema.firing)) == 60


def test_a_triggers_own_budget_stops_it_before_the_roots(world: World) -> None:
    world.function()
    world.trigger("small", "work", ON, guards={"budget": 2})
    world.trigger("large", "work", ON)
    root = world.events.emit("tick", {})
    rest = [world.events.emit("tick", {}) for _ in range(3)]
    with world.database.write() as tx:
        tx.execute(sa.update(schema.event).where(schema.event.c.id.in_(rest)).values(root_id=root))
    assert sorted(world.route(), key=str) == sorted(
        [("large", None)] * 4 + [("small", None)] + [("small", "budget")] * 3, key=str
    )


def test_a_bomb_is_one_line_with_a_count_and_one_event(world: World) -> None:
    world.function()
    world.trigger("t", "work", ON, guards={"budget": 5})
    ids = emit(world, 40)
    with world.database.write() as tx:
        tx.execute(sa.update(schema.event).where(schema.event.c.id.in_(ids)).values(root_id=ids[0]))
    reasons = [reason for _, reason in world.route()]
    assert (reasons.count(None), reasons.count("budget")) == (5, 35)
    (line,) = Suppressions(world.database).list()
    assert (line["trigger"], line["reason"], line["count"]) == ("t", "budget", 35)
    assert len(world.events.list(type_="trigger.suppressed")) == 1
    limits = {(row["limit_value"], row["actual_value"]) for row in world.rows(schema.firing) if row["reason"]}
    assert limits == {(5, 6)}


def test_a_suppressed_match_is_replayed_once_by_an_operator(world: World) -> None:
    world.function("work", "event")
    world.trigger("t", "work", ON, guards={"rate": 1})
    first, second = emit(world, 2)
    world.route()
    with pytest.raises(Conflict, match="has fired"):
        world.replay_suppressed("t", first)
    execution = world.replay_suppressed("t", second, author="ada")
    assert (execution["cause"], execution["event_id"], execution["depth"]) == ("replay", second, 1)
    assert execution["input"]["event"]["data"] == {"n": 1}
    assert [link["name"] for link in execution["chain"]] == ["t"]
    with pytest.raises(Conflict, match="already"):
        world.replay_suppressed("t", second)
    with pytest.raises(NotFound):
        world.replay_suppressed("other", second)
    assert [(line["author"], line["action"]) for line in world.rows(schema.audit)][-1:] == [
        ("ada", "firing.replay")
    ]


def test_the_kill_switch_leaves_events_pending_and_manual_runs_work(world: World) -> None:
    world.function()
    world.trigger("t", "work", ON)
    switches = Switches(world.database)
    switches.throw(TRIGGERS, note="storm", author="ada")
    emit(world, 3)
    assert world.route() == []
    assert world.lineage.open_work()["pending events"] >= 3
    world.start()
    assert world.work() == 1
    assert [row["note"] for row in switches.list()] == ["storm"]
    switches.release(TRIGGERS, author="ada")
    assert world.route() == [("t", None)] * 3
    with pytest.raises(Invalid, match="unknown switch"):
        switches.throw("everything")


def test_shadow_records_what_it_would_do_and_runs_nothing_until_promoted(world: World) -> None:
    world.function()
    world.triggers.save("t", definition.define(on=ON, function="work"), shadow=True)
    emit(world, 2)
    assert world.route() == [("t", "shadow")] * 2
    with pytest.raises(Conflict, match="shadow"):
        world.triggers.resume("t")
    world.triggers.promote("t")
    emit(world, 1)
    assert world.route() == [("t", None)]
    with pytest.raises(Conflict):
        world.triggers.promote("t")


def test_a_trigger_that_code_saves_begins_in_shadow_under_tighter_limits(world: World) -> None:
    world.function()
    claim = world.claim(world.start())
    generous = definition.define(
        on=ON, function="work", guards={"max_depth": 60, "rate": 100_000, "allow_self": True}
    )
    row = world.triggers.save("t", generous, cause=Cause.from_row(claim.row))
    assert (row["state"], row["origin"]) == ("shadow", "agent")
    world.triggers.promote("t")
    id_ = world.events.emit("tick", {})
    with world.database.write() as tx:
        tx.execute(sa.update(schema.event).where(schema.event.c.id == id_).values(depth=4))
    assert world.route() == [("t", "depth")], "four deep is the end for a trigger of an agent"
    emit(world, 70)
    reasons = [reason for _, reason in world.route()]
    assert reasons.count(None) == 60, "sixty a minute, whatever it asks for"


def graph(world: World) -> cycles.Graph:
    compiled = [definition.compile_definition(trigger_row.from_mapping(row)) for row in world.triggers.list()]
    functions = {row["name"]: row for row in world.functions.list(payloads=True)}
    return cycles.Graph(compiled, functions, world.lineage.emitted_types(functions))


def test_cycles_are_found_through_emissions_updates_calls_dependencies_and_history(world: World) -> None:
    world.functions.save("def emits(event):\n    from functory import emit\n    emit('b', {})\n")
    world.functions.save(
        "def updates(event):\n    from functory import functions\n    functions.update('target', metadata={})\n"
    )
    world.functions.save("def helper():\n    from functory import emit\n    emit('from.helper')\n")
    world.functions.save("def through(event):\n    helper()\n", dependencies=["helper"])
    world.functions.save("def calls(event):\n    from functory import call\n    call('emits')\n")
    world.functions.save(
        "def computed(event):\n    from functory import emit\n    emit(event['data']['type'])\n"
    )
    world.trigger("a", "emits", {"type": ["a"]})
    world.trigger("b", "calls", {"type": ["b"]})
    world.trigger("u", "updates", {"type": ["function.updated"], "subject": ["target"]})
    world.trigger("other", "updates", {"type": ["function.updated"], "subject": ["somebody"]})
    world.trigger("h", "through", {"type": ["from.helper"]})
    world.trigger("c", "computed", {"type": ["x"]})
    found = graph(world)
    assert found.cycle("a") is None
    assert found.cycle("b") is None, "it only meets its own event: the guard for own events ends that"
    targets = {
        name: {step.target for step in steps if step.emission.certain} for name, steps in found.edges.items()
    }
    assert targets["a"] == {"b"}
    assert targets["b"] == {"b"}
    assert targets["u"] == {"u"}
    assert targets["other"] == {"u"}
    assert targets["h"] == {"h"}
    assert {step.target for step in found.edges["c"]} == {"a", "b", "u", "other", "h", "c"}, (
        "a computed type may be anything"
    )
    world.functions.update(
        "computed",
        source="def computed(event):\n    from functory import emit_many\n    emit_many([{'type': 'x'}])\n",
    )
    assert len(graph(world).edges["c"]) >= 6, "so may the types of many events"
    world.functions.update(
        "calls",
        source="def calls(event):\n    from functory import call, emit\n    call('emits')\n    emit('a')\n",
    )
    ring = graph(world).cycle("a")
    assert ring is not None
    assert cycles.format_cycle(ring) == "a → emits → b → b → calls → a → a"
    with pytest.raises(Conflict, match="a → emits → b"):
        cycles.check(graph(world), "a", world.settings)


def test_what_was_observed_counts_as_an_edge(world: World) -> None:
    world.function("one", "event=None")
    world.function("two", "event=None")
    world.trigger("first", "one", {"type": ["start"]})
    world.trigger("second", "two", {"type": ["seen"]})
    assert graph(world).edges["second"] == [] or graph(world).cycle("second") is None
    claim = world.claim(world.start("two"))
    world.events.emit("start", {}, cause=Cause.from_row(claim.row))
    claim = world.claim(world.start("one"))
    world.events.emit("seen", {}, cause=Cause.from_row(claim.row))
    ring = graph(world).cycle("second")
    assert ring is not None and [step.function for step in ring] == ["two", "one"]


def test_the_engine_of_a_user_refuses_cycles_and_backtests_drafts(engine: Functory) -> None:
    engine.functions.save("def ping(event):\n    from functory import emit\n    emit('pong')\n")
    engine.functions.save("def pong(event):\n    from functory import emit\n    emit('ping')\n")
    engine.register_trigger(
        "on-ping", on={"type": ["ping"]}, function="ping", guards={"acknowledge_cycle": 2}
    )
    with pytest.raises(Conflict, match="on-pong → pong → ping → on-ping → ping → pong → on-pong"):
        engine.register_trigger("on-pong", on={"type": ["pong"]}, function="pong")
    engine.register_trigger(
        "on-pong", on={"type": ["pong"]}, function="pong", guards={"acknowledge_cycle": 2}
    )
    engine.emit("ping")
    engine.settle(30)
    reasons = {row["reason"] for row in engine.suppressions.list()}
    assert reasons == {"cycle"}
    assert len(engine.executions.list(function="pong")) <= 2
    since = engine.database.clock.now() - timedelta(hours=1)
    draft = {"on": {"type": ["ping", "pong"]}, "function": "ping"}
    result = engine.backtest("on-ping", draft, since=since)
    assert result.stored is not None and result.draft.decisions.matched > result.stored.decisions.matched
    with pytest.raises(NotFound):
        engine.backtest("no-such", since=since)


def test_a_wait_for_events_of_halted_triggers_says_why(engine: Functory) -> None:
    engine.switches.throw(TRIGGERS)
    engine.emit("tick", {})
    with pytest.raises(WaitTimeout) as waited:
        engine.settle(0.1)
    assert (waited.value.why, waited.value.try_) == (
        "1 pending events; all triggers are halted",
        "functory trigger unhalt",
    )

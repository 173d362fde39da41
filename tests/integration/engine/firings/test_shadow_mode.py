"""A trigger in shadow decides as an enabled one does, flow control included, and starts nothing."""

from collections import Counter
from typing import Any

import pytest

from functory.engine.database import schema
from functory.engine.events.causation import Cause
from functory.triggers import definition
from tests.support.aging_world import broken
from tests.support.flow import TICK, emit, settle, turn
from tests.support.world import World

pytest_plugins = ["tests.support.world"]

FLOWS: dict[str, dict[str, Any]] = {
    "debounce": {"debounce": {"period": "10s", "key": "string(data.k)"}},
    "batch": {"batch": {"max_size": 5, "timeout": "10s", "key": "string(data.k)"}},
    "idempotency": {"idempotency": {"key": "string(data.k)", "window": "1h"}},
    "rate limit": {"rate_limit": {"limit": 5, "period": "1h", "burst": 5}},
    "rate limit by key, then debounce": {
        "rate_limit": {"limit": 2, "period": "1h", "burst": 2, "key": "string(data.k)"},
        "debounce": {"period": "10s"},
    },
}


def decisions(world: World, name: str) -> Counter[str]:
    """The reasons of a trigger's firings; `fired` for those that fired or, in shadow, would have fired."""
    ids = {row["name"]: row["id"] for row in world.rows(schema.trigger)}
    reasons = [
        row["reason"] or "fired" for row in world.rows(schema.firing) if row["trigger_id"] == ids[name]
    ]
    return Counter("fired" if reason == "shadow" else reason for reason in reasons)


def save_both(world: World, **fields: Any) -> None:
    world.function()
    world.trigger("real", "work", TICK, **fields)
    world.triggers.save("shadow", world.triggers.get("real")["definition"], shadow=True)


@pytest.mark.parametrize("name", FLOWS)
def test_a_shadow_decides_as_the_enabled_trigger_beside_it(world: World, name: str) -> None:
    save_both(world, flow=FLOWS[name])
    for number in range(24):
        emit(world, number, k=number % 3)
        world.advance(1)
        settle(world)
    world.advance(20)
    turn(world)
    assert decisions(world, "shadow") == decisions(world, "real")
    assert decisions(world, "shadow")["fired"] < 24 or name == "batch"
    real = world.triggers.get("real")["id"]
    assert {row["trigger_id"] for row in world.rows(schema.execution)} == {real}
    assert broken(world) == {}


def test_a_shadow_records_inputs_functions_and_guards_that_stop_it(world: World) -> None:
    save_both(world, input={"x": "{{ event.data.x }}"}, guards={"rate": 3})
    for number in range(8):
        emit(world, number, **({"x": 1} if number % 2 else {}))
    settle(world)
    assert decisions(world, "shadow") == decisions(world, "real") == {"fired": 3, "rate": 1, "input_error": 4}
    world.functions.delete("work", force=True)
    emit(world, 9)
    settle(world)
    assert decisions(world, "shadow")["function_unavailable"] == 1


def test_a_shadow_takes_nothing_from_the_budget_of_a_root_and_keeps_to_it(world: World) -> None:
    save_both(world, guards={"budget": 6, "allow_self": True, "max_revisits": 9})
    cause = Cause.from_row(world.claim(world.start("work")).row)
    for number in range(8):
        world.events.emit("tick", {"n": number}, cause=cause)
        world.route()
    assert decisions(world, "real") == {"fired": 6, "budget": 2}, "nothing of it went to the shadow"
    assert decisions(world, "shadow") == {"fired": 3, "budget": 5}, "it would have shared the budget"
    assert [row["used"] for row in world.rows(schema.budget)] == [6]


def test_promote_begins_with_fresh_flow_control(world: World) -> None:
    """What a shadow has used up holds back no execution, and what waits in its buffers starts none."""
    world.function()
    flow = {
        "idempotency": {"key": "string(data.k)", "window": "1h"},
        "rate_limit": {"limit": 1, "period": "1h"},
    }
    for name, given in (("t", flow), ("waiting", {"debounce": {"period": "1m"}})):
        world.trigger("made", "work", TICK, flow=given)
        world.triggers.save(name, world.triggers.get("made")["definition"], shadow=True)
        world.triggers.delete("made")
    settle(world)
    emit(world, 1, k="same")
    settle(world)
    assert decisions(world, "t") == {"fired": 1} and len(world.rows(schema.buffered_match)) == 1
    world.triggers.promote("t")
    world.triggers.promote("waiting")
    assert world.rows(schema.idempotency_key) == world.rows(schema.rate_limit) == []
    world.advance(120)
    settle(world)
    assert decisions(world, "waiting") == {"fired": 1} and world.rows(schema.execution) == []
    emit(world, 2, k="same")
    settle(world)
    world.advance(120)
    turn(world)
    assert decisions(world, "t") == {"fired": 2}
    assert len(world.rows(schema.execution)) == 2


def test_a_shadow_waits_for_silence_too(world: World) -> None:
    world.function()
    composite = {"absence": {"of": {"on": TICK}}, "within": "10s", "allowance": "0s"}
    world.triggers.save("t", definition.define(function="work", composite=composite), shadow=True)
    settle(world)
    world.advance(11)
    turn(world)
    assert decisions(world, "t") == {"fired": 1} and world.rows(schema.execution) == []


def test_a_shadow_says_that_it_cannot_know_whether_an_execution_still_runs(world: World) -> None:
    save_both(world, flow={"overlap": "skip"})
    emit(world, 1)
    settle(world)
    details = [row["detail"] for row in world.rows(schema.firing) if row["reason"] == "shadow"]
    assert details == [
        "it would have fired, unless overlap had stopped it: no execution of its key runs; "
        "functory trigger promote makes it do so"
    ]

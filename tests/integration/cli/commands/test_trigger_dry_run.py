"""`functory trigger test` says what one event by itself decides, and which controls decide after that."""

from typing import Any

from functory.engine.events import store as event_store
from functory.triggers import definition
from functory.triggers.analysis.dry_run import dry_run
from tests.support.flow import TICK, emit
from tests.support.world import World, on_sqlite

pytest_plugins = ["tests.support.world"]


def answer(world: World, **data: Any) -> dict[str, Any]:
    (id_,) = emit(world, 1, **data)
    envelope = event_store.envelope(world.events.get(id_))
    return dry_run(world.triggers.get("t"), envelope, world.clock.now(), world.functions.get)


@on_sqlite
def test_a_disabled_function_is_not_run(world: World) -> None:
    world.function()
    world.trigger("t", "work", TICK)
    assert answer(world)["fires"]
    world.functions.disable("work")
    found = answer(world)
    assert not found["fires"] and "is disabled" in found["problem"]


@on_sqlite
def test_a_key_without_a_value_is_a_problem(world: World) -> None:
    world.function()
    world.trigger("t", "work", TICK, flow={"debounce": {"period": "5s", "key": "data.k"}})
    assert answer(world, k="a")["fires"]
    found = answer(world)
    assert not found["fires"] and "has no value" in found["problem"]


@on_sqlite
def test_the_controls_that_decide_later_are_named(world: World) -> None:
    world.function()
    flow = {"idempotency": {"key": "string(data.n)"}, "debounce": {"period": "5s"}}
    world.trigger("t", "work", TICK, flow=flow)
    assert answer(world)["undecided"] == ["debounce", "idempotency"]
    composite = {"threshold": {"count": 2, "on": TICK}, "within": "5s"}
    world.triggers.save(
        "t", definition.define(function="work", composite=composite, flow={"overlap": "skip"})
    )
    assert answer(world)["undecided"] == ["composite", "overlap"]


@on_sqlite
def test_a_shadow_is_promoted_and_not_resumed(world: World) -> None:
    world.function()
    world.triggers.save("t", definition.define(function="work", on=TICK), shadow=True)
    assert answer(world)["problem"] == "the trigger is shadow; functory trigger promote t"

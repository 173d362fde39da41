"""`functory trigger test` says what one event by itself decides, and which controls decide after that."""

from pathlib import Path
from typing import Any

from functory.engine.events.envelope import of_mapping
from functory.triggers import definition
from functory.triggers.analysis.dry_run import dry_run
from tests.support.cli_shell import Shell
from tests.support.flow import TICK, emit
from tests.support.world import World, on_sqlite

pytest_plugins = ["tests.support.world"]


def answer(world: World, **data: Any) -> dict[str, Any]:
    (id_,) = emit(world, 1, **data)
    envelope = of_mapping(world.events.get(id_))
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


def test_an_event_is_json_text_a_file_or_an_id(tmp_path: Path) -> None:
    shell = Shell(tmp_path)
    (tmp_path / "f.py").write_text("def f(event):\n    return None\n")
    shell.run("function", "add", "f.py")
    shell.run("trigger", "add", "t", "--on", '{"type": ["tick"]}', "--function", "f")
    (tmp_path / "event.json").write_text('{"type": "tick"}')
    stored = shell.out("event", "emit", "tick", "--quiet")
    for event in ('{"type": "tick"}', "@event.json", "event.json", stored):
        assert "would run f" in shell.out("trigger", "test", "t", "--event", event)

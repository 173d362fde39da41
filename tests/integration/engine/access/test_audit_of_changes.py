"""The audit has every change of an operator: who, what, from where, and the hashes of the content before and after."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from functory.engine.database import audit, schema
from functory.engine.triggers.kill_switch import Switches

if TYPE_CHECKING:
    from tests.support.world import World

pytest_plugins = ["tests.support.world"]

ONE, TWO = "def work():\n    return 1\n", "def work():\n    return 2\n"


def entries(world: World) -> list[dict[str, Any]]:
    return world.rows(schema.audit)


def hashes(world: World, *actions: str) -> list[tuple[str | None, str | None]]:
    return [(row["before_sha256"], row["after_sha256"]) for row in entries(world) if row["action"] in actions]


def test_a_function_has_the_hash_of_its_version_before_and_after_each_change(world: World) -> None:
    functions = world.functions
    with audit.acting("a test"):
        one = functions.save(ONE, author="ada")["sha256"]
        two = functions.save(TWO, author="bob")["sha256"]
        functions.save(TWO, author="bob")
        functions.activate("work", 1, author="ada")
        functions.disable("work", author="ada")
        functions.activate("work", 2, author="ada", force=True)
        functions.mark("work", 1, "bad", reason="slow", author="ada")
        functions.delete("work", author="ada")
    rows = entries(world)
    assert [(row["author"], row["action"]) for row in rows] == [
        ("ada", "function.created"),
        ("bob", "function.updated"),
        ("ada", "function.activated"),
        ("ada", "function.disabled"),
        ("ada", "function.activated"),
        ("ada", "version.marked"),
        ("ada", "function.deleted"),
    ]
    assert hashes(world, *{row["action"] for row in rows}) == [
        (None, one), (one, two), (two, one), (one, one), (one, two), (one, one), (two, None),
    ]  # fmt: skip
    assert {(row["subject"], row["origin"], row["refused"]) for row in rows} == {("work", "a test", False)}


def test_a_trigger_a_source_a_secret_and_a_state_have_theirs(world: World) -> None:
    world.function("work")
    world.trigger("go", function="work", on={"type": ["order.created"]})
    world.triggers.pause("go", note="lunch", author="ada")
    world.triggers.delete("go", author="ada")
    made, paused, gone = hashes(world, "trigger.created", "trigger.paused", "trigger.deleted")
    assert made[0] is None and made[1] == paused[0] == paused[1] == gone[0] and gone[1] is None
    world.secrets.set("KEY", "first value", author="ada")
    world.secrets.set("KEY", "second value", author="ada")
    world.secrets.delete("KEY", author="ada")
    first, second, gone = hashes(world, "secret.set", "secret.delete")
    assert first[0] is None and first[1] == second[0] != second[1] == gone[0] and gone[1] is None
    world.state.set("work", "n", 1, author="ada")
    world.state.set("work", "n", None, author="ada")
    world.state.delete("work", "n", author="ada")
    first, second, gone = hashes(world, "state.set", "state.delete")
    assert first[0] is None and first[1] == second[0] != second[1] == gone[0] and gone[1] is None
    switches = Switches(world.database)
    switches.throw("triggers", note="broken", author="ada")
    switches.release("triggers", author="ada")
    thrown, released = hashes(world, "switch.throw", "switch.release")
    assert thrown[0] is None and thrown[1] == released[0] and released[1] is None
    assert not [row for row in entries(world) if "value" in repr(row["data"])]


def test_what_a_function_writes_into_its_state_does_not_fill_the_audit(world: World) -> None:
    world.function("work")
    claim = world.claim(world.start("work"))
    world.state.set("work", "n", 1, cause=claim.cause)
    assert not hashes(world, "state.set")


def test_an_origin_holds_for_its_block_alone(world: World) -> None:
    with audit.acting("outer"):
        with pytest.raises(ZeroDivisionError), audit.acting("inner"):
            _ = 1 / 0
        assert audit.origin() == "outer"
    assert audit.origin() is None

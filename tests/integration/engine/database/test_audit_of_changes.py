"""The audit has every change of an operator: who, what, from where, and the hashes of the content before and after."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from functory.engine.database import audit, schema
from functory.engine.executions.start_many import start_many
from functory.engine.firings.kill_switch import Switches

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


def test_who_starts_sends_and_cancels_from_outside_is_in_it(world: World) -> None:
    world.function("work")
    before = len(entries(world))
    with audit.acting("a test"):
        one = world.executions.start("work", {}, author="ada")["id"]
        world.executions.start("work", {})
        many = start_many(world.database, world.settings, "work", [{}, {}], author="ada")
        sent = world.events.emit("order.created", {}, author="bob")
        world.events.emit("order.created", {})
        more = world.events.emit_many([{"type": "a.b"}, {"type": "c.d"}, {"type": "a.b"}], author="bob")
        world.executions.cancel(one, author="ada")
        # A key that was used before starts and sends nothing.
        first = world.executions.start("work", {}, author="ada", idempotency_key="k")["id"]
        world.executions.start("work", {}, author="ada", idempotency_key="k")
        again = world.events.emit("order.paid", {}, author="bob", dedup_key="k")
        world.events.emit("order.paid", {}, author="bob", dedup_key="k")
        world.events.emit_many([{"type": "order.paid", "dedup_key": "k"}], author="bob")
        both = [{"type": "order.paid", "dedup_key": "k"}, {"type": "order.sent", "dedup_key": "new"}]
        new = world.events.emit_many(both, author="bob")[1]
    rows = entries(world)[before:]
    assert [(row["author"], row["action"], row["subject"], row["data"]) for row in rows] == [
        ("ada", "execution.start", one, {"function": "work"}),
        ("ada", "execution.start", many[0], {"function": "work", "count": 2}),
        ("bob", "event.emit", sent, {"type": "order.created"}),
        ("bob", "event.emit", more[0], {"types": ["a.b", "c.d"], "count": 3}),
        ("ada", "execution.cancel", one, {}),
        ("ada", "execution.start", first, {"function": "work"}),
        ("bob", "event.emit", again, {"type": "order.paid"}),
        ("bob", "event.emit", new, {"types": ["order.sent"], "count": 1}),
    ]
    assert {row["origin"] for row in rows} == {"a test"}

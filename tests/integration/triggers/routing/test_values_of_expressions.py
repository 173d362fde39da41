"""Two different values are never one key, and no condition holds for another value than the event's."""

from __future__ import annotations

from typing import Any

from tests.support.world import World

pytest_plugins = ["tests.support.world"]

# Pairs that the CEL library cannot tell apart.
ALIKE: list[tuple[Any, Any]] = [
    (2**64 - 1, 2**64 - 2),
    (10**30, 10**30 + 1),
    ("o\0a", "o\0b"),
    ("o\ud83d", "o\ude00"),
    ({"o\0a": 1}, {"o\0b": 1}),
]
ON = {"type": ["order"]}


def test_orders_with_different_keys_all_run(world: World) -> None:
    world.function()
    world.trigger("once", "work", ON, flow={"idempotency": {"key": "data.b"}})
    for pair in ALIKE:
        for b in (*pair, pair[0]):
            world.events.emit("order", {"b": b})
    assert [reason for _, reason in world.route()] == [None, None, "idempotent"] * len(ALIKE)


def test_a_condition_over_a_value_that_cel_would_change_is_an_error_with_its_reason(world: World) -> None:
    world.function()
    world.trigger("exact", "work", ON, when="data.b == 'o' || data.b == 1.0")
    for b in ("o", "o\0a", "o\ud83d", 2**64):
        world.events.emit("order", {"b": b, "unread": "x\0y"})
    assert [reason for _, reason in world.route()] == [None, *["condition_error"] * 3]


def test_a_composed_key_of_such_a_value_is_an_error(world: World) -> None:
    world.function()
    world.trigger("once", "work", ON, flow={"idempotency": {"key": "'shop/' + data.b"}})
    for b in ("o", "o\0a", "o\0b", "p"):
        world.events.emit("order", {"b": b})
    assert [reason for _, reason in world.route()] == [None, "condition_error", "condition_error", None]


def test_cancel_on_cancels_only_what_has_the_same_value(world: World) -> None:
    world.function()
    rule = {"on": {"type": ["stop"]}, "when": "data.b == started.data.b"}
    world.trigger("work", "work", ON, flow={"cancel_on": [rule]})
    for b in ("o", "o\0a"):
        world.events.emit("order", {"b": b})
    world.route()
    world.events.emit("stop", {"b": "o\0z"})
    world.route()
    world.turn.run_once()
    assert [row["state"] for row in world.executions.list()] == ["queued", "queued"]
    world.events.emit("stop", {"b": "o"})
    world.route()
    world.turn.run_once()
    assert sorted(row["state"] for row in world.executions.list()) == ["cancelled", "queued"]

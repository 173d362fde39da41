"""An event that would cost a pattern too much is a suppressed match of its trigger, and no other one waits for it."""

from __future__ import annotations

import pytest

from functory.engine.database import schema
from tests.support.flow import settle
from tests.support.world import World

pytest_plugins = ["tests.support.world"]

MANY = {"m": [{"prefix": f"y{number}"} for number in range(1000)]}


@pytest.fixture
def both(world: World) -> World:
    """A trigger with a thousand tests, and one beside it."""
    world.function()
    world.trigger("costly", "work", {"type": ["a"], "data": {"items": MANY}})
    world.trigger("simple", "work", {"type": ["a", "b"]})
    return world


def test_a_costly_match_is_suppressed_with_its_reason_and_the_others_fire(both: World) -> None:
    both.events.emit("a", {"items": [{"m": "x"}] * 4000})
    assert both.route() == [("costly", "condition_error"), ("simple", None)]
    (stopped,) = both.rows(schema.firing, schema.firing.c.decision == "suppressed")
    assert "3,000,000 tests" in stopped["detail"]


def test_the_tests_of_a_usual_event_are_made(both: World) -> None:
    both.events.emit("a", {"items": [{"m": "x"}, {"m": "y17"}]})
    both.events.emit("a", {"items": [{"m": "x"}]})
    both.events.emit("b", {"items": [{"m": "x"}] * 4000})
    assert both.route() == [("costly", None), ("simple", None), ("simple", None), ("simple", None)]


def test_a_cancel_on_pattern_that_costs_too_much_cancels_nothing(world: World) -> None:
    world.function()
    rule = {"on": {"type": ["stop"], "data": {"items": MANY}}}
    world.trigger("t", "work", {"type": ["a"]}, flow={"cancel_on": [rule]})
    world.events.emit("a", {})
    settle(world)
    world.advance(1)
    world.events.emit("stop", {"items": [{"m": "x"}] * 4000})
    settle(world)
    assert [row["state"] for row in world.rows(schema.execution)] == ["queued"]
    world.events.emit("stop", {"items": [{"m": "y1"}]})
    settle(world)
    assert [row["state"] for row in world.rows(schema.execution)] == ["cancelled"]

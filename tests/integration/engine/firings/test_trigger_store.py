"""Trigger definitions: what is refused, what makes a version, and BabyAGI's spelling."""

from typing import TYPE_CHECKING

import pytest

from functory.engine.errors import Conflict, Invalid, NotFound
from functory.triggers import definition

if TYPE_CHECKING:
    pass
from tests.support.orders import ORDER

pytest_plugins = ["tests.support.world"]


def test_a_change_of_a_trigger_is_seen_by_the_next_batch(shop):
    shop.function("other")
    for change, function in ((lambda: shop.trigger("on-order", "other", ORDER), "other"),
                             (lambda: shop.functions.update("other", metadata={"n": 2}), "other"),
                             (lambda: shop.trigger("on-order", "work", {"type": ["order.paid"]}), None),
                             (lambda: shop.trigger("on-order", "work", ORDER), "work"),
                             (lambda: shop.triggers.delete("on-order"), None),
                             (lambda: shop.trigger("on-order", "work", ORDER), "work")):  # fmt: skip
        change()
        shop.route()
        before = {e["id"] for e in shop.executions.list()}
        shop.events.emit("order.created")
        shop.route()
        assert [e["function"] for e in shop.executions.list() if e["id"] not in before] == (
            [function] if function else []
        )


def test_the_same_definition_makes_no_version(shop):
    before = shop.types()
    assert not shop.trigger("on-order", "work", ORDER)["created"]
    assert shop.types() == before
    assert shop.trigger("on-order", "work", ORDER, when="true")["version"] == 2
    assert [v["number"] for v in shop.triggers.versions("on-order")] == [2, 1]
    with pytest.raises(Conflict, match="you expected version 1, it is 2"):
        shop.triggers.save("on-order", definition.define(on=ORDER, function="work"), expected_version=1)


@pytest.mark.parametrize(("fields", "message"), [
    ({"on": {"type": "order.created"}, "function": "work"}, "(?s)type"),
    ({"on": {"type": [{"colour": 1}]}, "function": "work"}, "colour"),
    ({"on": ORDER, "function": "no name"}, "does not name a function"),
    ({"on": ORDER, "function": "work", "when": "data.("}, "(?s)condition"),
    ({"on": ORDER, "function": "work", "guards": {"max_depth": 10_001}}, "wrong guard max_depth 10001"),
    ({"on": ORDER, "function": "work", "guards": {"speed": 1}}, "unknown fields"),
    ({"on": ORDER, "function": "work", "guards": [1]}, "wrong guards"),
    ({"on": ORDER}, "has no 'function'"),
    ({"function": "work"}, "has no 'on'"),
    ({"on": ORDER, "function": "work", "colour": 1}, "unknown fields of a trigger: colour"),
    ({"event_type": "function_updated"}, "names no function"),
    ({"event_type": ["a"], "trigger_function": "work"}, "wrong event_type"),
    ({"event_type": "a", "trigger_function": "work", "conditions": 5}, "wrong conditions"),
    ({"event_type": "a", "trigger_function": "work", "conditions": {"metadata": 1, "b": 2}}, "wrong conditions"),
    ({"event_type": "a", "trigger_function": "work", "conditions": dict.fromkeys("abcdefg", 1)}, "too many conditions"),
])  # fmt: skip
def test_a_wrong_trigger_is_refused_with_the_part_that_is_wrong(fields, message):
    with pytest.raises(Invalid, match=message):
        definition.parse(fields)


def test_a_trigger_needs_a_proper_name(shop):
    for name in ("", "a b", "a/b", "x" * 300, None, "a\x00"):
        with pytest.raises(Invalid, match="is not a trigger name"):
            shop.triggers.save(name, definition.define(on=ORDER, function="work"))
    with pytest.raises(NotFound):
        shop.triggers.pause("missing")


def test_both_spellings_of_a_trigger_fire_on_the_same_event(world):
    world.function("validate", parameters="event")
    world.triggers.save(
        "one",
        definition.parse(
            {
                "event_type": "function_updated",
                "target_function": "parse",
                "trigger_function": "validate",
                "conditions": {"auto_validate": True},
            }
        ),
    )
    world.triggers.save(
        "two",
        definition.parse(
            {
                "on": {
                    "type": ["function.updated"],
                    "subject": ["parse"],
                    "data": {"metadata": {"auto_validate": [True]}},
                },
                "function": "validate",
            }
        ),
    )
    world.function("parse", metadata={"auto_validate": True})
    world.function("other", metadata={"auto_validate": True})
    world.functions.update("other", metadata={"auto_validate": True, "n": 1})
    assert world.route() == []
    world.functions.update("parse", metadata={"auto_validate": False})
    assert world.route() == []
    world.functions.update("parse", metadata={"auto_validate": True})
    assert sorted(world.route()) == [("one", None), ("two", None)]
    assert [list(e["input"]) for e in world.executions.list(payloads=True)] == [["event"]] * 2


@pytest.mark.parametrize("spelling", ["function_executed", "execution_succeeded", "execution.succeeded"])
def test_babyagi_s_spelling_passes_the_output_as_first_argument(world, spelling):
    world.function("make")
    world.function("use", parameters="output, rest=None")
    world.triggers.save(
        "t", definition.parse({"event_type": spelling, "target_function": "make", "trigger_function": "use"})
    )
    world.finish(world.claim(world.start("make")), result=[1, 2])
    world.route()
    assert [e["input"] for e in world.executions.list(function="use", payloads=True)] == [{"output": [1, 2]}]

"""Values that Python callers give are stored in the JSON form that results have, or refused with their place."""

import dataclasses
import datetime as dt
import enum
import uuid
from decimal import Decimal

import pytest

from functory.engine.errors import Invalid
from tests.support.world import World

pytest_plugins = ["tests.support.world"]

ID = uuid.UUID("01998c5e-0000-7000-8000-000000000001")
WHEN = dt.datetime(2026, 1, 2, 3, tzinfo=dt.timezone(dt.timedelta(hours=2)))


class Colour(enum.Enum):
    RED = "red"


@dataclasses.dataclass
class Line:
    price: Decimal


GIVEN = {"when": WHEN, "id": ID, "line": Line(Decimal("1.5")), "colours": {Colour.RED}}
STORED = {
    "when": "2026-01-02T03:00:00+02:00",
    "id": str(ID),
    "line": {"price": "1.5"},
    "colours": ["red"],
}


def test_the_input_of_an_execution_is_json(world: World) -> None:
    world.function("parse", "when, id, line, colours")
    row = world.executions.start("parse", GIVEN)
    assert row["input"] == STORED
    assert world.executions.get(row["id"])["input"] == STORED


def test_the_data_of_an_event_is_json(world: World) -> None:
    assert world.events.get(world.events.emit("order.created", GIVEN))["data"] == STORED


def test_a_value_of_state_is_json(world: World) -> None:
    world.state.set("parse", "last", GIVEN)
    assert world.state.get("parse", "last") == (STORED, 1)


def test_the_input_of_a_trigger_is_json(world: World) -> None:
    row = world.trigger("on-order", on={"type": ["order.created"]}, function="parse", input=GIVEN)
    assert row["definition"]["input"] == STORED


@pytest.mark.parametrize("give", ["start", "emit", "set"])
def test_a_value_without_a_form_is_refused_with_its_place(world: World, give: str) -> None:
    world.function("parse", "when")
    value = {"when": [object()]}
    with pytest.raises(Invalid, match=r"at \$\.when\[0\]: an object has no JSON form"):
        if give == "start":
            world.executions.start("parse", value)
        elif give == "emit":
            world.events.emit("order.created", value)
        else:
            world.state.set("parse", "last", value)

"""Python values take the form that JSON has for them, or an error names the place."""

import collections
import dataclasses
import datetime as dt
import enum
import pathlib
import uuid
from decimal import Decimal
from typing import Any, NamedTuple
from zoneinfo import ZoneInfo

import msgspec
import pydantic
import pytest

from functory.engine.errors import Invalid
from functory.engine.serialization import json_codec
from functory.engine.serialization.python_values import (
    MAX_BYTES,
    JsonConverter,
    NotSerializable,
    TooLarge,
    is_plain,
)

ID = uuid.UUID("01998c5e-0000-7000-8000-000000000001")
PARIS = ZoneInfo("Europe/Paris")


class Colour(enum.Enum):
    RED = "red"
    PAIR = (1, 2)


class Level(enum.IntEnum):
    HIGH = 3


class Point(NamedTuple):
    x: int
    at: dt.date


@dataclasses.dataclass
class Line:
    price: Decimal
    tags: set[str] = dataclasses.field(default_factory=set)
    more: Any = None


class Row(msgspec.Struct, tag="row", rename="camel"):
    row_id: uuid.UUID
    note: str | msgspec.UnsetType = msgspec.UNSET


class Pair(msgspec.Struct, array_like=True):
    first: int
    second: dt.time


class Model(pydantic.BaseModel):
    number: int = pydantic.Field(alias="n")
    when: dt.datetime


@pydantic.dataclasses.dataclass
class Checked:
    url: pydantic.HttpUrl


class Attributes:
    """As attrs makes them."""

    __attrs_attrs__ = (type("Attribute", (), {"name": "size"}),)
    size = 3


class Moment(dt.datetime):
    """As pendulum and pandas have them."""


@pytest.mark.parametrize(
    ("value", "form"),
    [
        (dt.datetime(2026, 1, 2, 3, 4, 5, 6, dt.UTC), "2026-01-02T03:04:05.000006Z"),
        (dt.datetime(2026, 1, 2, 3, tzinfo=PARIS), "2026-01-02T03:00:00+01:00"),
        (dt.datetime(1900, 1, 1, tzinfo=PARIS), "1899-12-31T23:50:39Z"),
        (dt.datetime(2026, 1, 2), "2026-01-02T00:00:00"),
        (Moment(2026, 1, 2), "2026-01-02T00:00:00"),
        (dt.date(2026, 1, 2), "2026-01-02"),
        (dt.time(3, 4), "03:04:00"),
        (dt.timedelta(days=1, seconds=30), "P1DT30S"),
        (Decimal("1.50"), "1.50"),
        (ID, str(ID)),
        (pathlib.PurePosixPath("/a/b"), "/a/b"),
        (Colour.RED, "red"),
        (Colour.PAIR, [1, 2]),
        (Level.HIGH, 3),
        (b"abc", "YWJj"),
        (bytearray(b"abc"), "YWJj"),
        (memoryview(b"abc"), "YWJj"),
        ({"b", "a"}, ["a", "b"]),
        (frozenset({1, "a"}), ["a", 1]),
        ((1, (2,)), [1, [2]]),
        (Point(1, dt.date(2026, 1, 2)), [1, "2026-01-02"]),
        (Line(Decimal(2), {"x"}, [Colour.RED]), {"price": "2", "tags": ["x"], "more": ["red"]}),
        (Row(ID), {"type": "row", "rowId": str(ID)}),
        (Row(ID, "n"), {"type": "row", "rowId": str(ID), "note": "n"}),
        (Pair(1, dt.time(2)), [1, "02:00:00"]),
        (Model(n=1, when=dt.datetime(2026, 1, 2, tzinfo=dt.UTC)), {"n": 1, "when": "2026-01-02T00:00:00Z"}),
        (Checked(url=pydantic.HttpUrl("http://a.b")), {"url": "http://a.b/"}),
        (pydantic.HttpUrl("http://a.b"), "http://a.b/"),
        (Attributes(), {"size": 3}),
        (collections.OrderedDict(a=1), {"a": 1}),
        ({ID: 1, dt.date(2026, 1, 2): 2, Colour.RED: 3}, {str(ID): 1, "2026-01-02": 2, "red": 3}),
        (2**70, 2**70),
        ("\ud800", "\ud800"),
    ],
)
def test_a_value_takes_its_form(value, form):
    assert JsonConverter(20).convert(value) == form
    assert JsonConverter(20).convert({"rows": [value]}) == {"rows": [form]}


CYCLE: list[Any] = []
CYCLE.append(CYCLE)


@pytest.mark.parametrize(
    ("value", "place", "reason"),
    [
        ({"rows": [1, {"when": object()}]}, "$.rows[1].when", "an object has no JSON form"),
        ([Line(Decimal(1), more=[1j])], "$[0].more[0]", "a complex has no JSON form"),
        ([Row(object())], "$[0].rowId", "an object has no JSON form"),  # type: ignore[arg-type]
        (float("inf"), "$", "inf is no number of JSON"),
        ([b"x" * (MAX_BYTES + 1)], "$[0]", "65537 bytes; at most 65536 are taken"),
        (Line, "$", "the class"),
        ({"a": range(3)}, "$.a", "a range has no JSON form"),
        (iter([1]), "$", "a list_iterator has no JSON form: return a list of its values"),
        ({"a": {(1, 2): 3}}, "$.a", "a key of type tuple"),
        ({1: "a", "1": "b"}, "$", "two keys read '1' as text"),
        (CYCLE, "$[0]", "a reference to something that contains it"),
        ([[[[[[1]]]]]], "$[0][0][0][0]", "nested deeper than 4 levels"),
    ],
)
def test_a_value_without_a_form_is_an_error_that_names_its_place(value, place, reason):
    with pytest.raises(NotSerializable) as caught:
        JsonConverter(4).convert(value)
    assert str(caught.value).startswith(f"at {place}: ")
    assert reason in str(caught.value)


@pytest.mark.parametrize("value", [2**64, -(2**63) - 1, "\ud800", {"\ud800": 1}])
def test_what_only_python_reads_back_is_not_portable(value):
    with pytest.raises(NotSerializable):
        JsonConverter(4, portable=True).convert([value])


def test_a_value_of_a_library_says_what_to_do():
    kind = type("int64", (), {"__module__": "numpy"})
    with pytest.raises(
        NotSerializable, match=r"a numpy\.int64 has no JSON form: convert it with \.tolist\(\)"
    ):
        JsonConverter(4).convert(kind())


def test_a_budget_ends_the_walk():
    shared: list[Any] = [1]
    for _ in range(60):
        shared = [shared, shared]
    with pytest.raises(TooLarge):
        JsonConverter(100, 10_000).convert(shared)


def test_equal_sets_give_equal_lists():
    numbers = [8, 0, 16, 24]
    forward, backward = set(numbers), set()
    for number in reversed(numbers):
        backward.add(number)
    assert list(forward) != list(backward), "the sets differ in their order"
    assert JsonConverter(4).convert(forward) == JsonConverter(4).convert(backward)


@pytest.mark.parametrize(
    ("value", "plain"),
    [
        ({"a": [1, "x", None, 2.5, True]}, True),
        ([ID], False),
        ({"a": (1,)}, False),
        ({1: 2}, False),
        ([float("nan")], False),
        (CYCLE, False),
        ([Level.HIGH], False),
    ],
)
def test_plain_json_is_recognised(value, plain):
    assert is_plain(value, 20) is plain


def test_a_callers_value_without_a_form_is_refused_with_its_place():
    with pytest.raises(Invalid) as caught:
        json_codec.from_python({"a": [object()]}, "input of parse")
    assert caught.value.what == "the input of parse is not JSON"
    assert caught.value.why == "at $.a[0]: an object has no JSON form"

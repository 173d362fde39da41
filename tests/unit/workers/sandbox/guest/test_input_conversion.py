# ruff: noqa: E501, RUF009 - the messages are as users see them; defaults of dataclasses are what is tested
"""A value that was made JSON comes back as an equal value of the hint's type, and fits the hint's schema."""

from __future__ import annotations

import dataclasses
import datetime as dt
import enum
import pathlib
import typing
import uuid
from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal
from typing import Any, Literal, NamedTuple

import msgspec
import pydantic
import pytest
import typing_extensions
from hypothesis import given
from hypothesis import strategies as st

from functory import Naive
from functory.engine.serialization import json_schema
from functory.workers.sandbox.guest import hints
from functory.workers.sandbox.guest.input_conversion import InputConverter, InvalidInput
from functory.workers.sandbox.guest.json_values import to_json_value
from functory.workers.sandbox.guest.schemas import SchemaBuilder


class Colour(enum.Enum):
    RED = "red"
    BLUE = "blue"


class Level(enum.IntEnum):
    LOW = 1
    HIGH = 9


class Odd(enum.Enum):
    TEXT = "1"
    NUMBER = 1
    NOTHING = None


class Options(typing.TypedDict, total=False):
    mode: typing.Required[str]
    size: int


class Extended(typing_extensions.TypedDict):
    at: dt.date


class Point(NamedTuple):
    x: int
    label: str = "here"


class Tagged(msgspec.Struct, tag=True, rename="camel"):
    row_id: uuid.UUID


class Model(pydantic.BaseModel):
    number: int = pydantic.Field(alias="n")
    when: dt.datetime
    inner: Model | None = None


@dataclasses.dataclass
class Line:
    price: Decimal
    where: pathlib.PurePosixPath = pathlib.PurePosixPath("/")
    colour: Colour = Colour.RED
    data: bytes = b""
    options: list[Options] = dataclasses.field(default_factory=list)
    next: Line | None = None


OFFSETS = st.integers(-14 * 60, 14 * 60).map(lambda minutes: dt.timezone(dt.timedelta(minutes=minutes)))
AWARE = st.datetimes(min_value=dt.datetime(2, 1, 1), max_value=dt.datetime(9998, 1, 1), timezones=OFFSETS)
TEXT = st.text(max_size=20)
INTEGERS = st.integers(-(2**63), 2**63)
DECIMALS = st.decimals(allow_nan=False)
PATHS = st.sampled_from(["/", "a/b", "/x y/ü", "."]).map(pathlib.PurePosixPath)
OPTIONS = st.fixed_dictionaries({"mode": TEXT}, optional={"size": INTEGERS})
LINES = st.recursive(
    st.builds(
        Line, DECIMALS, PATHS, st.sampled_from(Colour), st.binary(max_size=50), st.lists(OPTIONS, max_size=2)
    ),
    lambda inner: st.builds(Line, DECIMALS, PATHS, next=inner),
    max_leaves=3,
)
MODELS = st.builds(lambda n, when: Model(n=n, when=when), INTEGERS, AWARE)

KINDS: list[tuple[Any, st.SearchStrategy[Any]]] = [
    (str, TEXT),
    (int, INTEGERS),
    (float, st.floats(allow_nan=False, allow_infinity=False)),
    (bool, st.booleans()),
    (dt.datetime, AWARE),
    (Naive[dt.datetime], st.datetimes()),
    (dt.date, st.dates()),
    (dt.time, st.times()),
    (dt.timedelta, st.timedeltas()),
    (Decimal, DECIMALS),
    (uuid.UUID, st.uuids()),
    (pathlib.PurePosixPath, PATHS),
    (bytes, st.binary(max_size=100)),
    (bytearray, st.binary(max_size=100).map(bytearray)),
    (Colour, st.sampled_from(Colour)),
    (Level, st.sampled_from(Level)),
    (Odd, st.sampled_from(Odd)),
    (set[int], st.sets(INTEGERS)),
    (frozenset[str], st.frozensets(TEXT)),
    (tuple[int, str], st.tuples(INTEGERS, TEXT)),
    (tuple[dt.date, ...], st.lists(st.dates(), max_size=3).map(tuple)),
    (Literal["a", 1, None], st.sampled_from(["a", 1, None])),
    (dict[str, int | None], st.dictionaries(TEXT, INTEGERS | st.none(), max_size=3)),
    (dict[int, dt.date], st.dictionaries(INTEGERS, st.dates(), max_size=3)),
    (dict[uuid.UUID, bool], st.dictionaries(st.uuids(), st.booleans(), max_size=3)),
    (list[Options], st.lists(OPTIONS, max_size=3)),
    (Extended, st.fixed_dictionaries({"at": st.dates()})),
    (Point, st.builds(Point, INTEGERS, TEXT)),
    (Tagged, st.builds(Tagged, st.uuids())),
    (Line, LINES),
    (list[Line | None], st.lists(LINES | st.none(), max_size=3)),
    (Model, MODELS),
    (dict[str, list[Model]], st.dictionaries(TEXT, st.lists(MODELS, max_size=2), max_size=2)),
    (int | Model, INTEGERS | MODELS),
    (dt.date | None, st.dates() | st.none()),
    (Sequence[int], st.lists(INTEGERS, max_size=3)),
    (Iterable[dt.date], st.lists(st.dates(), max_size=3)),
    (Mapping[str, Any], st.dictionaries(TEXT, st.none() | TEXT, max_size=3)),
    (object, st.none() | TEXT),
    (Any, st.none() | TEXT),
]


def converter(hint: Any) -> InputConverter:
    def f(value): ...

    f.__annotations__ = {"value": hint}
    return InputConverter(f)


def schema(hint: Any, mode: Any = "validation") -> dict[str, Any]:
    builder = SchemaBuilder(mode)
    made = builder.schema(hints.evaluate(hint, hints.namespace(globals())))
    return made | ({"$defs": builder.definitions} if builder.definitions else {})


@pytest.mark.parametrize(("hint", "values"), KINDS, ids=[str(hint)[:60] for hint, _ in KINDS])
@given(st.data())
def test_a_value_comes_back_equal_and_fits_its_schemas(hint: Any, values: Any, data: st.DataObject) -> None:
    value = data.draw(values)
    form, _ = to_json_value(value, 1_000_000)
    json_schema.check(schema(hint), form, "input")
    json_schema.check(schema(hint, "serialization"), form, "output")
    back = converter(hint).convert({"value": form, "other": 1})
    assert back["value"] == value
    assert type(back["value"]) is type(value)
    assert back["other"] == 1
    assert to_json_value(back["value"], 1_000_000)[0] == form


@dataclasses.dataclass
class Order:
    lines: list[Line]
    at: dt.datetime | None = None
    later: Naive[dt.datetime] | None = None
    raw: Any = None


@pytest.mark.parametrize(
    ("hint", "given_", "message"),
    [
        (int, "1", "Expected `int`, got `str` - at `$.value`"),
        (str, 1, "Expected `str`, got `int` - at `$.value`"),
        (Order, {"lines": [{"price": []}]}, "Expected `decimal`, got `array` - at `$.value.lines[0].price`"),
        (Order, {"lines": [], "at": "2026-01-02T03:04:05"}, "Expected `datetime` with an offset, got '2026-01-02T03:04:05' - at `$.value.at`"),
        (list[Order], [{"lines": [], "at": "2026-01-02T03:04:05"}], "at `$.value[0].at`"),
        (Order, {"lines": [], "later": "2026-01-02T03:04:05Z"}, "Expected `datetime` with no timezone component - at `$.value.later`"),
        (Order, {"lines": [{"price": "1", "colour": "green"}]}, "Invalid enum value 'green' - at `$.value.lines[0].colour`"),
        (Order, {"lines": [{"price": "1", "where": 3}]}, "Expected `str`, got `int` - at `$.value.lines[0].where`"),
        (Order, {}, "Object missing required field `lines` - at `$.value`"),
        (Odd, 1.0, "Invalid enum value 1.0 - at `$.value`"),
        (Model, {"n": "x", "when": "2026-01-02T03:04:05Z"}, "n: Input should be a valid integer"),
        (list[Model], [{"n": 1}], "when: Field required - at `$.value[0]`"),
        (int | Model, "x", "Expected `int`, got `str` or Input should be a valid dictionary"),
        (dict[str, Line], {"a": {"price": {}}}, "- at `$.value[...].price`"),
        (bytes, "A" * 87_388, "Expected at most 65536 `bytes`, got 65541 - at `$.value`"),
        (dict[str, bytes], {"a": "A" * 87_388}, "- at `$.value.a`"),
        (tuple[int, bytes], [1, "A" * 87_388], "- at `$.value[1]`"),
    ],
)  # fmt: skip
def test_a_value_that_does_not_fit_is_an_error_that_names_its_place(
    hint: Any, given_: Any, message: str
) -> None:
    with pytest.raises(InvalidInput) as caught:
        converter(hint).convert({"value": given_})
    assert message in str(caught.value)


def test_every_kind_of_parameter_is_converted() -> None:
    def f(a: dt.date, /, b: dt.date, *rest: dt.date, c: dt.date, **more: dt.date): ...

    day, text = dt.date(2026, 1, 2), "2026-01-02"
    given_ = {"a": text, "b": text, "rest": [text], "c": text, "d": text}
    expected = {"a": day, "b": day, "rest": [day], "c": day, "d": day}
    assert InputConverter(f).convert(given_) == expected
    with pytest.raises(InvalidInput, match=r"Invalid RFC3339 encoded date - at `\$\.d`"):
        InputConverter(f).convert({**given_, "d": "x"})


class Formless:
    pass


@pytest.mark.parametrize(
    "hint", ["Missing", "list[Missing]", Formless, list[Formless], complex, typing.Callable[[int], int], 1]
)
def test_a_hint_without_a_json_form_leaves_its_argument_as_it_is(hint: Any) -> None:
    assert converter(hint).convert({"value": [1]}) == {"value": [1]}


def test_the_code_of_a_class_refuses_a_value_with_its_place() -> None:
    @dataclasses.dataclass
    class Even:
        n: int

        def __post_init__(self) -> None:
            if self.n % 2:
                raise ValueError(f"{self.n} is odd")

    with pytest.raises(InvalidInput, match=r"3 is odd - at `\$\.value\[1\]`"):
        converter(list[Even]).convert({"value": [{"n": 2}, {"n": 3}]})


def test_definitions_with_equal_names_stay_apart() -> None:
    @dataclasses.dataclass
    class Model:
        other: str

    builder = SchemaBuilder("validation")
    ours, theirs = builder.schema(Model), builder.schema(globals()["Model"])
    assert ours != theirs
    assert builder.definitions[ours["$ref"].rpartition("/")[2]]["properties"] == {"other": {"type": "string"}}
    assert "n" in builder.definitions[theirs["$ref"].rpartition("/")[2]]["properties"]


def test_a_schema_describes_its_class_and_its_defaults() -> None:
    @dataclasses.dataclass
    class Described:
        """One line of an order."""

        at: dt.date = dt.date(2026, 1, 2)
        colour: Colour = Colour.BLUE
        lock: Any = Formless()

    assert schema(Described)["$defs"]["Described"] == {
        "title": "Described",
        "description": "One line of an order.",
        "type": "object",
        "properties": {
            "at": {"type": "string", "format": "date", "default": "2026-01-02"},
            "colour": {"$ref": "#/$defs/Colour", "default": "blue"},
            "lock": {},
        },
        "required": [],
    }

"""JSON in and out: any JSON value comes back as it was, anything else is refused."""

import json
import math
from datetime import datetime
from decimal import Decimal
from enum import IntEnum

import pytest
from hypothesis import given
from hypothesis import strategies as st

from functory.engine.errors import Invalid
from functory.engine.serialization import json_codec

texts = st.text(st.characters(codec=None, exclude_categories=()))
values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | texts,
    lambda inner: st.lists(inner, max_size=5) | st.dictionaries(texts, inner, max_size=5),
    max_leaves=20,
)


@given(values)
def test_any_json_value_comes_back_as_it_was(value):
    back = json_codec.loads(json_codec.dumps(value))
    assert back == value
    assert repr(back) == repr(value), "types too: 1 is not 1.0 and not True"
    assert json_codec.loads(json_codec.encode(value)) == value
    assert json.loads(json_codec.encode(value)) == value, "and the standard library reads the same"


@given(values)
def test_equal_values_have_equal_digests_whatever_their_order(value):
    def turned(item: object) -> object:
        if isinstance(item, dict):
            return {key: turned(below) for key, below in reversed(item.items())}
        return [turned(below) for below in item] if isinstance(item, list) else item

    assert json_codec.digest(value) == json_codec.digest(turned(value))


def test_different_values_have_different_digests():
    some = [None, True, 1, "1", [1], {"1": 1}, {"1": "1"}, [], {}, 10**30, "\ud800"]
    assert len({json_codec.digest(value) for value in some}) == len(some)


class Grade(IntEnum):
    good = 1


def test_tuples_and_subclasses_become_what_they_stand_for():
    assert json_codec.loads(
        json_codec.encode({"a": (1, 2), "b": Grade.good, "c": type("D", (dict,), {})(x=1)})
    ) == {
        "a": [1, 2],
        "b": 1,
        "c": {"x": 1},
    }


@pytest.mark.parametrize(
    "value",
    [
        math.nan,
        math.inf,
        [-math.inf],
        {"a": math.nan, "b": 10**30},
        {1, 2},
        b"x",
        object(),
        datetime(2026, 1, 1),
        Decimal(1),
        1j,
        {1: 2},
        {None: 1},
        {(1,): 1},
        {"a": {True: 1}},
        10**5000,
        print,
    ],
    ids=lambda value: type(value).__name__,
)
def test_what_is_not_json_is_refused(value):
    with pytest.raises(Invalid):
        json_codec.encode(value)


def nested(depth: int, leaf: object = 1) -> object:
    for level in range(depth):
        leaf = [leaf] if level % 2 else {"a": leaf}
    return leaf


@pytest.mark.parametrize("leaf", [1, 10**30, "\ud800"])
def test_depth_has_one_limit_whatever_is_inside(leaf):
    assert json_codec.loads(json_codec.encode(nested(json_codec.MAX_DEPTH - 1, leaf))) == nested(
        json_codec.MAX_DEPTH - 1, leaf
    )
    for depth in (json_codec.MAX_DEPTH + 2, 990, 100_000):
        with pytest.raises(Invalid, match="nested too deeply"):
            json_codec.encode(nested(depth, leaf))


def test_a_value_that_holds_itself_is_refused():
    ring: list[object] = []
    ring.append(ring)
    with pytest.raises(Invalid, match="nested too deeply"):
        json_codec.encode(ring)


@pytest.mark.parametrize(
    "text",
    ["", "{", "[1,]", "nul", "NaN", "[Infinity]", "-Infinity", "'a'", "1 2", "\x00", b"\xff", "9" * 5000],
)
def test_a_text_that_is_not_json_is_refused(text):
    with pytest.raises(Invalid, match="this is not JSON"):
        json_codec.loads(text)


def test_a_text_that_is_nested_without_end_is_refused():
    for text in ("[" * 100_000, "[" * 100_000 + "]" * 100_000, '{"a":' * 100_000):
        with pytest.raises(Invalid):
            json_codec.loads(text)


def test_long_integers_keep_every_digit():
    assert json_codec.loads("[18446744073709551616, -9223372036854775809]") == [2**64, -(2**63) - 1]

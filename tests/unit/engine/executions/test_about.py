"""The line that says what an execution is about."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from functory.engine.executions.about import MAX_LENGTH, about
from functory.engine.serialization import json_codec


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ({"order": 12, "sku": "A 1"}, "order=12 sku=A 1"),
        ({"a": {"b": {"c": True}}, "n": None, "x": 1.5}, "a.b.c=true x=1.5"),
        ({"a": 1, "b": 2, "c": 3, "d": 4}, "a=1 b=2 c=3"),
        ({"list": [1, {"k": "v"}], "z": 0}, "list=1 list.k=v z=0"),
        ({"quoted": 'a "b" \\ c', "line": "x\ny"}, 'quoted=a "b" \\ c line=x y'),
        ({}, None),
        ({"nothing": None, "empty": [], "none": {}}, None),
    ],
)
def test_the_first_three_values_of_the_input_are_said_with_their_paths(
    value: object, said: str | None
) -> None:
    assert about(None, json_codec.dumps(value)) == said


def test_the_subject_of_the_event_comes_before_the_input() -> None:
    assert about("order 7", '{"a":1}') == "order 7"


@given(
    st.dictionaries(
        st.text(max_size=20),
        st.recursive(
            st.none() | st.booleans() | st.integers() | st.text(max_size=900),
            lambda inner: (
                st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=9), inner, max_size=4)
            ),
            max_leaves=12,
        ),
        max_size=6,
    ),
)
def test_any_start_of_any_input_gives_a_short_line(value: dict[str, object]) -> None:
    text = json_codec.dumps(value)
    for start in (text[:600], text[:599]):
        said = about(None, start)
        assert said is None or (0 < len(said) <= MAX_LENGTH and "\n" not in said)
        assert said is None or said.encode()


def test_a_number_that_is_cut_is_not_said() -> None:
    head = '{"a":"' + "x" * 580 + '","n":'
    text = head + "1" * 100
    assert "n=" not in (about(None, text[:600]) or "")

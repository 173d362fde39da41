"""Events and patterns built to break the matcher, and properties that hold for any JSON."""

import json
from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from functory.engine.errors import Invalid
from functory.triggers.patterns import FALSE, TRUE, compile_pattern, flatten

scalars = (
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters(exclude_categories=()))
)
json_values = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=4), inner, max_size=4),
    max_leaves=20,
)
events = st.dictionaries(st.text(max_size=4), json_values, max_size=5)

names = st.sampled_from(["a", "b", "x"])
small_values = st.recursive(
    st.integers(0, 2),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(names, inner, max_size=3),
    max_leaves=14,
)
small_events = st.dictionaries(names, small_values, max_size=3)
leaf_lists = st.lists(
    st.sampled_from([0, 1, 2, {"exists": False}, {"exists": True}, {"anything-but": 1}]),
    min_size=1,
    max_size=2,
)
small_patterns = st.dictionaries(
    st.sampled_from(["a", "b", "x", "a.a", "a.b", "a.x", "x.a", "x.b", "x.x", "x.a.b", "x.b.a"]),
    leaf_lists,
    min_size=1,
    max_size=4,
)


def deep_object(levels: int) -> dict:
    event: dict = {}
    inner = event
    for _ in range(levels):
        inner["a"] = {}
        inner = inner["a"]
    inner["a"] = 1
    return event


def deep_list(levels: int) -> dict:
    inner: list = [{"b": 1}]
    for _ in range(levels):
        inner = [{"b": 2}, inner]
    return {"a": inner}


def as_a_pattern_writes_it(value: object) -> object:
    return {TRUE: True, FALSE: False}.get(value, value)  # type: ignore[call-overload]


def all_choices_match(pattern: dict, event: dict) -> bool:
    """The rule word for word: try every choice of one value a path, in the order of the paths."""
    flat = flatten(event)
    options = []
    for path in sorted(pattern):
        tests = [e for e in pattern[path] if e != {"exists": False}]
        values = flat.values_with_positions(path)
        fitting = [
            place for value, place in values if tests and compile_pattern({"v": tests}).matches({"v": value})
        ]
        choices: list = [("value", place) for place in fitting]
        if {"exists": False} in pattern[path]:
            choices.append(("absent", [place for _, place in values]))
        options.append(choices)
    for choice in product(*options):
        chosen: dict[int, int] = {}
        for kind, where in choice:
            if kind == "value":
                if any(chosen.get(array, index) != index for array, index in where):
                    break
                chosen.update(where)
            elif not all(any(chosen.get(array, index) != index for array, index in place) for place in where):
                break
        else:
            return True
    return False


@given(events)
def test_any_json_object_can_be_flattened_matched_and_explained(event):
    for pattern in (
        {"a": [1]},
        {"a": [{"exists": False}], "b": [{"wildcard": "*x*"}, {"cidr": "10.0.0.0/8"}]},
    ):
        compiled = compile_pattern(pattern)
        assert compiled.matches(event) == all(clause.matched for clause in compiled.explain(event))
        for clause in compiled.explain(event):
            (clause.expected + clause.found).encode()


@given(events)
def test_a_pattern_of_an_events_own_values_matches_it(event):
    flat = flatten(event)
    leaves = {
        path: [as_a_pattern_writes_it(values[0])]
        for path, values in flat.values.items()
        if path not in flat.in_arrays
        and "$or" not in path
        and values[0] == values[0]
        and abs_is_finite(values[0])
    }
    if leaves:
        assert compile_pattern(leaves).matches(event)


def abs_is_finite(value: object) -> bool:
    return not isinstance(value, float) or value - value == 0


@given(json_values)
def test_any_json_is_a_pattern_or_refused_with_a_place(value):
    try:
        compile_pattern(value)
    except Invalid as refused:
        assert refused.what
        assert refused.why
        assert refused.try_
        str(refused).encode()


@settings(max_examples=600)
@given(small_patterns, small_events)
def test_array_choices_agree_with_trying_them_all(pattern, event):
    compiled = compile_pattern(pattern)
    assert compiled.matches(event) == all_choices_match(pattern, event)
    assert compiled.matches(event) == all(clause.matched for clause in compiled.explain(event))


@pytest.mark.parametrize("event", [deep_object(10_000), deep_list(10_000)])
def test_an_event_of_ten_thousand_levels_is_answered(event):
    pattern = compile_pattern({"a": {"b": [1]}, "a.a": [{"exists": False}]})
    assert pattern.matches(event) == all(clause.matched for clause in pattern.explain(event))


def test_a_pattern_of_ten_thousand_levels_is_refused():
    with pytest.raises(Invalid, match="64 deep"):
        compile_pattern(deep_object(10_000))
    nested: dict = {"a": [1]}
    for _ in range(10_000):
        nested = {"$or": [nested, {"b": [1]}]}
    with pytest.raises(Invalid, match="64 deep"):
        compile_pattern(nested)
    nested_list: list = []
    for _ in range(10_000):
        nested_list = [nested_list]
    with pytest.raises(Invalid, match="no value to compare"):
        compile_pattern({"a": nested_list})


def test_a_long_name_above_many_leaves_is_not_copied_for_each_of_them():
    event = {"n" * 100_000: {str(n): n for n in range(1000)}}
    assert flatten(event).values == {}
    assert not compile_pattern({"a": [1]}).matches(event)


def test_half_a_surrogate_pair_is_a_character_like_any_other():
    event = json.loads('{"a": "\\ud800", "\\udfff": 1}')
    assert compile_pattern({"a": ["\ud800"]}).matches(event)
    assert compile_pattern({"a": [{"equals-ignore-case": "\ud800"}]}).matches(event)
    assert compile_pattern({"\udfff": [1]}).matches(event)
    for clause in compile_pattern({"a": ["\udc00"]}).explain(event):
        (clause.expected + clause.found).encode()


def test_a_wildcard_of_many_stars_does_not_backtrack():
    pattern = compile_pattern({"a": [{"wildcard": "*a" * 200 + "*b"}]})
    assert not pattern.matches({"a": "a" * 1_000_000})


def test_two_halves_of_a_large_array_are_not_compared_pair_by_pair():
    event = {"x": [{"a": 1} if n % 2 else {"b": 2} for n in range(50_000)]}
    assert not compile_pattern({"x": {"a": [1], "b": [2]}}).matches(event)
    assert compile_pattern({"x": {"a": [1], "b": [{"exists": False}]}}).matches(event)


def test_an_array_puzzle_without_end_is_given_up_and_does_not_match():
    # Each dotted spelling of one path leads to an array of its own: eleven holes, each of which takes one of
    # twelve pigeons. To see that they do not fit takes trying 12! placements (the pigeonhole problem, which
    # is in SAT).
    letters = "a.b.c.d.e.f.g.h.i.j.k.l"
    pigeons = [f"p{number}" for number in range(12)]
    event = {
        letters[:cut]: {letters[cut + 1 :]: [{p: 1} for p in pigeons]} for cut in range(1, len(letters), 2)
    }
    assert len(event) == 11
    assert compile_pattern({letters: {p: [1] for p in pigeons[:8]}}).matches(event)
    assert not compile_pattern({letters: {p: [1] for p in pigeons}}).matches(event)

"""No schema and no value hold up the process that checks one by the other."""

from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from functory.engine.errors import Invalid
from functory.engine.serialization import json_codec, json_schema
from functory.engine.serialization.schema_cost import SchemaCost
from tests.support.bounded_process import run_bounded

# What one check may take: the product's limits are half a second of work and half a second of counting.
CPU_SECONDS, MEGABYTES = 6, 500


def references(keyword: str, depth: int) -> dict[str, Any]:
    """Two equal references, one level below the other."""
    below = {f"a{i}": _twice(keyword, {"$ref": f"#/$defs/a{i + 1}"}) for i in range(depth)}
    return {"$defs": {**below, f"a{depth}": {"type": "integer"}}, "properties": {"x": {"$ref": "#/$defs/a0"}}}


def definitions_of_draft_7(keyword: str, depth: int) -> dict[str, Any]:
    text = json_codec.dumps(references(keyword, depth)).replace("$defs", "definitions")
    return {"$schema": "http://json-schema.org/draft-07/schema#", **json_codec.loads(text)}


def identifiers(keyword: str, depth: int) -> dict[str, Any]:
    below = {f"a{i}": {"$id": f"a{i}", **_twice(keyword, {"$ref": f"a{i + 1}"})} for i in range(depth)}
    last = {f"a{depth}": {"$id": f"a{depth}", "type": "integer"}}
    return {"$id": "http://here/", "$defs": below | last, "properties": {"x": {"$ref": "a0"}}}


def anchors(keyword: str, depth: int) -> dict[str, Any]:
    below = {f"a{i}": {"$anchor": f"n{i}", **_twice(keyword, {"$ref": f"#n{i + 1}"})} for i in range(depth)}
    last = {f"a{depth}": {"$anchor": f"n{depth}", "type": "integer"}}
    return {"$defs": below | last, "properties": {"x": {"$ref": "#n0"}}}


def members(keyword: str, depth: int) -> dict[str, Any]:
    """The references lead one member further down at each level."""
    below = {
        f"a{i}": _twice(keyword, {"properties": {"x": {"$ref": f"#/$defs/a{i + 1}"}}}) for i in range(depth)
    }
    return {"$defs": {**below, f"a{depth}": {"type": "integer"}}, "$ref": "#/$defs/a0"}


def items(keyword: str, depth: int) -> dict[str, Any]:
    below = {f"a{i}": _twice(keyword, {"items": {"$ref": f"#/$defs/a{i + 1}"}}) for i in range(depth)}
    return {"$defs": {**below, f"a{depth}": {"type": "integer"}}, "$ref": "#/$defs/a0"}


def unevaluated(keyword: str, depth: int) -> dict[str, Any]:
    schema: dict[str, Any] = {"properties": {"x": {"type": "integer"}}}
    for _ in range(depth):
        schema = {"allOf": [schema], "unevaluatedProperties": False}
    return schema


def _twice(keyword: str, inner: dict[str, Any]) -> dict[str, Any]:
    if keyword == "if":
        return {"if": inner, "then": inner, "else": inner}
    if keyword == "not":
        return {"not": {"not": inner}, "allOf": [inner]}
    return {keyword: [inner, inner]}


BOMBS = [references, definitions_of_draft_7, identifiers, anchors, members, items]


@pytest.mark.parametrize("depth", [20, 200])
@pytest.mark.parametrize("keyword", ["anyOf", "allOf", "oneOf", "if", "not"])
@pytest.mark.parametrize("bomb", BOMBS)
def test_a_schema_that_multiplies_is_refused_when_it_is_saved(bomb, keyword, depth):
    used = run_bounded(
        lambda: json_schema.parse_declared(bomb(keyword, depth), "input_parameters"),
        cpu_seconds=CPU_SECONDS, megabytes=MEGABYTES,
    )  # fmt: skip
    kind, text = used.answer
    assert kind == "Invalid"
    assert "too costly to check" in text
    assert "name each alternative once" in text


def test_nested_unevaluated_properties_multiply_too():
    with pytest.raises(Invalid, match="too costly"):
        json_schema.parse_declared(unevaluated("", 20), "input_parameters")


@pytest.mark.parametrize("depth", range(2, 18))
@pytest.mark.parametrize("keyword", ["anyOf", "allOf", "oneOf", "if", "not"])
@pytest.mark.parametrize("value", ["no", 1], ids=["wrong", "right"])
def test_each_size_of_such_a_schema_is_refused_or_checked_within_the_bound(keyword, depth, value):
    for bomb in BOMBS:
        values: list[Any] = [{"x": value}, value]
        for _ in range(depth):
            values[-1] = [values[-1]] if bomb is items else {"x": values[-1]}
        run_bounded(
            lambda bomb=bomb, values=values: [check(bomb(keyword, depth), one) for one in values],
            cpu_seconds=CPU_SECONDS, megabytes=MEGABYTES,
        )  # fmt: skip


def check(schema: dict[str, Any], value: Any) -> list[str]:
    try:
        return [fault.keyword for fault in json_schema.faults(schema, value, "input")]
    except Invalid as error:
        return [error.what]


def test_a_schema_that_leads_back_to_itself_without_going_down_is_refused():
    for schema in (
        {"$ref": "#"},
        {
            "$defs": {"a": {"not": {"$ref": "#/$defs/b"}}, "b": {"not": {"$ref": "#/$defs/a"}}},
            "$ref": "#/$defs/a",
        },
    ):
        with pytest.raises(Invalid, match="refers to itself for the same value"):
            json_schema.parse_declared(schema, "input_parameters")


def node(kind: str, more: dict[str, Any] | None = None) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": {"kind": {"const": kind}, **(more or {"left": EXPRESSION, "right": EXPRESSION})},
        "required": ["kind"],
    }


EXPRESSION = {"$ref": "#/$defs/expression"}
SYNTAX = {
    "$defs": {
        "expression": {
            "anyOf": [
                *map(node, ("add", "mul", "sub", "div", "and", "or")),
                node("value", {"of": {"type": "integer"}}),
            ]
        }
    },
    **EXPRESSION,
}


@pytest.mark.parametrize("depth", [1, 5, 20, 100])
def test_a_union_of_kinds_that_hold_each_other_is_checked_at_any_depth(depth):
    def tree(leaf: Any) -> Any:
        value = {"kind": "value", "of": leaf}
        for _ in range(depth):
            value = {"kind": "sub", "left": value, "right": {"kind": "value", "of": 1}}
        return value

    json_schema.parse_declared(SYNTAX, "input_parameters")
    used = run_bounded(
        lambda: [check(SYNTAX, tree(1)), check(SYNTAX, tree("a"))],
        cpu_seconds=CPU_SECONDS,
        megabytes=MEGABYTES,
    )
    good, bad = used.answer
    assert good == []
    assert bad in (["anyOf"], [json_schema.NOT_LISTED])


@pytest.mark.parametrize(
    "schema",
    [
        {"properties": {"l": {"$ref": "#"}, "r": {"$ref": "#"}, "v": {"type": "integer"}}, "required": ["v"]},
        {"anyOf": [{"type": "string"}, {"items": {"$ref": "#"}, "type": "array"}, {"type": "object"}]},
        {"items": {"properties": {f"m{i}": {"type": ["string", "null"]} for i in range(100)}}},
        {"patternProperties": {"^x-": {"type": "string"}}, "additionalProperties": {"type": "integer"}},
    ],
)
def test_ordinary_schemas_need_no_count(schema):
    assert SchemaCost(schema, "input").is_flat


def test_one_wrong_row_among_thousands_is_named():
    schema = {"items": {"properties": {"a": {"type": "integer"}}}}
    (fault,) = json_schema.faults(schema, [{"a": i} for i in range(20_000)] + [{"a": "x"}], "input")
    assert fault.place == (20_000, "a")


def test_thousands_of_wrong_rows_do_not_fill_the_memory():
    schema = {"items": {"allOf": [{"type": "integer"}] * 50}}
    used = run_bounded(lambda: check(schema, ["a"] * 200_000), cpu_seconds=CPU_SECONDS, megabytes=MEGABYTES)
    assert used.answer in (["type"], [json_schema.NOT_LISTED])


@pytest.mark.parametrize(
    "pattern",
    [
        r"^(?:(?=[ab]*)[ab])*[^ab]$",  # quadratic
        r"^(a+)+(?=x)$",
        r"([ab]*)*\1[^ab]",
        r"[ab]*a[ab]{1000}[^ab]",  # each character with a thousand states
        r"([ab]{0,30}a){0,40}[^ab]",
        r"(?:\p{L}\p{N}?){0,900}[^ab]",
    ],
)
@pytest.mark.parametrize("length", [100, 10_000, 1_000_000])
def test_a_regular_expression_of_a_schema_has_a_bound(pattern, length):
    text = "abbabaaabb" * (length // 10)
    used = run_bounded(
        lambda: check({"properties": {"x": {"pattern": pattern}}}, {"x": text}),
        cpu_seconds=CPU_SECONDS, megabytes=MEGABYTES,
    )  # fmt: skip
    assert used.answer in (["pattern"], [json_schema.TOO_COSTLY], ["the schema of the input is wrong"])


def test_a_pattern_with_look_around_still_works():
    schema = {"properties": {"x": {"pattern": "^(?!no)[a-z]+$"}}}
    assert check(schema, {"x": "yes"}) == []
    assert check(schema, {"x": "nothing"}) == ["pattern"]


def test_a_value_that_is_too_costly_to_check_is_refused_with_what_to_do():
    schema = {"properties": {"x": {"pattern": "^(?:(?=[ab]*)[ab])*$"}}}
    with pytest.raises(json_schema.SchemaMismatch) as refused:
        json_schema.check(schema, {"x": "ab" * 50_000}, "input of f v1")
    assert "cannot be checked" in refused.value.what
    assert refused.value.why
    assert "smaller or flatter" in refused.value.try_


names = st.sampled_from(["x", "y"])
targets = st.sampled_from(["#", "#/$defs/a", "#/$defs/b", "#/$defs/c"])
SEVERAL = ["anyOf", "allOf", "oneOf"]
ONE = ["not", "items", "contains", "additionalProperties", "unevaluatedProperties", "unevaluatedItems"]


def larger(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    objects = inner.filter(lambda schema: isinstance(schema, dict))
    return (
        st.builds(
            lambda keyword, some: {keyword: some},
            st.sampled_from(SEVERAL),
            st.lists(inner, min_size=1, max_size=3),
        )
        | st.builds(lambda keyword, one: {keyword: one}, st.sampled_from(ONE), inner)
        | st.builds(lambda a, b, c: {"if": a, "then": b, "else": c}, inner, inner, inner)
        | st.builds(lambda some: {"properties": some}, st.dictionaries(names, inner, min_size=1))
        | st.builds(lambda one: {"patternProperties": {"x|y": one}}, inner)
        | st.builds(lambda a, b: {**a, **b}, objects, objects)
    )


schemas = st.recursive(
    st.builds(lambda target: {"$ref": target}, targets)
    | st.sampled_from(
        [{}, False, {"type": "integer"}, {"required": ["x"]}, {"uniqueItems": True}, {"const": 1}]
    ),
    larger,
    max_leaves=8,
)


def deep(depth: int, width: int, *, as_list: bool, leaf: Any) -> Any:
    value = leaf
    for _ in range(depth):
        value = [value] * width if as_list else {"x": value, "y": value} if width > 1 else {"x": value}
    return value


values = st.builds(
    deep, st.integers(0, 9), st.integers(1, 2), as_list=st.booleans(), leaf=st.sampled_from([1, "no", {}])
) | st.builds(
    deep, st.integers(10, 60), st.just(1), as_list=st.booleans(), leaf=st.sampled_from([1, "no", {}])
)


@settings(
    max_examples=100, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large]
)
@given(schemas, schemas, schemas, schemas, st.lists(values, min_size=1, max_size=4))
def test_any_schema_with_any_value_is_checked_within_the_bound(root, a, b, c, several):
    schema = {"$defs": {"a": a, "b": b, "c": c}, "allOf": [root]}
    used = run_bounded(
        lambda: [check(schema, one) for one in several],
        cpu_seconds=CPU_SECONDS * len(several), megabytes=MEGABYTES,
    )  # fmt: skip
    assert len(used.answer) == len(several)

"""Schemas of inputs and outputs: how they are declared, and what a fault looks like."""

from typing import Any

import pytest

from functory.engine.errors import Invalid
from functory.engine.serialization import json_schema


def test_parameter_names_alone_give_a_schema_of_names():
    parameters = [
        {"name": "a", "kind": "positional", "required": True},
        {"name": "b", "kind": "keyword", "required": False},
        {"name": "rest", "kind": "var_positional", "required": False},
    ]
    schema = json_schema.from_parameters(parameters)
    json_schema.check(schema, {"a": 1, "rest": [1]}, "input")
    for wrong in ({}, {"a": 1, "c": 2}, {"a": 1, "rest": 5}):
        with pytest.raises(Invalid):
            json_schema.check(schema, wrong, "input")
    more = json_schema.from_parameters(
        [*parameters, {"name": "more", "kind": "var_keyword", "required": False}]
    )
    json_schema.check(more, {"a": 1, "c": 2}, "input")


@pytest.mark.parametrize("kind", json_schema.TYPES)
def test_the_type_names_of_parameter_lists_are_known(kind):
    schema = json_schema.parse_declared([{"name": "x", "type": kind.upper()}], "input_parameters")
    assert schema is not None
    good = {"string": "a", "integer": 1, "number": 1.5, "boolean": True, "array": [], "object": {}}
    for type_, value in good.items():
        if type_ == json_schema.TYPES[kind] or (type_ == "integer" and json_schema.TYPES[kind] == "number"):
            json_schema.check(schema, {"x": value}, "input")
        else:
            with pytest.raises(Invalid):
                json_schema.check(schema, {"x": value}, "input")


def test_an_unknown_type_name_takes_anything_and_required_may_be_false():
    schema = json_schema.parse_declared(
        [{"name": "x", "type": "DataFrame", "required": False}], "input_parameters"
    )
    json_schema.check(schema, {}, "input")
    json_schema.check(schema, {"x": [1]}, "input")


@pytest.mark.parametrize(
    "value",
    [
        [5],
        [{"type": "int"}],
        "text",
        5,
        {"type": 5},
        {"$ref": "http://127.0.0.1:1/x"},
        {"$ref": "file:///etc/passwd"},
        {"pattern": "("},
    ],
)
def test_a_wrong_declaration_is_refused(value):
    with pytest.raises(Invalid, match="input_parameters"):
        json_schema.parse_declared(value, "input_parameters")


def test_none_declares_nothing_and_checks_nothing():
    assert json_schema.parse_declared(None, "input_parameters") is None
    json_schema.check(None, object(), "input")


def test_every_fault_is_reported_with_its_place_at_most_ten():
    schema: dict[str, Any] = {
        "type": "object",
        "properties": {"rows": {"type": "array", "items": {"type": "integer"}}},
        "required": ["name"],
    }
    with pytest.raises(Invalid) as caught:
        json_schema.check(schema, {"rows": [1, "two", 3, "four"]}, "input of work v3")
    assert caught.value.what == "the input of work v3 does not fit its schema"
    assert "rows.1: " in caught.value.why
    assert "rows.3: " in caught.value.why
    assert '"name" is a required property' in caught.value.why
    assert caught.value.try_ == "it takes {rows: array?}"
    with pytest.raises(Invalid) as caught:
        json_schema.check(schema, {"rows": ["x"] * 1000, "name": 1}, "input")
    assert len(caught.value.why.split("\n")) == 10


@pytest.mark.parametrize("value", ["\ud800", "\x00", 10**30, -(10**30), 1e308])
def test_odd_values_are_checked_like_others(value):
    schema = {"properties": {"x": {"type": ["string", "number"]}}}
    json_schema.check(schema, {"x": value}, "input")


def test_a_mismatch_names_the_pointer_of_each_fault_and_a_missing_member_by_its_own():
    schema = {
        "type": "object",
        "properties": {"a/b": {"type": "array", "items": {"type": "integer"}}},
        "required": ["a/b", "c"],
    }
    with pytest.raises(json_schema.SchemaMismatch) as caught:
        json_schema.check(schema, {"a/b": [1, "x"]}, "input")
    assert dict(caught.value.places) == {
        "/a~1b/1": '"x" is not of type "integer"',
        "/c": '"c" is a required property',
    }

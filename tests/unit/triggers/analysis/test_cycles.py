"""Cycles among triggers: a chain of functions that ends is none, however its triggers name the functions."""

from __future__ import annotations

from typing import Any

import pytest

from functory.triggers.analysis.cycles import Graph
from functory.triggers.definition import CompiledTrigger, compile_definition, parse


def trigger(name: str, function: str, on: dict[str, Any]) -> CompiledTrigger:
    definition = parse({"on": on, "function": function, "input": {}})
    row = {"id": name, "name": name, "state": "enabled", "origin": "operator", "note": "", "version": 1}
    return compile_definition(row | {"definition": definition})


def function(name: str, source: str = "pass", **fields: Any) -> dict[str, Any]:
    return {
        "name": name, "number": 1, "source": f"def {name}():\n    {source}\n", "dependencies": [], "metadata": {},
        "output_patterns": {}, "imports": [],
    } | fields  # fmt: skip


def about(function: str) -> dict[str, Any]:
    return {"function": [function]}


@pytest.mark.parametrize("place", ["data", "subject"])
def test_a_chain_by_the_ends_of_functions_is_no_cycle(place: str) -> None:
    """read → check → report, each started by the end of the one before."""
    functions = {name: function(name) for name in ("read", "check", "report")}

    def after(name: str) -> dict[str, Any]:
        where = {"data": about(name)} if place == "data" else {"subject": [name]}
        return {"type": ["execution.succeeded"]} | where

    triggers = [trigger("a", "check", after("read")), trigger("b", "report", after("check"))]
    graph = Graph(triggers, functions, {})
    assert graph.cycles() == []
    assert {(edge.trigger, edge.target) for edges in graph.edges.values() for edge in edges} == {("a", "b")}
    closed = Graph([*triggers, trigger("c", "read", after("report"))], functions, {})
    (ring,) = closed.cycles()
    assert [edge.trigger for edge in ring] == ["a", "b", "c"]


def test_a_pattern_of_another_shape_may_match_any_function() -> None:
    functions = {"read": function("read"), "check": function("check")}
    for data in ({"function": [{"prefix": "re"}]}, {"duration_seconds": [{"exists": True}]}):
        on = {"type": ["execution.succeeded"], "data": data}
        graph = Graph([trigger("a", "check", {"type": ["x"]}), trigger("b", "read", on)], functions, {})
        started_by_check = [edge.target for edge in graph.edges["a"]]
        assert ("b" in started_by_check) is ("function" not in data)


def test_the_function_in_the_data_of_ones_own_events_is_not_the_subject() -> None:
    """What code emits has the data that it gives: only the engine's events say in them what they are about."""
    functions = {"work": function("work", "emit('order', {'function': 'other'})")}
    on = {"type": ["order"], "data": about("other")}
    graph = Graph([trigger("a", "work", {"type": ["x"]}), trigger("b", "work", on)], functions, {})
    assert [edge.target for edge in graph.edges["a"]] == ["b"]
    matched = function("work", output_patterns={"low": {"stock": [1]}})
    on = {"type": ["output.matched"], "data": about("work") | {"pattern": ["low"]}}
    graph = Graph([trigger("a", "work", {"type": ["x"]}), trigger("b", "other", on)], {"work": matched}, {})
    assert [edge.target for edge in graph.edges["a"]] == ["b"]

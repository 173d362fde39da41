"""Cycles among triggers: a chain of functions that ends is none, however its triggers name the functions."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from functory.engine.errors import Invalid
from functory.engine.flow_control import trigger_row
from functory.triggers.analysis import cycles
from functory.triggers.analysis.cycles import Graph
from functory.triggers.definition import CompiledTrigger, compile_definition, parse
from functory.triggers.patterns import compile_pattern


def trigger(name: str, function: str, on: dict[str, Any]) -> CompiledTrigger:
    definition = parse({"on": on, "function": function, "input": {}})
    row = {"id": name, "name": name, "state": "enabled", "origin": "operator", "note": "", "version": 1}
    return compile_definition(trigger_row.from_mapping(row | {"definition": definition}))


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


TYPES = ["order", "order.placed", "order.paid", "user.seen", "x"]
WANTED: list[dict[str, Any]] = [
    {"type": ["order.placed"]},
    {"type": ["x", "user.seen"]},
    {"type": [{"prefix": "order"}]},
    {"type": [{"wildcard": "*.p*"}]},
    {"type": [{"anything-but": ["x"]}]},
    {"type": [{"suffix": "seen"}], "data": {"n": [1]}},
    {"data": {"n": [{"exists": True}]}},
]


@given(st.lists(st.lists(st.sampled_from(TYPES), max_size=3), min_size=1, max_size=3), st.data())
def test_the_edges_of_all_triggers_are_those_that_each_pattern_has_alone(
    emitted: list[list[str]], data: st.DataObject
) -> None:
    functions = {
        f"f{number}": function(
            f"f{number}", "; ".join([f"emit({type_!r}, {{}})" for type_ in types] or ["pass"])
        )
        for number, types in enumerate(emitted)
    }
    made = data.draw(
        st.lists(st.tuples(st.sampled_from(WANTED), st.sampled_from(sorted(functions))), max_size=6)
    )
    triggers = [trigger(f"t{number}", name, on) for number, (on, name) in enumerate(made)]
    expected = {
        (source.name, type_, target.name)
        for source in triggers
        for type_ in emitted[int(source.function[1:])]
        for target in triggers
        if compile_pattern({"type": target.row.definition["on"].get("type", [{"exists": True}])}).matches(
            {"type": type_}
        )
    }
    graph = Graph(triggers, functions, {})
    found = {
        (edge.trigger, edge.emission.type, edge.target)
        for edges in graph.edges.values()
        for edge in edges
        if edge.emission.subject is None
    }
    assert found == expected
    # A cycle is found exactly if one can walk back along edges.
    for one in triggers:
        reached, waiting = set[str](), [one.name]
        while waiting:
            here = waiting.pop()
            for edge in graph.edges[here]:
                if edge.target == here == one.name:
                    continue  # the guard for own events
                if edge.target not in reached:
                    reached.add(edge.target)
                    waiting.append(edge.target)
        assert (graph.cycle(one.name) is not None) is (one.name in reached)


def test_more_tests_than_the_bound_are_not_made_and_it_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    functions = {
        "f": function("f", "; ".join(f"emit('a{number}', {{}})" for number in range(30))),
        "g": function("g", "emit('a1', {})"),
    }
    triggers = [trigger("t", "f", {"type": ["b"]}), trigger("u", "g", {"type": [{"prefix": "a"}]})]
    assert Graph(triggers, functions, {}).cycle("u") is None
    monkeypatch.setattr(cycles, "MOST_TESTS", 10)
    graph = Graph(triggers, functions, {})
    assert graph.cycle("t") is None and not graph.complete
    with pytest.raises(Invalid, match="too large to be shown"):
        _ = graph.edges

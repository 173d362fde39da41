"""What is refused of debounce, batch and composites when a trigger is saved, and how composites are read."""

from __future__ import annotations

from typing import Any

import pytest

from functory.engine.errors import Invalid
from functory.engine.flow_control import trigger_row
from functory.triggers import definition
from functory.triggers.analysis import cycles

A, B = {"on": {"type": ["a"]}}, {"on": {"type": ["b"]}}


def saved(**fields: Any) -> Any:
    made = definition.define(function="f", **fields)
    return definition.compile_definition(
        trigger_row.from_mapping({"id": "1", "name": "t", "version": 1, "definition": made, "origin": "user"})
    )


@pytest.mark.parametrize(
    ("flow", "why"),
    [
        ({"debounce": {}}, "period"),
        ({"debounce": "10s"}, "it must be an object"),
        ({"debounce": {"period": "0.5s"}}, "from 1s to 7d"),
        ({"debounce": {"period": "8d"}}, "from 1s to 7d"),
        ({"debounce": {"period": True}}, "period of debounce"),
        ({"debounce": {"period": "10s", "timeout": "5s"}}, "shorter than its period"),
        ({"debounce": {"period": "10s", "keep": "first"}}, "keep of debounce"),
        ({"debounce": {"period": "10s", "keep": ["last"]}}, "keep of debounce"),
        ({"debounce": {"period": "10s", "key": "data."}}, "the key of debounce"),
        ({"debounce": {"period": "10s", "key": "data.\ud800"}}, "the key of debounce"),
        ({"debounce": {"period": "10s", "quiet": 1}}, "unknown fields of debounce: quiet"),
        ({"batch": {"timeout": "10s"}}, "max_size"),
        ({"batch": {"max_size": 10}}, "timeout"),
        ({"batch": {"max_size": 0, "timeout": "10s"}}, "from 1 to 1,000"),
        ({"batch": {"max_size": 1001, "timeout": "10s"}}, "from 1 to 1,000"),
        ({"batch": {"max_size": 1.5, "timeout": "10s"}}, "whole number"),
        ({"batch": {"max_size": 10, "timeout": "11m"}}, "from 1s to 10m"),
        ({"batch": {"max_size": 10, "timeout": "10s", "max_bytes": 10**9}}, "max_bytes of batch"),
        ({"batch": {"max_size": 10, "timeout": "10s", "if": "data.n +"}}, "condition"),
        ({"batch": {"max_size": 10, "timeout": "10s", "if": 7}}, "condition"),
        ({"batch": {"max_size": 10, "timeout": "10s"}, "debounce": {"period": "1s"}}, "cannot be combined"),
    ],
)
def test_a_wrong_wait_is_refused_with_what_is_wrong(flow: Any, why: str) -> None:
    with pytest.raises(Invalid) as refused:
        saved(on={"type": ["a"]}, flow=flow)
    assert why in str(refused.value)


@pytest.mark.parametrize(
    ("composite", "why"),
    [
        ({"within": "1m"}, "exactly one of"),
        ({"all": [A, B], "any": [A], "within": "1m"}, "all and any"),
        ({"all": [A, B]}, "within"),
        ({"all": [A], "within": "1m"}, "2 to 16 parts"),
        ({"all": [A] * 17, "within": "1m"}, "2 to 16 parts"),
        ({"all": {"on": {}}, "within": "1m"}, "list"),
        ({"all": [A, 7], "within": "1m"}, "part 2"),
        ({"all": [A, {}], "within": "1m"}, "'on'"),
        ({"all": [A, {"on": []}], "within": "1m"}, "pattern"),
        ({"all": [{**A, "name": "x"}, {**B, "name": "x"}], "within": "1m"}, "called x"),
        ({"all": [{**A, "name": 7}, B], "within": "1m"}, "name"),
        ({"all": [{**A, "key": "data.k"}, B], "within": "1m"}, "others have none"),
        ({"all": [{**A, "when": "1 +"}, B], "within": "1m"}, "condition"),
        ({"n_of": {"n": 3, "parts": [A, B]}, "within": "1m"}, "from 1 to 2"),
        ({"n_of": {"n": True, "parts": [A, B]}, "within": "1m"}, "n of n_of"),
        ({"threshold": {**A}, "within": "1m"}, "count"),
        ({"threshold": {"count": 1001, **A}, "within": "1m"}, "from 1 to 1,000"),
        ({"absence": {"after": A}, "within": "1m"}, "'of'"),
        ({"absence": {"of": A, "before": B}, "within": "1m"}, "before"),
        ({"absence": {"of": A, "after": {**B, "key": "data.k"}}, "within": "1m"}, "others have none"),
        ({"all": [A, B], "within": "0s"}, "within of composite"),
        ({"all": [A, B], "within": "1m", "allowance": "2d"}, "allowance"),
        ({"all": [A, B], "within": "1m", "key": "x\x00"}, "key"),
        ({"all": [A, B], "within": "1m", "size": 3}, "unknown fields of composite: size"),
    ],
)
def test_a_wrong_composite_is_refused_with_what_is_wrong(composite: Any, why: str) -> None:
    with pytest.raises(Invalid) as refused:
        saved(composite=composite)
    assert why in str(refused.value)


@pytest.mark.parametrize(
    "flow", [{"debounce": {"period": "1s"}}, {"batch": {"max_size": 2, "timeout": "1s"}}]
)
def test_a_composite_does_not_combine_with_another_wait(flow: Any) -> None:
    with pytest.raises(Invalid, match="cannot be combined"):
        saved(composite={"all": [A, B], "within": "1m"}, flow=flow)


def test_a_composite_has_the_types_of_its_parts() -> None:
    assert saved(composite={"all": [A, B], "within": "1m"}).types == {"a", "b"}
    anything = {"on": {"source": ["/x"]}}
    assert saved(composite={"all": [A, anything], "within": "1m"}).types is None


def test_only_what_starts_a_composite_closes_a_cycle() -> None:
    """A function that emits what is waited for in vain does not start itself by it."""
    row = {
        "name": "f", "number": 1, "source": "def f():\n    emit('b')\n", "dependencies": [], "metadata": {},
        "output_patterns": {}, "imports": [],
    }  # fmt: skip
    absence = saved(composite={"absence": {"of": B, "after": A}, "within": "1m"}, guards={"allow_self": True})
    both = saved(composite={"all": [A, B], "within": "1m"}, guards={"allow_self": True})
    assert cycles.Graph([absence], {"f": row}, {}).cycle("t") is None
    assert cycles.Graph([both], {"f": row}, {}).cycle("t") is not None


def test_an_event_by_itself_comes_in_a_list_where_the_function_gets_lists() -> None:
    parameters = [{"name": "given", "kind": "positional", "required": True}]
    event = {"type": "a", "data": 1}
    batch = saved(on={"type": ["a"]}, flow={"batch": {"max_size": 2, "timeout": "1s"}})
    assert definition.SingleEventInput(batch, event).render(parameters) == {"given": [event]}
    last = saved(on={"type": ["a"]}, flow={"debounce": {"period": "1s"}})
    assert definition.SingleEventInput(last, event).render(parameters) == {"given": event}

"""Definitions of triggers: both spellings are read into one form that compiles and decides."""

from datetime import UTC, datetime
from typing import Any

import pytest

from functory.engine.errors import Invalid
from functory.engine.flow_control import trigger_row
from functory.triggers import definition
from functory.triggers.patterns import flatten

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def compiled(**fields: Any) -> definition.CompiledTrigger:
    return definition.compile_definition(
        trigger_row.from_mapping(
            {"id": "1", "name": "t", "version": 1, "definition": definition.parse(fields)}
        )
    )


def event(type_: str, subject: str | None = None, data: Any = None) -> dict[str, Any]:
    return {"specversion": "1.0", "id": "1", "source": "/x", "type": type_, "data": data} | (
        {"subject": subject} if subject else {}
    )


def fits(made: definition.CompiledTrigger, *given: Any) -> bool:
    return made.pattern.matches(flatten(event(*given)))


@pytest.mark.parametrize(("spelling", "types"), definition.EVENT_TYPES.items())
def test_babyagi_s_names_are_our_event_types(spelling, types):
    made = compiled(event_type=spelling, trigger_function="f")
    assert made.types == frozenset(types)
    assert all(fits(made, type_) for type_ in types)
    assert not fits(made, "order.created")


def test_any_other_event_type_is_taken_unchanged():
    made = compiled(event_type="order.created", trigger_function="f")
    assert fits(made, "order.created")
    assert not fits(made, "order.deleted")


def test_conditions_hold_on_the_metadata_or_on_the_data():
    made = compiled(
        event_type="function_updated",
        target_function="p",
        trigger_function="f",
        conditions={"auto": True, "by": ["a", "b"]},
    )
    for data in (
        {"metadata": {"auto": True, "by": "a"}},
        {"auto": True, "by": "b"},
        {"metadata": {"auto": True}, "by": "a"},
    ):
        assert fits(made, "function.updated", "p", data)
    for data in (
        {},
        None,
        {"metadata": {"auto": False, "by": "a"}},
        {"auto": True},
        {"auto": True, "by": "c"},
        {"auto": 1, "by": "a"},
    ):
        assert not fits(made, "function.updated", "p", data)
    assert not fits(made, "function.updated", "other", {"auto": True, "by": "a"})


def test_the_stored_form_reads_back_as_itself():
    made = definition.parse(
        {
            "on": {"type": ["a"]},
            "function": "f@3",
            "when": "data.n > 1",
            "input": {"n": "{{ event.data.n }}"},
            "guards": {"max_depth": 3},
        }
    )
    assert definition.parse(made) == made
    assert (
        definition.compile_definition(
            trigger_row.from_mapping({"id": "1", "name": "t", "version": 1, "definition": made})
        ).guards.max_depth
        == 3
    )


PARAMETERS = [
    {"name": "first", "kind": "positional", "required": True},
    {"name": "second", "kind": "keyword", "required": False},
]
REST = [{"name": "rest", "kind": "var_positional", "required": False}]


@pytest.mark.parametrize(
    ("fields", "data", "parameters", "expected"),
    [
        ({"on": {"type": ["a"]}, "function": "f"}, 5, PARAMETERS, {"first": event("a", data=5)}),
        ({"event_type": "a", "trigger_function": "f"}, {"output": [1]}, PARAMETERS, {"first": [1]}),
        ({"event_type": "a", "trigger_function": "f"}, {"output": None}, PARAMETERS, {"first": None}),
        (
            {"event_type": "a", "trigger_function": "f"},
            {"n": 1},
            PARAMETERS,
            {"first": event("a", data={"n": 1})},
        ),
        ({"event_type": "a", "trigger_function": "f"}, {"output": 1}, [], {}),
        ({"event_type": "a", "trigger_function": "f"}, {"output": 1}, REST, {"rest": [1]}),
        (
            {
                "on": {"type": ["a"]},
                "function": "f",
                "input": {"first": "{{ event.data.n }}", "second": "n={{ event.data.n }}"},
            },
            {"n": 7},
            PARAMETERS,
            {"first": 7, "second": "n=7"},
        ),
        ({"on": {"type": ["a"]}, "function": "f", "input": {}}, 5, PARAMETERS, {}),
        (
            {"on": {"type": ["a"]}, "function": "f", "input": "{{ event.data }}"},
            [1],
            PARAMETERS,
            {"first": [1]},
        ),
    ],
)
def test_the_input_comes_from_the_template_the_output_or_the_event(fields, data, parameters, expected):
    assert compiled(**fields).make_input(event("a", data=data), parameters) == expected


@pytest.mark.parametrize("root", ["event.data", "data"])
def test_the_data_have_one_name_in_templates_conditions_keys_and_criteria(root):
    made = compiled(
        on={"type": ["a"]},
        function="f",
        input={"first": f"{{{{ {root}.n }}}}", "second": f"n={{{{ {root}.none | default(2) }}}}"},
        when=f"{root}.n == 7",
        criteria={f"{root}.n": {"type": "equals", "pattern": 7}},
        flow={"idempotency": {"key": f"{root}.n"}, "concurrency": {"limit": 1, "key": f"{root}.n"}},
    )
    one = event("a", data={"n": 7})
    assert made.make_input(one, PARAMETERS) == {"first": 7, "second": "n=2"}
    assert made.make_input(one, PARAMETERS, [one]) == {"first": 7, "second": "n=2"}
    verdict = made.evaluate_conditions(one, NOW)
    assert verdict is not None
    assert verdict.matched
    assert made.pattern is not None
    assert not made.pattern.matches(event("a", data={"n": 8})), "the criteria narrow the pattern"
    controls = made.flow.evaluate(one)
    assert controls.idempotency is not None
    assert {controls.idempotency.key.text, controls.concurrency_limits[0].key.text} == {"7"}


@pytest.mark.parametrize("root", ["event.data", "data"])
def test_the_data_have_the_same_name_in_composites_and_cancel_on(root):
    parts = [{"on": {"type": [type_]}, "key": f"{root}.id", "when": f"{root}.n > 1"} for type_ in "ab"]
    composite = compiled(composite={"all": parts, "within": "1m"}, function="f").composite
    assert composite is not None
    one = event("a", data={"n": 2, "id": "x"})
    assert composite.parts[0].matches(one, NOW)
    assert composite.key_and_parts(one, [0])[0].text == "x"
    rule = compiled(
        on={"type": ["a"]},
        function="f",
        flow={"cancel_on": [{"on": {"type": ["b"]}, "when": f"{root}.id == started.data.id"}]},
    ).flow.cancel_on[0]
    assert rule.evaluate(one, one, NOW).matched


def test_a_template_that_does_not_fit_the_event_is_refused():
    with pytest.raises(Invalid):
        compiled(on={"type": ["a"]}, function="f", input={"n": "{{ event.data.n }}"}).make_input(
            event("a", data={}), PARAMETERS
        )


def test_a_condition_is_asked_after_the_pattern():
    made = compiled(on={"type": ["a"]}, function="f", when="data.n > 1")
    verdicts = [made.evaluate_conditions(event("a", data=data), NOW) for data in ({"n": 2}, {"n": 1}, {})]
    assert [(v.matched, v.problem is None) for v in verdicts if v] == [
        (True, True),
        (False, True),
        (False, False),
    ]
    assert compiled(on={"type": ["a"]}, function="f").evaluate_conditions(event("a"), NOW) is None


@pytest.mark.parametrize(
    ("on", "types"),
    [
        ({"type": ["a", "b"]}, {"a", "b"}),
        ({"type": ["a", {"prefix": "b"}]}, None),
        ({"subject": ["x"]}, None),
        ({"type": [{"anything-but": "a"}]}, None),
    ],
)
def test_the_only_possible_types_are_known_when_they_are_listed(on, types):
    assert compiled(on=on, function="f").types == (None if types is None else frozenset(types))


def test_a_function_may_be_pinned():
    assert compiled(on={"type": ["a"]}, function="f@3").function == "f@3"

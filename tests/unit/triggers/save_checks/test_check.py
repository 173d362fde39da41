"""A trigger that can never work is refused when it is saved; what may be a mistake is a warning."""

from collections.abc import Collection
from typing import Any

import pytest

from functory.engine.errors import Invalid
from functory.engine.flow_control import trigger_row
from functory.engine.serialization import json_schema
from functory.triggers import definition, save_checks
from functory.triggers.save_checks import Surroundings

STOCK = {"type": "object", "properties": {"sku": {"type": "string"}, "stock": {"type": "integer"}}}
CLOSED = STOCK | {"additionalProperties": False}
SUCCEEDED = {"type": ["execution.succeeded"], "subject": ["parse"]}
SHIPPED = {"type": ["order.shipped"]}


def function(name: str, parameters: Any = None, **fields: Any) -> dict[str, Any]:
    """The active version of a function that takes ``parameters`` (name: JSON Schema); a name with ? is optional."""
    listed = [
        {"name": one.rstrip("?"), "kind": "positional", "required": not one.endswith("?")}
        for one in parameters or {"event": {}}
    ]
    properties = {one.rstrip("?"): schema for one, schema in (parameters or {"event": {}}).items()}
    return {
        "name": name,
        "number": 1,
        "state": "enabled",
        "parameters": listed,
        "input_schema": json_schema.from_parameters(listed) | {"properties": properties},
        "output_schema": None,
        "output_patterns": {},
    } | fields


def warnings(
    *functions: dict[str, Any], seen: Collection[str] = ("order.shipped",), **fields: Any
) -> list[str]:
    """The warnings about a trigger that runs ``work``, beside these functions. Raises what a save raises."""
    known = {row["name"]: row for row in (function("work"), *functions)}
    made = definition.parse(
        {"function": "work"} | ({} if "composite" in fields else {"on": SHIPPED}) | fields
    )
    compiled = definition.compile_definition(
        trigger_row.from_mapping({"id": "", "name": "t", "version": 0, "definition": made})
    )
    target = known.get(compiled.function)
    return save_checks.check(compiled, Surroundings(known, target, lambda type_: type_ in seen, lambda: seen))


def refusal(*functions: dict[str, Any], **fields: Any) -> str:
    with pytest.raises(Invalid) as refused:
        warnings(*functions, **fields)
    assert refused.value.what
    assert refused.value.why
    return str(refused.value)


@pytest.mark.parametrize("type_", ["order.*", "order%", "Order ", "order.", "ordér", "order.{a,b}"])
def test_a_type_that_no_event_can_have_is_refused(type_):
    said = refusal(on={"type": [type_, "order.shipped"]})
    assert f"the pattern lists the type {type_!r}, which no event can have" in said
    assert ('{"wildcard": "order.*"}' in said) is ("*" in type_)


class TestInput:
    TOTAL = function("work", {"total": {"type": "integer"}, "note?": {"type": "string"}})

    def test_both_roots_of_the_data_are_accepted(self):
        for root in ("data", "event.data"):
            assert warnings(self.TOTAL, input={"total": f"{{{{ {root}.output.total }}}}"}) == []

    def test_a_required_parameter_that_no_input_fills_is_refused(self):
        said = refusal(self.TOTAL, input={"note": "x"})
        assert "the function work needs total" in said
        assert '{"total": "{{ data.total }}"}' in said

    def test_a_required_parameter_that_only_the_event_fills_is_refused(self):
        assert "needs limit" in refusal(function("work", {"event": {}, "limit": {}}))

    def test_an_input_that_the_function_does_not_take_is_refused_with_the_nearest_name(self):
        said = refusal(self.TOTAL, input={"total": 1, "nte": "x"})
        assert "the function work does not take nte" in said
        assert "did you mean note?" in said

    def test_a_constant_of_a_wrong_type_is_refused(self):
        assert '"many" is not of type "integer"' in refusal(self.TOTAL, input={"total": "many"})

    def test_a_text_with_an_expression_in_it_is_never_a_number(self):
        assert "total: " in refusal(self.TOTAL, input={"total": "about {{ data.total }}"})

    def test_an_expression_with_a_filter_is_a_text(self):
        assert "total: " in refusal(self.TOTAL, input={"total": "{{ data.total | json }}"})

    def test_the_event_is_never_a_number(self):
        said = refusal(self.TOTAL)
        assert "total gets the event, which is an object" in said
        assert '{"total": "{{ data.total }}"}' in said

    def test_the_events_of_a_batch_are_never_a_text(self):
        text = function("work", {"when": {"type": "string"}})
        said = refusal(text, flow={"batch": {"max_size": 5, "timeout": "10s"}})
        assert "when gets the events, which are a list" in said
        assert '{"when": "{{ events[0].data.when }}"}' in said

    def test_the_output_in_an_event_may_be_anything(self):
        assert (
            warnings(
                self.TOTAL,
                function("parse"),
                on={"type": ["execution.succeeded"], "subject": ["parse"]},
                **{"pass": "output"},
            )
            == []
        )

    def test_several_events_are_a_list(self):
        batch = {"batch": {"max_size": 2, "timeout": "1m"}}
        assert "event gets the events" in refusal(function("work", {"event": {"type": "object"}}), flow=batch)
        assert warnings(function("work", {"events": {"type": "array"}}), flow=batch) == []

    def test_an_expression_may_become_what_the_schema_wants(self):
        wants = function("work", {"n": {"type": "integer", "minimum": 3}, "mode": {"enum": ["a", "b"]}})
        assert warnings(wants, input={"n": "{{ data.n }}", "mode": "{{ data.mode }}"}) == []
        assert warnings(wants, input="{{ data }}") == []
        assert "mode: " in refusal(wants, input={"n": "{{ data.n }}", "mode": "c"})

    def test_a_schema_that_depends_on_a_value_is_not_decided_before_there_is_one(self):
        schema = {
            "type": "object",
            "if": {"properties": {"n": {"const": None}}},
            "then": {"required": ["m"]},
        }
        wants = function("work", {"n": {}, "m?": {}}) | {"input_schema": schema}
        assert warnings(wants, input={"n": "{{ data.n }}"}) == []
        assert "m" in refusal(wants, input={"n": None})

    def test_all_reasons_are_named(self):
        said = refusal(self.TOTAL, input={"nte": "{{ dta.x }}"})
        assert "for 3 reasons" in said
        assert all(part in said for part in ("needs total", "does not take nte", "there is no dta here"))


class TestTemplatePaths:
    @pytest.mark.parametrize(
        ("expression", "near"),
        [
            ("dta.x", "data"),
            ("evnt.data.x", "event"),
            ("event.dta.x", "data"),
            ("event.subjct", "subject"),
            ("event.type.name", None),
            ("vars.limit", None),
            ("events[0].data.x", None),
            ("dta.x | default(1)", "data"),
        ],
    )
    def test_a_path_that_no_event_has_is_refused_with_the_nearest_name(self, expression, near):
        said = refusal(input={"event": f"{{{{ {expression} }}}}"})
        assert near is None or f"did you mean {near}?" in said

    @pytest.mark.parametrize(
        "expression", ["event.type", "event.data", "data", "event.subject", "event.traceparent", '"{{"']
    )
    def test_a_path_that_an_event_may_have_is_accepted(self, expression):
        assert warnings(input={"event": f"{{{{ {expression} }}}}"}) == []

    def test_an_attribute_that_only_events_from_outside_may_have_is_a_warning(self):
        (said,) = warnings(input={"event": "{{ event.warehouse }}"})
        assert "only events from outside have further attributes" in said
        assert "warehouse" in refusal(on={"type": ["execution.failed"]}, input="{{ event.warehouse }}")

    def test_the_list_of_events_is_there_where_a_firing_has_several(self):
        batch = {"batch": {"max_size": 2, "timeout": "1m"}}
        assert warnings(input={"event": "{{ events[0].data.x }}"}, flow=batch) == []
        assert "events is a list" in refusal(input={"event": "{{ events.data.x }}"}, flow=batch)
        assert "did you mean data?" in refusal(input={"event": "{{ events[0].dta.x }}"}, flow=batch)


class TestDataOfTheEngineSEvents:
    def test_a_field_that_they_do_not_have_is_refused_with_the_nearest_name(self):
        said = refusal(function("parse"), on=SUCCEEDED, input={"event": "{{ event.data.outptu.x }}"})
        assert "the input template reads event.data.outptu.x" in said
        assert "did you mean output?" in said

    def test_with_a_default_it_is_a_warning(self):
        (said,) = warnings(function("parse"), on=SUCCEEDED, input={"event": "{{ data.outptu | default(1) }}"})
        assert "did you mean output?" in said

    def test_a_field_that_only_some_of_the_types_have_is_a_warning(self):
        on = {"type": ["execution.succeeded", "execution.failed"]}
        (said,) = warnings(on=on, input={"event": "{{ data.output }}"})
        assert "events of the type execution.failed do not have" in said
        assert warnings(on=on, input={"event": "{{ data.output | default(null) }}"}) == []
        assert warnings(on={"type": [{"prefix": "execution."}]}, input={"event": "{{ data.output }}"}) == []

    @pytest.mark.parametrize(
        ("schema", "path", "warned"),
        [
            (CLOSED, "data.output.stok", True),
            (CLOSED, "data.output.price", True),
            (CLOSED, "data.output.stock", False),
            (CLOSED, "data.output.stock.of", True),
            (STOCK, "data.output.stok", True),
            (STOCK, "data.output.price", False),
            ({"anyOf": [CLOSED, {"type": "null"}]}, "data.output.stok", True),
            ({"anyOf": [CLOSED, {"type": "object"}]}, "data.output.price", False),
            ({"$ref": "#/$defs/S", "$defs": {"S": CLOSED}}, "data.output.price", True),
            ({"$ref": "#"}, "data.output.price", False),
            ({"type": "array", "items": CLOSED}, "data.output[0].price", True),
            ({"type": "array", "items": CLOSED}, "data.output.price", True),
            ({"type": "array", "items": CLOSED}, "data.output[0].sku", False),
            (CLOSED | {"patternProperties": {"^x": {}}}, "data.output.price", False),
            ({"type": "object", "additionalProperties": CLOSED}, "data.output.x.price", True),
            (None, "data.output.price", False),
        ],
    )
    def test_a_path_that_the_output_schema_does_not_have_is_a_warning(self, schema, path, warned):
        emitter = function("parse", output_schema=schema)
        found = warnings(emitter, on=SUCCEEDED, input={"event": f"{{{{ {path} }}}}"})
        assert [("by the output schema of parse" in said) for said in found] == [True] * warned

    def test_a_pattern_over_the_output_is_compared_with_its_schema(self):
        emitter = function("parse", output_schema={"type": "array", "items": CLOSED})
        on = SUCCEEDED | {"data": {"output": {"stok": [1]}}}
        (said,) = warnings(emitter, on=on)
        assert "the pattern tests data.output.stok" in said
        assert "did you mean stock?" in said
        assert warnings(emitter, on=SUCCEEDED | {"data": {"output": {"stock": [1]}}}) == []

    def test_the_silence_of_an_absence_has_data_of_its_own(self):
        absence = {"absence": {"of": {"on": SHIPPED}}, "within": "1m"}
        assert "data.sku" in refusal(composite=absence, input={"event": "{{ data.sku }}"})
        assert warnings(composite=absence, input={"event": "{{ data.since }}"}) == []


class TestConditionsAndKeys:
    def test_a_condition_over_an_unknown_field_is_refused(self):
        said = refusal(when="event.dta.x == 1")
        assert "the condition reads event.dta.x" in said
        assert "did you mean data?" in said

    def test_a_test_of_an_unknown_field_is_a_warning(self):
        (said,) = warnings(when="has(event.dta) && event.dta.x == 1".replace("dta.x", "dta"))
        assert "did you mean data?" in said

    @pytest.mark.parametrize(
        "when",
        [
            "data.items.exists(event, event.dta.x == data.k)",
            "has(data.stock) && data.stock < 3",
            'event["data"]["a b"][0].z == 1',
            "now > timestamp(event.time)",
            "data[data.which] == 1",
        ],
    )
    def test_what_may_hold_is_accepted(self, when):
        assert warnings(when=when) == []

    @pytest.mark.parametrize(
        "flow",
        [
            {"throttle": {"limit": 1, "period": "1m", "key": "event.dta.x"}},
            {"debounce": {"period": "1m", "key": "event.dta.x"}},
            {"batch": {"max_size": 2, "timeout": "1m", "if": "event.dta.x"}},
            {"concurrency": [{"limit": 1, "key": "event.dta.x"}]},
            {"idempotency": {"key": "event.dta.x"}},
            {"singleton": {"mode": "skip", "key": "event.dta.x"}},
            {"priority": {"run": "event.dta.x"}},
            {"cancel_on": [{"on": SHIPPED, "when": "event.dta.x == 1"}]},
            {"cancel_on": [{"on": SHIPPED, "when": "started.dta.x == 1"}]},
        ],
    )
    def test_every_expression_of_flow_control_is_checked(self, flow):
        assert "did you mean data?" in refusal(flow=flow)

    def test_the_parts_of_a_composite_are_checked(self):
        parts = [
            {"on": SHIPPED, "key": "data.id"},
            {"on": {"type": ["execution.failed"]}, "key": "data.eror"},
        ]
        assert "did you mean error?" in refusal(composite={"all": parts, "within": "1m"})


class TestPatterns:
    def test_an_unknown_field_of_the_envelope_is_refused_with_the_nearest_name(self):
        said = refusal(on={"typ": ["order.shipped"]})
        assert "the pattern tests typ" in said
        assert "did you mean type?" in said

    def test_an_extension_is_accepted(self):
        assert warnings(on=SHIPPED | {"partitionkey": ["a"]}) == []

    @pytest.mark.parametrize(
        ("type_", "near"),
        [
            ("function.updatd", "function.updated"),
            ("function_updated", "function.updated"),
            ("order.shiped", "order.shipped"),
        ],
    )
    def test_a_type_that_is_like_a_known_one_is_a_warning(self, type_, near):
        (said,) = warnings(on={"type": [type_]})
        assert f"did you mean {near}?" in said

    def test_a_type_of_the_engine_that_it_does_not_have_is_a_warning(self):
        (said,) = warnings(on={"type": ["worker.retired"]})
        assert "the engine has no such event" in said

    def test_a_new_type_is_none_and_neither_is_one_that_was_seen(self):
        assert warnings(on={"type": ["parcel.lost"]}) == []
        assert warnings(on={"type": ["order.paid"]}, seen=["order.placed"]) == []
        assert warnings(on={"type": ["order.shiped"]}, seen=["order.shiped", "order.shipped"]) == []

    def test_a_field_of_the_data_that_the_type_does_not_have_is_refused(self):
        said = refusal(on={"type": ["function.updated"], "data": {"functoin": ["parse"]}})
        assert "did you mean function?" in said

    def test_a_test_for_absence_is_accepted(self):
        assert warnings(on={"type": ["function.updated"], "data": {"x": [{"exists": False}]}}) == []

    def test_one_branch_that_matches_nothing_is_a_warning(self):
        on = {
            "type": ["function.updated"],
            "$or": [{"data": {"author": ["ada"]}}, {"data": {"athor": ["ada"]}}],
        }
        (said,) = warnings(on=on)
        assert "did you mean author?" in said

    def test_babyagi_s_conditions_are_tried_in_two_places(self):
        made = definition.parse(
            {
                "event_type": "function_updated",
                "trigger_function": "work",
                "conditions": {"auto_validate": True},
            }
        )
        compiled = definition.compile_definition(
            trigger_row.from_mapping({"id": "", "name": "t", "version": 0, "definition": made})
        )
        assert save_checks.check(compiled, Surroundings({}, function("work"))) == []

    def test_an_emitter_and_an_output_pattern_that_do_not_exist_are_warnings(self):
        emitter = function("parse", output_patterns={"low_stock": {"stock": [0]}})
        on = {"type": ["output.matched"], "subject": ["parse"], "data": {"pattern": ["low_stok"]}}
        (said,) = warnings(emitter, on=on)
        assert "did you mean low_stock?" in said
        assert warnings(emitter, on=on | {"data": {"pattern": ["low_stock"]}}) == []
        (said,) = warnings(
            emitter, on=on | {"subject": ["prse"], "data": {}} | {"data": {"pattern": ["low_stock"]}}
        )
        assert "the function prse: it does not exist yet; did you mean parse?" in said


class TestFunction:
    def test_a_missing_or_disabled_function_is_a_warning(self):
        (said,) = warnings(function="wrk")
        assert "wrk does not exist yet" in said
        assert "did you mean work?" in said
        (said,) = warnings(function("work", state="disabled"))
        assert "the function work is disabled" in said


@pytest.mark.parametrize(
    ("declared", "taken", "fits"),
    [
        ("array", "object", False),
        ("string", "integer", False),
        ("number", "integer", True),
        ("object", "object", True),
        (["array", "null"], "object", True),
        (None, "object", True),
    ],
)
def test_an_output_whose_declared_type_the_function_does_not_take_is_a_warning(declared, taken, fits):
    """BabyAGI's spelling passes the output itself, whatever the parameter is called."""
    parse = function("parse", output_schema=None if declared is None else {"type": declared})
    work = function("work", {"event": {"type": taken}})
    known = {"parse": parse, "work": work}
    made = definition.parse(
        {"event_type": "function_executed", "target_function": "parse", "trigger_function": "work"}
    )
    compiled = definition.compile_definition(
        trigger_row.from_mapping({"id": "", "name": "t", "version": 0, "definition": made})
    )
    said = save_checks.check(compiled, Surroundings(known, work))
    assert (not said) is fits
    if not fits:
        assert f"event gets the output, whose declared type is {declared}" in said[0]
        assert "give the trigger an input" in said[0]


def test_a_pattern_on_the_function_that_the_trigger_runs_says_which_guard_stops_it():
    own = {"type": ["execution.succeeded"], "subject": ["work"]}
    (said,) = warnings(on=own)
    assert said.startswith(
        "the pattern takes the events of work, which the trigger runs itself: the guard own_event"
    )
    assert said.endswith("use the guards allow_self and acknowledge_cycle")
    assert warnings(on=own, guards={"allow_self": True, "acknowledge_cycle": 1}) == []
    assert warnings(function("parse"), on=own | {"subject": ["parse"]}) == []
    assert warnings(on={"type": ["execution.succeeded"]}) == []
    assert warnings(on={"type": ["order.shipped"], "subject": ["work"]}) == []

"""A trigger's definition: both spellings are read into one form, checked, and compiled.

The stored form is a plain object, written by :func:`define`::

    {"on": pattern, "criteria": StackStorm's or left out, "when": CEL text or None, "function": "name" or "name@3",
     "input": template or None, "pass": "event" | "output",
     "guards": {"max_depth", "max_revisits", "allow_self", "budget", "rate", "source_rate", "repeat_rate",
               "acknowledge_cycle"},
     "flow": flow control (triggers.flow_control) or left out, "composite": in the place of "on" (triggers.composites),
     "compensate": true or left out}

``budget`` is the number of executions of a root beyond which this trigger stops, ``rate`` the firings a
minute for one subject, ``source_rate`` for one source of any kind but schedules, ``repeat_rate`` for the same content,
file or row from there (0: no limit). ``acknowledge_cycle`` is the bound on revisits that the author accepts
for a cycle found by the analysis.

``compensate``: the execution that the trigger starts is a step of the execution that caused the event. It is
compensated when that execution fails for good (``functory.engine.executions.compensation.plan``).

``pass`` is the first argument of the function without a template: the event (default), or the output in the
event's data (the spelling of BabyAGI's users, :func:`from_event_type`).
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from functory.engine.errors import Invalid
from functory.engine.flow_control.trigger_row import TriggerRow
from functory.engine.functions import arguments, dependencies
from functory.engine.serialization import json_codec
from functory.triggers.composites import Composite, compile_composite
from functory.triggers.composites.part import listed_types
from functory.triggers.criteria import Criteria, compile_criteria
from functory.triggers.expressions.conditions import Condition, ConditionResult, compile_condition
from functory.triggers.flow_control import fields
from functory.triggers.flow_control.buffered_match import BufferPolicy
from functory.triggers.flow_control.definition import Flow, compile_flow
from functory.triggers.input_templates import Template, compile_template
from functory.triggers.patterns import Pattern, compile_pattern

# Event types by BabyAGI's names. Any other name is used as the event type.
EVENT_TYPES: dict[str, tuple[str, ...]] = {
    "function_created": ("function.created",),
    "function_added": ("function.created",),
    "function_updated": ("function.updated",),
    "function_added_or_updated": ("function.created", "function.updated"),
    "function_deleted": ("function.deleted",),
    "function_executed": ("execution.succeeded",),
    "function_succeeded": ("execution.succeeded",),
    "function_failed": ("execution.failed", "execution.timed_out", "execution.dead"),
    "execution_started": ("execution.started",),
    "execution_succeeded": ("execution.succeeded",),
    "execution_failed": ("execution.failed",),
    "output_pattern": ("output.matched",),
    "output_matched": ("output.matched",),
}

# Several conditions become the product of their places: at most 2 ** 6 branches.
MAX_CONDITIONS = 6

FIELDS = frozenset(
    {"on", "criteria", "when", "function", "input", "pass", "guards", "flow", "composite", "compensate"}
)
# Those of the other spelling (:func:`from_event_type`).
_EVENT_TYPE_FIELDS = (FIELDS - {"on", "function", "pass", "composite"}) | {
    "event_type",
    "target_function",
    "trigger_function",
    "conditions",
}
_GUARDS: dict[str, tuple[int, int]] = {
    "max_depth": (1, 10_000),
    "max_revisits": (0, 10_000),
    "budget": (1, 1_000_000),
    "rate": (0, 1_000_000),
    "source_rate": (0, 1_000_000),
    "repeat_rate": (0, 1_000_000),
    "acknowledge_cycle": (1, 10_000),
}


@dataclass(frozen=True)
class Guards:
    """A trigger's own limits; None takes the setting."""

    max_depth: int | None = None
    max_revisits: int = 1
    allow_self: bool = False
    budget: int | None = None
    rate: int | None = None
    source_rate: int | None = None
    repeat_rate: int | None = None
    acknowledge_cycle: int | None = None


@dataclass(frozen=True)
class CompiledTrigger:
    """A trigger version ready to decide: its row, pattern, criteria, condition, template and guards.

    ``pattern`` is ``on`` narrowed by what a pattern can say of the criteria; none with a composite, whose parts have
    patterns of their own.
    """

    row: TriggerRow
    pattern: Pattern | None
    criteria: Criteria | None
    condition: Condition | None
    template: Template | None
    passes: str
    guards: Guards
    function: str
    flow: Flow
    composite: Composite | None
    compensate: bool = False
    types: frozenset[str] | None = None

    @property
    def id(self) -> str:
        return self.row.id

    @property
    def name(self) -> str:
        return self.row.name

    @property
    def event_types(self) -> frozenset[str] | None:
        """The only event types that its patterns can match, those of cancel-on included; None when one can match
        any. The row must have its definition."""
        rules = (self.row.definition.get("flow") or {}).get("cancel_on") or ()
        types = [self.types, *(listed_types(rule["on"]) for rule in rules)]
        return None if None in types else frozenset().union(*filter(None, types))

    @property
    def buffer_policy(self) -> BufferPolicy | None:
        """The control that its matches wait for; None when they do not wait for others."""
        return self.composite or self.flow.debounce or self.flow.batch

    def evaluate_conditions(self, event: Mapping[str, Any], now: datetime) -> ConditionResult | None:
        """The result of criteria and condition, which must both hold; None without either."""
        result = None
        if self.criteria is not None:
            result = self.criteria.evaluate(event, now)
            if not result.matched:
                return result
        return result if self.condition is None else self.condition.evaluate(event, now, {})

    def make_input(
        self,
        event: Mapping[str, Any],
        parameters: Sequence[Mapping[str, Any]],
        events: Sequence[Mapping[str, Any]] | None = None,
    ) -> dict[str, Any]:
        """The input of the execution. Raises :class:`Invalid` when the template does not fit the event.

        ``events`` are all events of a firing that has several, in their order. Without a template the function gets the
        list; a template reads it as ``events`` beside ``event`` and ``data``.
        """
        if self.template is not None:
            known: dict[str, Any] = {"event": event, "data": event.get("data")}
            if events is not None:
                known["events"] = list(events)
            rendered = self.template.render(known)
            if not isinstance(rendered, Mapping):
                return arguments.bind_first(parameters, rendered)
            return dict(rendered)
        if events is not None:
            return arguments.bind_first(parameters, [_passed(self.passes, one) for one in events])
        return arguments.bind_first(parameters, _passed(self.passes, event))


@dataclass(frozen=True)
class SingleEventInput:
    """The input for an event by itself: in a list of one where the function gets lists."""

    compiled: CompiledTrigger
    event: Mapping[str, Any]

    def render(self, parameters: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
        """Return the input for a function with these parameters. Raises as :meth:`CompiledTrigger.make_input`."""
        policy = self.compiled.buffer_policy
        listed = policy is not None and policy.delivers_list
        return self.compiled.make_input(self.event, parameters, [self.event] if listed else None)


def define(
    *,
    function: str,
    on: Mapping[str, Any] | None = None,
    when: str | None = None,
    input: Any = None,  # noqa: A002  (the user's word)
    guards: Mapping[str, Any] | None = None,
    passes: str = "event",
    criteria: Mapping[str, Any] | None = None,
    flow: Mapping[str, Any] | None = None,
    composite: Mapping[str, Any] | None = None,
    compensate: bool = False,
) -> dict[str, Any]:
    """A checked definition in its stored form. Raises :class:`Invalid`, naming the wrong part."""
    definition = {
        "on": json_codec.loads(json_codec.encode(dict(on))) if isinstance(on, Mapping) else on,
        "when": when or None,
        "function": function,
        "input": json_codec.from_python(input, "input of the trigger"),
        "pass": passes,
        "guards": dict(guards) if isinstance(guards, Mapping) else guards or {},
    }
    if criteria:
        definition["criteria"] = compile_criteria(criteria).source
    # Left out where there is none: the content hash of older triggers stays the same.
    if flow:
        definition["flow"] = json_codec.loads(json_codec.encode(flow))
    if composite:
        definition["composite"] = json_codec.loads(json_codec.encode(composite))
        del definition["on"]
    if not isinstance(compensate, bool):
        raise Invalid(f"wrong compensate {compensate!r}", "it must be true or false", "compensate: true")
    if compensate:
        definition["compensate"] = True
    compile_definition(TriggerRow("", "", 0, definition))
    return definition


def from_event_type(
    *,
    event_type: str,
    trigger_function: str,
    target_function: str | None = None,
    conditions: Mapping[str, Any] | None = None,
    **rest: Any,
) -> dict[str, Any]:
    """Define a trigger from ``register_trigger(event_type=…, target_function=…, trigger_function=…, conditions=…)``.

    ``trigger_function`` runs when ``event_type`` happens to ``target_function`` (any, without one).
    Each condition holds when the target's metadata or the event's data has that value.
    """
    if not isinstance(event_type, str):
        raise Invalid(
            "wrong event_type", f"it must be a text, got {event_type!r}", 'event_type="function_updated"'
        )
    if not isinstance(conditions, Mapping | None):
        raise Invalid(
            "wrong conditions",
            f"they must be an object, got {conditions!r}",
            'conditions={"auto_validate": True}',
        )
    types = EVENT_TYPES.get(event_type, (event_type,))
    on: dict[str, Any] = {"type": list(types)}
    if target_function is not None:
        on["subject"] = [target_function]
    wanted = dict(conditions or {})
    if len(wanted) > MAX_CONDITIONS:
        raise Invalid(
            "too many conditions",
            f"{len(wanted)}; at most {MAX_CONDITIONS} are taken",
            "write a pattern instead: register_trigger(name, on={…}, function=…)",
        )
    if "metadata" in wanted:
        raise Invalid(
            "wrong conditions",
            "metadata itself cannot be one: each condition names a value in it",
            'conditions={"auto_validate": True}',
        )
    if wanted:
        places = [[("metadata", key, value), ("", key, value)] for key, value in wanted.items()]
        branches: list[dict[str, Any]] = []
        for choice in itertools.product(*places):
            data: dict[str, Any] = {}
            for where, key, value in choice:
                holder = data.setdefault(where, {}) if where else data
                holder[key] = value if isinstance(value, list | dict) else [value]
            branches.append({"data": data})
        on["$or"] = branches
    return define(on=on, function=trigger_function, passes="output", **rest)


def parse(given: Mapping[str, Any]) -> dict[str, Any]:
    """A definition from an object in either spelling (a YAML file, an API call). Raises :class:`Invalid`."""
    given = {key: value for key, value in given.items() if key != "name"}
    if "event_type" in given:
        fields.check_object(given, "a trigger", _EVENT_TYPE_FIELDS, "")
        if not given.get("trigger_function"):
            raise Invalid("the trigger names no function to run", "trigger_function is missing")
        return from_event_type(**given)
    fields.check_object(given, "a trigger", FIELDS, "")
    if given.get("on") and given.get("composite"):
        raise Invalid(
            "the trigger has both 'on' and 'composite'",
            "a composite names the patterns of its parts itself",
            "leave out one of them",
        )
    for needed in ("function",) if given.get("composite") else ("on", "function"):
        if not given.get(needed):
            raise Invalid(
                f"the trigger has no {needed!r}",
                "a trigger needs a pattern and a function",
                'register_trigger("name", on={"type": ["order.created"]}, function="handle_order")',
            )
    passes = given.pop("pass", "event")
    return define(**given, passes=passes)


def compile_definition(row: TriggerRow) -> CompiledTrigger:
    """Compile a trigger, stored or a draft. Raises :class:`Invalid`."""
    definition = row.definition
    dependencies.parse_reference(definition["function"])
    if definition["pass"] not in ("event", "output"):
        raise Invalid(f"wrong pass {definition['pass']!r}", "it must be event or output")
    criteria = _criteria(definition.get("criteria"))
    composite = None
    pattern = None
    if definition.get("composite") is not None:
        composite = compile_composite(definition["composite"])
        if criteria is not None or definition["when"] is not None:
            raise Invalid(
                "a composite trigger has criteria or a condition of its own",
                "they apply to one event, and it waits for several",
                "write them at its parts",
            )
    else:
        on = definition["on"]
        pattern = compile_pattern(on if criteria is None else criteria.narrow(on))
    flow = compile_flow(definition.get("flow"), composite=composite is not None)
    return CompiledTrigger(
        row=row,
        pattern=pattern,
        criteria=criteria,
        condition=compile_condition(definition["when"]) if definition["when"] is not None else None,
        template=compile_template(definition["input"]) if definition["input"] is not None else None,
        passes=definition["pass"],
        guards=_guards(definition["guards"]),
        function=definition["function"],
        flow=flow,
        composite=composite,
        compensate=bool(definition.get("compensate")),
        types=composite.types if composite is not None else listed_types(definition["on"]),
    )


def _criteria(given: Mapping[str, Any] | None) -> Criteria | None:
    if given is None:
        return None
    criteria = compile_criteria(given)
    if criteria.required_names:
        name = min(criteria.required_names)
        raise Invalid(
            f"the criteria read {name}, which a trigger does not know",
            "it knows the event, and the event's data under the names trigger and data",
            f"trigger.{name} for a member of the data, or write the value itself as the pattern",
        )
    return criteria


def _guards(given: Mapping[str, Any]) -> Guards:
    fields.check_object(given, "guards", {*_GUARDS, "allow_self"}, 'guards={"max_depth": 4}')
    for name, (low, high) in _GUARDS.items():
        if given.get(name) is not None:
            fields.integer(given[name], f"guard {name}", low, high)
    if not isinstance(given.get("allow_self", False), bool):
        raise Invalid("wrong guard allow_self", "it must be true or false")
    return Guards(**given)


def _passed(passes: str, event: Mapping[str, Any]) -> Any:
    data = event.get("data")
    if passes == "output" and isinstance(data, Mapping) and "output" in data:
        return data["output"]
    return event

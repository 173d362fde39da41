"""Does the input that a trigger makes fit the function that it runs?

Only the values of expressions are unknown before an event comes: the names of the input, its constants and the types of
its texts are there to be checked against the function's input schema.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from functory.engine.functions import arguments
from functory.engine.serialization import json_schema
from functory.triggers.definition import CompiledTrigger
from functory.triggers.input_templates import TemplateExpression, parse_text
from functory.triggers.save_checks.problems import Problem, listed, nearest

# Faults of an object or a list that hold whatever its expressions become.
_OF_CONTAINERS = frozenset({"required", "additionalProperties", "type", "unevaluatedProperties"})
# Below these a schema applies only for some values.
_CONDITIONAL = frozenset({"if", "then", "else", "not", "dependentSchemas"})

Place = tuple[str | int, ...]


@dataclass(frozen=True)
class _Unknown:
    """A value that depends on the event; ``example`` is one of its type, None when that is unknown too."""

    example: Any = None


def input_problems(compiled: CompiledTrigger, target: Mapping[str, Any]) -> list[Problem]:
    """Return what does not fit in the input that a trigger makes for version ``target``."""
    value = _outline_input(compiled, target["parameters"])
    schema = target["input_schema"]
    if isinstance(value, _Unknown) or not isinstance(schema, Mapping):
        return []
    unknown = dict(_unknown_places(value, ()))
    name = compiled.function
    takes = json_schema.shape_text(schema)
    found: list[Problem] = []
    for fault in json_schema.faults(schema, _example(value), f"input of {name}"):
        if not _is_certain(fault, unknown):
            continue
        if compiled.template is None and fault.place and fault.place in unknown:
            found.append(_event_problem(fault, name, takes, unknown[fault.place].example))
            continue
        found += _problems(fault, name, schema, takes, has_template=compiled.template is not None)
    return found


def _outline_input(compiled: CompiledTrigger, parameters: Sequence[Mapping[str, Any]]) -> Any:
    """Return the input with an :class:`_Unknown` in the place of each value that depends on the event."""
    policy = compiled.buffer_policy
    several = policy is not None and policy.delivers_list
    if compiled.template is None:
        passed = _Unknown() if compiled.passes == "output" else _Unknown({})
        return arguments.bind_first(parameters, _Unknown([]) if several else passed)
    outline = _outline(compiled.template.source)
    if isinstance(outline, Mapping):
        return outline
    if isinstance(outline, _Unknown) and not isinstance(outline.example, str):
        # It may become the whole input.
        return outline
    return arguments.bind_first(parameters, outline)


def _outline(source: Any) -> Any:
    if isinstance(source, str):
        parts = parse_text(source)
        if all(isinstance(part, str) for part in parts):
            return source
        only = parts[0]
        if len(parts) == 1 and isinstance(only, TemplateExpression) and not only.filters:
            return _Unknown()
        return _Unknown("")
    if isinstance(source, Mapping):
        return {name: _outline(inner) for name, inner in source.items()}
    if isinstance(source, list | tuple):
        return [_outline(inner) for inner in source]
    return source


def _example(value: Any) -> Any:
    if isinstance(value, _Unknown):
        return value.example
    if isinstance(value, Mapping):
        return {name: _example(inner) for name, inner in value.items()}
    return [_example(inner) for inner in value] if isinstance(value, list) else value


def _unknown_places(value: Any, place: Place) -> Iterator[tuple[Place, _Unknown]]:
    if isinstance(value, _Unknown):
        yield place, value
    elif isinstance(value, Mapping | list):
        for name, inner in value.items() if isinstance(value, Mapping) else enumerate(value):
            yield from _unknown_places(inner, (*place, name))


def _is_certain(fault: json_schema.Fault, unknown: Mapping[Place, _Unknown]) -> bool:
    """True for a fault that no value of the expressions would mend."""
    if unknown and not _CONDITIONAL.isdisjoint(map(str, fault.schema_path)):
        return False
    here = unknown.get(fault.place)
    if here is not None:
        return here.example is not None and fault.keyword == "type"
    is_constant = not any(place[: len(fault.place)] == fault.place for place in unknown)
    return is_constant or fault.keyword in _OF_CONTAINERS


def _event_problem(fault: json_schema.Fault, name: str, takes: str, example: Any) -> Problem:
    """Return the problem of a parameter that gets the event, or all events of a batch, and does not take it."""
    parameter = fault.place[0]
    gets, part = "the event, which is an object", f"data.{parameter}"
    if isinstance(example, list):
        gets, part = "the events, which are a list", f"events[0].data.{parameter}"
    return Problem(
        f"the input does not fit the function {name}",
        f"without an input {parameter} gets {gets}; {name} {takes.removeprefix('it ')}",
        f'choose a part of it as the input: {{"{parameter}": "{{{{ {part} }}}}"}}',
        True,
    )


def _problems(
    fault: json_schema.Fault, name: str, schema: Mapping[str, Any], takes: str, *, has_template: bool
) -> Iterator[Problem]:
    if fault.place or not fault.names:
        where = ".".join(map(str, fault.place)) or "the input"
        yield Problem(f"the input does not fit the function {name}", f"{where}: {fault.message}", takes, True)
    elif fault.keyword == "required":
        fills = "the input does not give it" if has_template else "without an input it gets the event alone"
        example = f'{{"{fault.names[0]}": "{{{{ data.{fault.names[0]} }}}}"}}'
        yield Problem(
            f"the function {name} needs {listed(fault.names)}", fills, f"add it to the input: {example}", True
        )
    else:
        known = list(schema.get("properties") or ())
        for one in fault.names:
            near = nearest(one, known)
            yield Problem(
                f"the function {name} does not take {one}",
                takes,
                f"did you mean {near}?" if near else "",
                True,
            )

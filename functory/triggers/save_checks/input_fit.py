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
from functory.triggers.save_checks.event_kinds import kinds_of
from functory.triggers.save_checks.problems import Problem, listed, nearest

# Faults of an object or a list that hold whatever its expressions become.
_OF_CONTAINERS = frozenset({"required", "additionalProperties", "type", "unevaluatedProperties"})
# Below these a schema applies only for some values.
_CONDITIONAL = frozenset({"if", "then", "else", "not", "dependentSchemas"})

# Events with the output of a function, and a value of each type that an output schema may name. A number may be whole.
_WITH_OUTPUT = frozenset({"execution.succeeded", "output.matched"})
_EXAMPLES: Mapping[str, Any] = {
    "object": {}, "array": [], "string": "", "integer": 0, "number": 0, "boolean": False,
}  # fmt: skip

Place = tuple[str | int, ...]


@dataclass(frozen=True)
class _Unknown:
    """A value that depends on the event; ``example`` is one of its type, None when that is unknown too. ``output_type``
    is the type that its functions declare for it, when it is their output.
    """

    example: Any = None
    output_type: str = ""


def input_problems(
    compiled: CompiledTrigger, target: Mapping[str, Any], functions: Mapping[str, Mapping[str, Any]]
) -> list[Problem]:
    """Return what does not fit in the input that a trigger makes for version ``target``. ``functions`` has the active
    version of each function by name: a trigger may pass what one of them returns.
    """
    value = _outline_input(compiled, target["parameters"], functions)
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
            found.append(_passed_problem(fault, name, takes, unknown[fault.place]))
            continue
        found += _problems(fault, name, schema, takes, has_template=compiled.template is not None)
    return found


def _outline_input(
    compiled: CompiledTrigger,
    parameters: Sequence[Mapping[str, Any]],
    functions: Mapping[str, Mapping[str, Any]],
) -> Any:
    """Return the input with an :class:`_Unknown` in the place of each value that depends on the event."""
    policy = compiled.buffer_policy
    several = policy is not None and policy.delivers_list
    if compiled.template is None:
        passed = _output(compiled, functions) if compiled.passes == "output" else _Unknown({})
        return arguments.bind_first(parameters, _Unknown([]) if several else passed)
    outline = _outline(compiled.template.source)
    if isinstance(outline, Mapping):
        return outline
    if isinstance(outline, _Unknown) and not isinstance(outline.example, str):
        # It may become the whole input.
        return outline
    return arguments.bind_first(parameters, outline)


def _output(compiled: CompiledTrigger, functions: Mapping[str, Mapping[str, Any]]) -> _Unknown:
    """Return the output that a trigger passes: of a known type when all functions that it listens to declare it."""
    kinds = kinds_of(compiled.pattern) if compiled.pattern is not None else ()
    if any(kind.type not in _WITH_OUTPUT or not kind.subjects for kind in kinds):
        return _Unknown()
    types: set[str] = set()
    for subject in {subject for kind in kinds for subject in kind.subjects or ()}:
        schema = functions[subject]["output_schema"] if subject in functions else None
        type_ = schema.get("type") if isinstance(schema, Mapping) else None
        types.add(type_ if isinstance(type_, str) else "")
    type_ = types.pop() if len(types) == 1 else ""
    return _Unknown(_EXAMPLES[type_], type_) if type_ in _EXAMPLES else _Unknown()


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


def _passed_problem(fault: json_schema.Fault, name: str, takes: str, value: _Unknown) -> Problem:
    """Return the problem of a parameter that gets the event, the output in it, or all events of a batch, and does not
    take it. A function may return something else than it declares: that is known when it has run.
    """
    parameter = fault.place[0]
    what = f"the input does not fit the function {name}"
    if value.output_type:
        return Problem(
            what,
            f"{parameter} gets the output, whose declared type is {value.output_type}; "
            f"{name} {takes.removeprefix('it ')}",
            f"change the parameter of {name}, or give the trigger an input",
        )
    gets, part = "the event, which is an object", f"data.{parameter}"
    if isinstance(value.example, list):
        gets, part = "the events, which are a list", f"events[0].data.{parameter}"
    return Problem(
        what,
        f"without an input {parameter} gets {gets}; {name} {takes.removeprefix('it ')}",
        f'choose a part of it as the input: {{"{parameter}": "{{{{ {part} }}}}"}}',
        certain=True,
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

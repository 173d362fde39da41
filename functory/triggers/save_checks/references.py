"""The paths that a trigger reads from its events: in its template, its conditions, and the keys of flow control."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, fields, is_dataclass
from typing import Any

from functory.triggers.composites.rules import Silence
from functory.triggers.definition import CompiledTrigger
from functory.triggers.expressions.conditions import Condition
from functory.triggers.expressions.values import ValueExpression
from functory.triggers.input_templates import TemplateExpression, ValuePath, has_default, parse_text
from functory.triggers.patterns import Pattern
from functory.triggers.save_checks.event_kinds import EventKind, kinds_of

_SILENCE = EventKind("trigger.silent")


@dataclass(frozen=True)
class Reference:
    """A path in ``place``, which begins with a name (``root``) and is read from events of these ``kinds``.

    ``optional``: the place is made for a path without a value (``default(…)``, ``has(…)``). ``roots`` are the names
    that the place knows.
    """

    place: str
    root: str
    steps: tuple[str | int, ...]
    optional: bool
    kinds: tuple[EventKind, ...]
    roots: tuple[str, ...]

    @property
    def text(self) -> str:
        """The path as it is written."""
        return ValuePath((self.root, *self.steps)).text()


def patterns_of(compiled: CompiledTrigger) -> Iterator[tuple[str, Pattern]]:
    """Yield each pattern of a trigger with its name in messages."""
    if compiled.pattern is not None:
        yield "the pattern", compiled.pattern
    for part in compiled.composite.parts if compiled.composite is not None else ():
        yield f"the pattern of part {part.name}", part.pattern
    for rule in compiled.flow.cancel_on:
        yield "the pattern of cancel_on", rule.pattern


def references_of(compiled: CompiledTrigger) -> Iterator[Reference]:
    """Yield every path of a trigger."""
    deciding, every = _firing_kinds(compiled), _all_kinds(compiled)
    if compiled.template is not None:
        policy = compiled.buffer_policy
        several = policy is not None and policy.delivers_list
        roots = ("event", "data", "events") if several else ("event", "data")
        for expression in template_expressions(compiled.template.source):
            if isinstance(expression.operand, ValuePath):
                root, *steps = expression.operand.steps
                kinds = every if root == "events" else deciding
                yield Reference(
                    "the input template", str(root), tuple(steps), has_default(expression), kinds, roots
                )
    if compiled.condition is not None:
        yield from _expression_references(compiled.condition, deciding)
    for part in compiled.composite.parts if compiled.composite is not None else ():
        for expression in (part.condition, part.key):
            if expression is not None:
                yield from _expression_references(expression, kinds_of(part.pattern))
    for rule in compiled.flow.cancel_on:
        if rule.condition is not None:
            for found in _expression_references(rule.condition, kinds_of(rule.pattern)):
                kinds = deciding if found.root == "started" else found.kinds
                yield Reference(
                    "the condition of cancel_on", found.root, found.steps, found.optional, kinds, ()
                )
    controls = [getattr(compiled.flow, one.name) for one in fields(compiled.flow) if one.name != "cancel_on"]
    for expression in _expressions(controls):
        yield from _expression_references(expression, every)


def template_expressions(source: Any) -> Iterator[TemplateExpression]:
    """Yield the expressions in the texts of a template."""
    if isinstance(source, str):
        yield from (part for part in parse_text(source) if isinstance(part, TemplateExpression))
    elif isinstance(source, Mapping):
        for inner in source.values():
            yield from template_expressions(inner)
    elif isinstance(source, list | tuple):
        for inner in source:
            yield from template_expressions(inner)


def _expression_references(
    expression: Condition | ValueExpression, kinds: tuple[EventKind, ...]
) -> Iterator[Reference]:
    for path in expression.paths:
        root, *steps = path.steps
        yield Reference(expression.what, str(root), tuple(steps), path.tested, kinds, ())


def _expressions(values: Iterable[Any]) -> Iterator[Condition | ValueExpression]:
    """Yield the expressions anywhere in controls: a new control needs no change here."""
    for value in values:
        if isinstance(value, Condition | ValueExpression):
            yield value
        elif isinstance(value, list | tuple):
            yield from _expressions(value)
        elif is_dataclass(value):
            yield from _expressions(getattr(value, one.name) for one in fields(value))


def _firing_kinds(compiled: CompiledTrigger) -> tuple[EventKind, ...]:
    """The kinds of the event that decides a firing: ``event`` in the template."""
    if compiled.pattern is not None:
        return kinds_of(compiled.pattern)
    assert compiled.composite is not None
    if isinstance(compiled.composite.rule, Silence):
        return (_SILENCE,)
    return _kinds(part.pattern for part in compiled.composite.firing_parts)


def _all_kinds(compiled: CompiledTrigger) -> tuple[EventKind, ...]:
    """The kinds of all events that reach the trigger."""
    if compiled.composite is None:
        return _firing_kinds(compiled)
    kinds = _kinds(part.pattern for part in compiled.composite.parts)
    return tuple(dict.fromkeys((*kinds, *_firing_kinds(compiled))))


def _kinds(patterns: Iterable[Pattern]) -> tuple[EventKind, ...]:
    return tuple(dict.fromkeys(kind for pattern in patterns for kind in kinds_of(pattern)))

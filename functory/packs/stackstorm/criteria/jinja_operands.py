"""Operands in Jinja: ``{{ trigger.name }}`` takes a value from the event.

jinja2 compiles an operand in its immutable sandbox, which is narrowed here: only the nodes of ``_ALLOWED`` (no calls,
no macros, no imports, no multiplication), the filters of ``FILTERS``, and members and elements instead of attributes.
An operand is rendered at every event that reaches it, so its loops and the length of its texts are bounded, and every
value that it writes, compares or calculates with is counted in the evaluation's budget.

As in StackStorm an operand keeps its type where it can: each ``{{ … }}`` is written as JSON first, and if the whole
text is JSON then, its value is the operand. Otherwise the operand is the text.
"""

from __future__ import annotations

import functools
import operator
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from jinja2 import StrictUndefined, Template, TemplateError, Undefined, meta, nodes, pass_context
from jinja2.runtime import Context, LoopContext
from jinja2.sandbox import ImmutableSandboxedEnvironment
from jinja2.tests import TESTS

from functory.engine.errors import Invalid
from functory.engine.serialization import json_codec
from functory.packs.stackstorm.criteria.evaluation_budget import STEP_COST, EvaluationBudget, Spent
from functory.packs.stackstorm.criteria.operators import NotApplicable
from functory.triggers.patterns.formatting import format_value

MAX_SOURCE = 4096
# Python's own parser takes 200 nested brackets, and each level of an operand becomes one or two of them.
MAX_NESTING = 60
# Elements that loops may visit, each counted once for every node of the loop's body.
MAX_STEPS = 10_000
MAX_CHARACTERS = 65_536

_OPENED = re.compile(r"\{\{|\{%")
_FORMAT = re.compile(r"(?:[^%]|%[sd%])*")
_LOOP_MEMBERS = frozenset({"index", "index0", "first", "last", "length"})
# Names that no template can write.
_STEPS, _BOUNDED, _BUDGET, _COUNTED = "loop steps", "bounded loop", "evaluation budget", "counted value"

_ALLOWED = frozenset({
    nodes.Template, nodes.Output, nodes.TemplateData, nodes.Const, nodes.Name, nodes.Getattr, nodes.Getitem,
    nodes.For, nodes.If, nodes.CondExpr, nodes.Compare, nodes.Operand, nodes.And, nodes.Or, nodes.Not,
    nodes.Neg, nodes.Add, nodes.Sub, nodes.Mod, nodes.Filter, nodes.Test, nodes.List, nodes.Tuple,
})  # fmt: skip


@dataclass(frozen=True)
class Operand:
    """A compiled operand. ``names`` are the names of the context that it reads."""

    source: str
    names: frozenset[str]
    as_json: Template
    as_text: Template

    def render(self, context: Mapping[str, Any], budget: EvaluationBudget) -> Any:
        """The operand's value for this context.

        Raises :class:`NotApplicable` when a path has no value or a bound is reached, and :class:`Spent`.
        """
        try:
            return json_codec.loads(_render(self.as_json, context, budget))
        except Invalid:
            return _render(self.as_text, context, budget)


def is_dynamic(operand: Any) -> bool:
    """True if the operand is a template."""
    return isinstance(operand, str) and _OPENED.search(operand) is not None


@functools.lru_cache(maxsize=1024)
def compile_operand(source: str) -> Operand:
    """Compile an operand. Raises :class:`Invalid` that names the unsupported part."""
    if len(source) > MAX_SOURCE:
        raise Invalid(
            "the pattern is too long", f"a pattern with {{{{ }}}} has at most {MAX_SOURCE} characters"
        )
    try:
        as_json, as_text = _checked(_JSON, source), _checked(_TEXT, source)
        names = frozenset(meta.find_undeclared_variables(as_json))
        return Operand(source, names, _JSON.from_string(as_json), _TEXT.from_string(as_text))
    except (TemplateError, SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise Invalid(
            f"the pattern {format_value(source)} is not understood",
            str(error)[:200],
            "write a path, such as {{ trigger.body.name }}",
        ) from None


def _checked(environment: _Environment, source: str) -> nodes.Template:
    parsed = environment.parse(source)
    _check(parsed, 0)
    return parsed


def _check(node: nodes.Node, depth: int) -> None:
    """Refuse nodes that are not allowed, and make loops count their elements, and comparisons their values."""
    if type(node) not in _ALLOWED or (isinstance(node, nodes.For) and node.recursive):
        raise ValueError(f"{type(node).__name__.lower()} is not allowed in criteria")
    if depth > MAX_NESTING:
        raise ValueError(f"the expression is nested too deeply: at most {MAX_NESTING} levels are allowed")
    for child in node.iter_child_nodes():
        _check(child, depth + 1)
    if isinstance(node, nodes.CondExpr) and node.expr2 is None:
        node.expr2 = nodes.Const("")
    if isinstance(node, nodes.For):
        size = nodes.Const(sum(1 for _ in node.find_all(nodes.Node)))
        node.iter = nodes.Filter(node.iter, _BOUNDED, [size], [], None, None)
    if isinstance(node, nodes.Compare):
        node.expr = nodes.Filter(node.expr, _COUNTED, [], [], None, None)
        for compared in node.ops:
            compared.expr = nodes.Filter(compared.expr, _COUNTED, [], [], None, None)


def _render(template: Template, context: Mapping[str, Any], budget: EvaluationBudget) -> str:
    left = MAX_CHARACTERS
    made: list[str] = []
    names = {**context, _STEPS: [MAX_STEPS], _BUDGET: budget}
    try:
        for piece in template.root_render_func(template.new_context(names)):
            left -= len(piece)
            if left < 0:
                raise _too_long()
            made.append(piece)
    except (NotApplicable, Spent):
        raise
    except Exception as error:
        # An error that an event causes in a template means no match; it never stops the router.
        raise NotApplicable(f"the pattern cannot be rendered: {str(error)[:200]}") from None
    return "".join(made)


def _member(value: Any, name: Any) -> Any:
    """A member of an object, an element of a list, or jinja2's undefined."""
    if isinstance(value, Mapping) and isinstance(name, str) and name in value:
        return value[name]
    if isinstance(value, list | tuple) and type(name) is int and -len(value) <= name < len(value):
        return value[name]
    if isinstance(value, LoopContext) and name in _LOOP_MEMBERS:
        return getattr(value, name)
    return StrictUndefined(f"there is no {format_value(name)} in {format_value(value)}")


@pass_context
def _bounded(context: Context, items: Any, size: int) -> list[Any]:
    if not isinstance(items, list | tuple | Mapping):
        raise NotApplicable(f"{format_value(items)} is not a list to loop over")
    steps = context.parent[_STEPS]
    steps[0] -= (len(items) + 1) * size
    if steps[0] < 0:
        raise NotApplicable(f"the pattern takes more than {MAX_STEPS:,} steps for this event")
    return list(items)


@pass_context
def _counted(context: Context, value: Any) -> Any:
    """The value, after all of it is counted: Python's comparison of two values may look at all of both."""
    context.parent[_BUDGET].spend_on_value(value)
    return value


def _calculate(context: Context, sign: str, left: Any, right: Any) -> Any:
    if sign == "%" and isinstance(left, str):
        _measure(context, [left, right])
        if not _FORMAT.fullmatch(left):
            raise NotApplicable(f"{format_value(left)} is not a format: %s, %d and %% are known")
        return left % (tuple(right) if isinstance(right, tuple | list) else (right,))
    texts = isinstance(left, str) and isinstance(right, str)
    if texts:
        _measure(context, [left, right])
    numbers = all(
        isinstance(side, float) or (isinstance(side, int) and abs(side) < 2**64) for side in (left, right)
    )
    if numbers or (texts and sign == "+"):
        return {"+": operator.add, "-": operator.sub, "%": operator.mod}[sign](left, right)
    raise NotApplicable(f"{format_value(left)} {sign} {format_value(right)} cannot be calculated")


@pass_context
def to_text(context: Context, value: Any) -> str:
    """The value as Jinja writes it. Raises :class:`NotApplicable` for a large one."""
    _measure(context, value)
    return value if isinstance(value, str) else str(value)


@pass_context
def to_json(context: Context, value: Any) -> str:
    """The value as JSON. Raises :class:`NotApplicable` for a large one."""
    _measure(context, value)
    return str(value) if isinstance(value, Undefined) else json_codec.dumps(value)


def _measure(context: Context, value: Any) -> None:
    """Refuse a large value before its text is made: an operand may name one part of the event many times."""
    budget: EvaluationBudget = context.parent[_BUDGET]
    left = MAX_CHARACTERS
    waiting = [value]
    while waiting:
        item = waiting.pop()
        size = len(item) if isinstance(item, str) else 1
        left -= size
        if left < 0:
            raise _too_long()
        budget.spend(STEP_COST + size)
        if isinstance(item, Mapping):
            waiting += [*item, *item.values()]
        elif isinstance(item, list | tuple):
            waiting += item


def _too_long() -> NotApplicable:
    return NotApplicable(f"the pattern becomes longer than {MAX_CHARACTERS:,} characters")


def _default(value: Any, other: Any = "", always: bool = False) -> Any:
    return other if isinstance(value, Undefined) or (always and not value) else value


def _as_text(change: Callable[[str], str]) -> Callable[[Context, Any], str]:
    return pass_context(lambda context, value: change(to_text(context, value)))


@pass_context
def _join(context: Context, value: Any, between: str = "") -> str:
    return between.join(to_text(context, item) for item in value)


FILTERS: dict[str, Callable[..., Any]] = {
    "default": _default,
    "d": _default,
    "lower": _as_text(str.lower),
    "upper": _as_text(str.upper),
    "trim": _as_text(str.strip),
    "string": to_text,
    "int": int,
    "float": float,
    "length": len,
    "count": len,
    "first": lambda value: _member(value, 0),
    "last": lambda value: _member(value, -1),
    "join": _join,
    # The value keeps its type anyway.
    "to_complex": lambda value: value,
    "to_json_string": to_json,
    "tojson": to_json,
}


class _Environment(ImmutableSandboxedEnvironment):
    intercepted_binops = frozenset({"+", "-", "%"})

    def __init__(self, write: Callable[..., str]) -> None:
        super().__init__(undefined=StrictUndefined, finalize=write)
        self.globals = {}
        self.filters = {**FILTERS, _BOUNDED: _bounded, _COUNTED: _counted}
        self.tests = {name: TESTS[name] for name in ("defined", "none")}

    def getattr(self, obj: Any, attribute: str) -> Any:
        return _member(obj, attribute)

    def getitem(self, obj: Any, argument: Any) -> Any:
        return _member(obj, argument)

    def call_binop(self, context: Context, operator: str, left: Any, right: Any) -> Any:
        return _calculate(context, operator, left, right)


_JSON, _TEXT = _Environment(to_json), _Environment(to_text)

"""Rendering of operands: a walk over the parts that ``functory.triggers.stackstorm_criteria.jinja_parser`` has read.

It looks up members and elements, never attributes, and calls nothing but its own filters. An operand is
rendered for every event that gets so far, so steps and letters are counted.
"""

from __future__ import annotations

import ast
import operator
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from functory.engine.serialization import json_codec
from functory.triggers.patterns.formatting import format_value
from functory.triggers.stackstorm_criteria.operators import NotApplicable

# A usual operand takes five steps.
MAX_STEPS = 10_000
MAX_CHARACTERS = 65_536

_FORMAT = re.compile(r"%(.?)", re.DOTALL)

LITERALS = {"true": True, "false": False, "none": None, "True": True, "False": False, "None": None}

ORDERS: dict[type, Callable[[Any, Any], bool]] = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.In: lambda a, b: a in b,
    ast.NotIn: lambda a, b: a not in b,
}


class _Nowhere(NotApplicable):
    """A path that leads to nothing."""


@dataclass(frozen=True)
class Output:
    """``{{ … }}``."""

    node: ast.expr
    text: str


@dataclass(frozen=True)
class For:
    """``{% for %}`` to its end."""

    name: str
    source: ast.expr
    body: tuple[Any, ...]


@dataclass(frozen=True)
class If:
    """``{% if %}`` to its end: conditions (None for else) with their parts."""

    branches: tuple[tuple[ast.expr | None, tuple[Any, ...]], ...]


def read_filter(node: ast.AST) -> tuple[str, list[ast.expr]]:
    """The name and the arguments of what stands behind ``|``; "?" for what is no filter."""
    match node:
        case ast.Name(id=name):
            return name, []
        case ast.Call(func=ast.Name(id=name), args=arguments, keywords=[]):
            return name, arguments
    return "?", []


class Renderer:
    """One rendering: the context, how a value is written, and what is left of the budget."""

    def __init__(self, context: Mapping[str, Any], write: Callable[[Any], str]) -> None:
        self.context = dict(context)
        self.write = write
        self.steps = MAX_STEPS
        self.characters_left = MAX_CHARACTERS

    def text(self, parts: Sequence[Any]) -> str:
        try:
            return "".join(self.pieces(parts))
        except RecursionError:
            raise NotApplicable("the pattern's value is nested too deeply") from None

    def pieces(self, parts: Sequence[Any]) -> list[str]:
        made: list[str] = []
        for part in parts:
            self.step()
            match part:
                case str():
                    made.append(part)
                case Output(node=node):
                    made.append(self.write(self.value(node)))
                case For(name=name, source=source, body=body):
                    made += self.loop(name, self.value(source), body)
                case If(branches=branches):
                    chosen = next(
                        (body for condition, body in branches if condition is None or self.value(condition)),
                        (),
                    )
                    made += self.pieces(chosen)
            if isinstance(part, str | Output):
                self.characters_left -= len(made[-1])
                if self.characters_left < 0:
                    raise NotApplicable(f"the pattern becomes longer than {MAX_CHARACTERS:,} letters")
        return made

    def loop(self, name: str, items: Any, body: Sequence[Any]) -> list[str]:
        if isinstance(items, Mapping):
            items = list(items)
        if not isinstance(items, list | tuple):
            raise NotApplicable(f"{format_value(items)} is not a list to loop over")
        before = self.context
        made: list[str] = []
        for index, item in enumerate(items):
            loop = {
                "index": index + 1,
                "index0": index,
                "first": index == 0,
                "last": index == len(items) - 1,
                "length": len(items),
            }
            self.context = before | {name: item, "loop": loop}
            made += self.pieces(body)
        self.context = before
        return made

    def step(self) -> None:
        self.steps -= 1
        if self.steps < 0:
            raise NotApplicable(f"the pattern takes more than {MAX_STEPS:,} steps for this event")

    def value(self, node: ast.AST) -> Any:
        self.step()
        match node:
            case ast.Constant(value=value):
                return value
            case ast.Name(id=name):
                if name in LITERALS:
                    return LITERALS[name]
                return _below(self.context, name, "the event")
            case ast.Attribute(value=inner, attr=name):
                return _below(self.value(inner), name, ast.unparse(inner))
            case ast.Subscript(value=inner, slice=index):
                return _below(self.value(inner), self.value(index), ast.unparse(inner))
            case ast.BinOp(left=left, op=ast.BitOr(), right=right):
                return self.filtered(left, right)
            case ast.BinOp(left=left, op=op, right=right):
                return _calculate(op, self.value(left), self.value(right))
            case ast.Compare(left=left, ops=[ast.Is() | ast.IsNot() as op], comparators=[ast.Name(id=test)]):
                return self.is_(left, test) == isinstance(op, ast.Is)
            case ast.Compare(left=left, ops=ops, comparators=others):
                return self.compared(self.value(left), ops, others)
            case ast.BoolOp(op=op, values=values):
                return self.either(isinstance(op, ast.Or), values)
            case ast.UnaryOp(op=ast.Not(), operand=inner):
                return not self.value(inner)
            case ast.UnaryOp(operand=inner):
                return _calculate(ast.Sub(), 0, self.value(inner))
            case ast.IfExp(test=test, body=body, orelse=orelse):
                return self.value(body if self.value(test) else orelse)
            case ast.List(elts=elements) | ast.Tuple(elts=elements):
                return [self.value(element) for element in elements]
        raise AssertionError(f"{type(node).__name__} was not refused when the pattern was read")

    def filtered(self, left: ast.expr, right: ast.expr) -> Any:
        name, arguments = read_filter(right)
        given = [self.value(argument) for argument in arguments]
        try:
            value = self.value(left)
        except _Nowhere:
            if name not in ("default", "d"):
                raise
            return given[0] if given else ""
        try:
            return FILTERS[name](value, *given)
        except (TypeError, ValueError, IndexError, OverflowError) as error:
            raise NotApplicable(
                f"the filter {name} cannot take {format_value(value)}: {str(error)[:100]}"
            ) from None

    def compared(self, first: Any, ops: Sequence[ast.cmpop], others: Sequence[ast.expr]) -> bool:
        for op, other in zip(ops, others, strict=True):
            second = self.value(other)
            try:
                if not ORDERS[type(op)](first, second):
                    return False
            except TypeError:
                raise NotApplicable(
                    f"{format_value(first)} and {format_value(second)} cannot be compared"
                ) from None
            first = second
        return True

    def either(self, any_: bool, values: Sequence[ast.expr]) -> Any:
        value: Any = None
        for node in values:
            value = self.value(node)
            if bool(value) == any_:
                return value
        return value

    def is_(self, left: ast.expr, test: str) -> bool:
        try:
            value = self.value(left)
        except _Nowhere:
            return False
        return test == "defined" or value is None


def _below(value: Any, step: Any, where: str) -> Any:
    if isinstance(value, Mapping) and isinstance(step, str) and step in value:
        return value[step]
    if isinstance(value, list | tuple) and type(step) is int and -len(value) <= step < len(value):
        return value[step]
    raise _Nowhere(f"{where} has no {format_value(step)}")


def _calculate(op: ast.operator, left: Any, right: Any) -> Any:
    if isinstance(op, ast.Mod) and isinstance(left, str):
        return _format(left, right if isinstance(right, tuple | list) else [right])
    texts = all(isinstance(side, str) for side in (left, right))
    if texts:
        _measure([left, right])
    numbers = all(
        isinstance(side, float) or (isinstance(side, int) and abs(side) < 2**64) for side in (left, right)
    )
    try:
        if isinstance(op, ast.Add) and (texts or numbers):
            return left + right
        if numbers:
            return left - right if isinstance(op, ast.Sub) else left % right
    except ZeroDivisionError:
        pass
    raise NotApplicable(f"{format_value(left)} and {format_value(right)} cannot be calculated with")


def _format(text: str, values: Sequence[Any]) -> str:
    left = list(values)
    _measure(left)

    def put(match: re.Match[str]) -> str:
        if match[1] == "%":
            return "%"
        if match[1] not in ("s", "d") or not left:
            raise NotApplicable(f"{format_value(text)} is not a format: %s and %d are, one for each value")
        value = left.pop(0)
        if match[1] == "d" and not isinstance(value, int | float):
            raise NotApplicable(f"%d does not take {format_value(value)}")
        return to_text(int(value) if match[1] == "d" else value)

    return _FORMAT.sub(put, text)


def to_text(value: Any) -> str:
    """The value as Jinja writes it. Raises :class:`Unfit` for a large one."""
    _measure(value)
    try:
        return value if isinstance(value, str) else str(value)
    except ValueError:
        raise NotApplicable(f"{format_value(value)} cannot be written") from None


def to_json(value: Any) -> str:
    """The value as JSON. Raises :class:`Unfit` for a large one."""
    _measure(value)
    return json_codec.dumps(value)


def _measure(value: Any) -> None:
    """Refuse what would be a long text, before it is made: an operand may name one part of the event many times."""
    left = MAX_CHARACTERS
    waiting = [value]
    while waiting:
        item = waiting.pop()
        left -= len(item) if isinstance(item, str) else 1
        if left < 0:
            raise NotApplicable(f"the pattern becomes longer than {MAX_CHARACTERS:,} letters")
        if isinstance(item, Mapping):
            waiting += [*item, *item.values()]
        elif isinstance(item, list | tuple):
            waiting += item


def _length(value: Any) -> int:
    if not isinstance(value, str | list | tuple | Mapping):
        raise TypeError("it has no length")
    return len(value)


FILTERS: dict[str, Callable[..., Any]] = {
    "default": lambda value, other="", always=False: other if always and not value else value,
    "d": lambda value, other="", always=False: other if always and not value else value,
    "lower": lambda value: to_text(value).lower(),
    "upper": lambda value: to_text(value).upper(),
    "trim": lambda value: to_text(value).strip(),
    "string": to_text,
    "int": int,
    "float": float,
    "length": _length,
    "count": _length,
    "first": lambda value: _below(value, 0, "it"),
    "last": lambda value: _below(value, -1, "it"),
    "join": lambda value, between="": between.join(to_text(item) for item in value),
    # The value keeps its type anyway.
    "to_complex": lambda value: value,
    "to_json_string": to_json,
    "tojson": to_json,
}

"""The part of Jinja that operands of criteria are written in, without any evaluation of Python.

``{{ trigger.name }}`` takes a value from the event. Beside paths there are literals, comparisons, ``and``,
``or``, ``not``, ``a if b else c``, ``+``, ``-``, ``%`` (also of a text, with ``%s`` and ``%d``), some
filters, ``{% for x in … %}`` with ``loop``, and ``{% if %}``. Python's parser reads the expressions; a walker
of our own looks up members and elements, never attributes, and calls nothing.

As in StackStorm an operand keeps its type when it can: each ``{{ … }}`` is written as JSON first, and when
the whole is JSON then, its value is the operand. Else it is the text.

An operand is rendered for every event that gets so far, so steps and letters are counted.
"""

from __future__ import annotations

import ast
import functools
import operator
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from engine import codec
from engine.errors import Invalid
from triggers.criteria.operators import Unfit
from triggers.patterns.wording import show

MAX_SOURCE = 4096
MAX_NESTING = 10
# A usual operand takes five steps.
MAX_STEPS = 10_000
MAX_LETTERS = 65_536

_PIECE = re.compile(r"\{\{-?(?P<value>.*?)-?\}\}|\{%-?(?P<tag>.*?)-?%\}|\{#.*?#\}", re.DOTALL)
_FOR = re.compile(r"for\s+(?P<name>[A-Za-z_]\w*)\s+in\s+(?P<rest>.+)", re.DOTALL)
_OPENED = re.compile(r"\{\{|\{%")
_FORMAT = re.compile(r"%(.?)", re.DOTALL)

_LITERALS = {"true": True, "false": False, "none": None, "True": True, "False": False, "None": None}

_ORDERS: dict[type, Callable[[Any, Any], bool]] = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.In: lambda a, b: a in b,
    ast.NotIn: lambda a, b: a not in b,
}


class _Nowhere(Unfit):
    """A path that leads to nothing."""


@dataclass(frozen=True)
class _Value:
    node: ast.expr
    text: str


@dataclass(frozen=True)
class _For:
    name: str
    source: ast.expr
    body: tuple[Any, ...]


@dataclass(frozen=True)
class _If:
    branches: tuple[tuple[ast.expr | None, tuple[Any, ...]], ...]


@dataclass(frozen=True)
class Operand:
    """A compiled operand. ``names`` are those of the context that it reads."""

    source: str
    parts: tuple[Any, ...]
    names: frozenset[str]

    def render(self, context: Mapping[str, Any]) -> Any:
        """The value for this context.

        Raises :class:`Unfit` where a path leads nowhere or the budget is spent.
        """
        try:
            return codec.loads(_Walk(context, codec.dumps).text(self.parts))
        except Invalid:
            return _Walk(context, _said).text(self.parts).removesuffix("\n")


def is_dynamic(operand: Any) -> bool:
    """Whether an operand is to be rendered."""
    return isinstance(operand, str) and _OPENED.search(operand) is not None


@functools.lru_cache(maxsize=1024)
def compile_operand(source: str) -> Operand:
    """Compile an operand. Raises :class:`Invalid` that shows the part that is not understood."""
    if len(source) > MAX_SOURCE:
        raise Invalid(
            "the pattern is too long", f"at most {MAX_SOURCE} letters with {{{{ }}}} in them are taken"
        )
    reader = _Reader(source)
    parts = reader.parts(())[0]
    return Operand(source, parts, frozenset(reader.names))


class _Reader:
    def __init__(self, source: str) -> None:
        self.names: set[str] = set()
        self.bound: list[str] = []
        self.depth = 0
        self.tokens: list[tuple[str, str]] = []
        at = 0
        for piece in _PIECE.finditer(source):
            before = source[at : piece.start()]
            self.tokens.append(("text", before.rstrip() if piece[0][2:3] == "-" else before))
            if piece["value"] is not None:
                self.tokens.append(("value", piece["value"].strip()))
            elif piece["tag"] is not None:
                self.tokens.append(("tag", piece["tag"].strip()))
            at = piece.end()
            if piece[0][-3:-2] == "-":
                at += len(source[at:]) - len(source[at:].lstrip())
        self.tokens.append(("text", source[at:]))
        if wrong := next(
            (text for kind, text in self.tokens if kind == "text" and _OPENED.search(text)), None
        ):
            raise Invalid(
                "the pattern has braces that are not closed", show(wrong), "write {{ trigger.name }}"
            )
        self.at = 0

    def parts(self, ends: tuple[str, ...]) -> tuple[tuple[Any, ...], str]:
        """The parts up to a tag that begins with one of ``ends``, and that tag."""
        self.depth += 1
        if self.depth > MAX_NESTING:
            raise Invalid("the pattern is nested too deeply", f"at most {MAX_NESTING} levels are taken")
        found: list[Any] = []
        while self.at < len(self.tokens):
            kind, text = self.tokens[self.at]
            self.at += 1
            if kind == "text":
                found += [text] if text else []
            elif kind == "value":
                found.append(_Value(self.expression(text), text))
            elif (word := text.split(None, 1)[0] if text else "") in ends:
                self.depth -= 1
                return tuple(found), text
            elif word == "for":
                found.append(self.loop(text))
            elif word == "if":
                found.append(self.choice(text))
            else:
                raise Invalid(
                    f"the pattern has the tag {show(text)}",
                    "only for and if are understood, each with its end",
                )
        if ends:
            raise Invalid("the pattern has a tag that is not closed", f"{ends[-1]} is missing")
        return tuple(found), ""

    def loop(self, text: str) -> _For:
        match = _FOR.fullmatch(text)
        if match is None:
            raise Invalid(
                f"the pattern has the tag {show(text)}", "a loop is written {% for x in trigger.list %}"
            )
        source = self.expression(match["rest"])
        self.bound += [match["name"], "loop"]
        body, _ = self.parts(("endfor",))
        del self.bound[-2:]
        return _For(match["name"], source, body)

    def choice(self, text: str) -> _If:
        branches: list[tuple[ast.expr | None, tuple[Any, ...]]] = []
        while True:
            word, _, rest = text.partition(" ")
            condition = None if word == "else" else self.expression(rest)
            body, text = self.parts(("elif", "else", "endif") if word != "else" else ("endif",))
            branches.append((condition, body))
            if text.startswith("endif"):
                return _If(tuple(branches))

    def expression(self, text: str) -> ast.expr:
        node = _parse(text)
        self.check(node, text)
        return node

    def check(self, node: ast.AST, text: str) -> None:
        """Refuse what the walker would not understand, when the criteria are saved and not at each event."""
        match node:
            case ast.Name(id=name):
                if name not in _LITERALS and name not in self.bound:
                    self.names.add(name)
                return
            case ast.Constant(value=str() | bool() | int() | float() | None):
                return
            case ast.BinOp(left=left, op=ast.BitOr(), right=right):
                name, arguments = _filter(right)
                if name not in _FILTERS:
                    raise _unknown(f'the filter "{name}"', text, "known are " + ", ".join(_FILTERS))
                if isinstance(left, ast.BinOp) and not isinstance(left.op, ast.BitOr):
                    raise _unknown(
                        "a filter behind a calculation", text, "Jinja would filter the last operand only"
                    )
                children: Sequence[ast.AST] = [left, *arguments]
            case ast.BinOp(left=left, op=ast.Add() | ast.Sub() | ast.Mod(), right=right):
                children = [left, right]
            case ast.Compare(left=left, ops=ops, comparators=others) if all(
                type(op) in _ORDERS for op in ops
            ):
                children = [left, *others]
            case ast.Compare(
                left=left, ops=[ast.Is() | ast.IsNot()], comparators=[ast.Name(id="defined" | "none")]
            ):
                children = [left]
            case ast.BoolOp(values=values):
                children = values
            case ast.UnaryOp(op=ast.Not() | ast.USub(), operand=inner):
                children = [inner]
            case ast.IfExp(test=test, body=body, orelse=orelse):
                children = [test, body, orelse]
            case ast.Attribute(value=inner):
                children = [inner]
            case ast.Subscript(value=inner, slice=index) if not isinstance(index, ast.Slice):
                children = [inner, index]
            case ast.List(elts=elements) | ast.Tuple(elts=elements):
                children = elements
            case _:
                raise _unknown(type(node).__name__, text, "write a path, such as {{ trigger.body.name }}")
        for child in children:
            self.check(child, text)


def _parse(text: str) -> ast.expr:
    # In Jinja the else of a choice may be left out, and is an empty text.
    for written in (text, f"{text} else ''"):
        try:
            return ast.parse(written, mode="eval").body
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            continue
    raise _unknown("what", text, "write a path, such as {{ trigger.body.name }}")


def _unknown(what: str, text: str, mend: str) -> Invalid:
    return Invalid(
        f"{what} in {show(text)} is not understood",
        "criteria take a part of Jinja: paths, comparisons, some filters",
        mend,
    )


def _filter(node: ast.AST) -> tuple[str, list[ast.expr]]:
    match node:
        case ast.Name(id=name):
            return name, []
        case ast.Call(func=ast.Name(id=name), args=arguments, keywords=[]):
            return name, arguments
    return "?", []


class _Walk:
    """One rendering: the context, how a value is written, and what is left of the budget."""

    def __init__(self, context: Mapping[str, Any], write: Callable[[Any], str]) -> None:
        self.context = dict(context)
        self.write = write
        self.steps = MAX_STEPS
        self.letters = MAX_LETTERS

    def text(self, parts: Sequence[Any]) -> str:
        try:
            return "".join(self.pieces(parts))
        except RecursionError:
            raise Unfit("the pattern's value is nested too deeply") from None

    def pieces(self, parts: Sequence[Any]) -> list[str]:
        made: list[str] = []
        for part in parts:
            self.step()
            match part:
                case str():
                    made.append(part)
                case _Value(node=node):
                    made.append(self.write(self.value(node)))
                case _For(name=name, source=source, body=body):
                    made += self.loop(name, self.value(source), body)
                case _If(branches=branches):
                    chosen = next(
                        (body for condition, body in branches if condition is None or self.value(condition)),
                        (),
                    )
                    made += self.pieces(chosen)
            if isinstance(part, str | _Value):
                self.letters -= len(made[-1])
                if self.letters < 0:
                    raise Unfit(f"the pattern becomes longer than {MAX_LETTERS:,} letters")
        return made

    def loop(self, name: str, items: Any, body: Sequence[Any]) -> list[str]:
        if isinstance(items, Mapping):
            items = list(items)
        if not isinstance(items, list | tuple):
            raise Unfit(f"{show(items)} is not a list to loop over")
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
            raise Unfit(f"the pattern takes more than {MAX_STEPS:,} steps for this event")

    def value(self, node: ast.AST) -> Any:
        self.step()
        match node:
            case ast.Constant(value=value):
                return value
            case ast.Name(id=name):
                if name in _LITERALS:
                    return _LITERALS[name]
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
        name, arguments = _filter(right)
        given = [self.value(argument) for argument in arguments]
        try:
            value = self.value(left)
        except _Nowhere:
            if name not in ("default", "d"):
                raise
            return given[0] if given else ""
        try:
            return _FILTERS[name](value, *given)
        except (TypeError, ValueError, IndexError, OverflowError) as error:
            raise Unfit(f"the filter {name} cannot take {show(value)}: {str(error)[:100]}") from None

    def compared(self, first: Any, ops: Sequence[ast.cmpop], others: Sequence[ast.expr]) -> bool:
        for op, other in zip(ops, others, strict=True):
            second = self.value(other)
            try:
                if not _ORDERS[type(op)](first, second):
                    return False
            except TypeError:
                raise Unfit(f"{show(first)} and {show(second)} cannot be compared") from None
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
    raise _Nowhere(f"{where} has no {show(step)}")


def _calculate(op: ast.operator, left: Any, right: Any) -> Any:
    if isinstance(op, ast.Mod) and isinstance(left, str):
        return _format(left, right if isinstance(right, tuple | list) else [right])
    texts = all(isinstance(side, str) for side in (left, right))
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
    raise Unfit(f"{show(left)} and {show(right)} cannot be calculated with")


def _format(text: str, values: Sequence[Any]) -> str:
    left = list(values)

    def put(match: re.Match[str]) -> str:
        if match[1] == "%":
            return "%"
        if match[1] not in ("s", "d") or not left:
            raise Unfit(f"{show(text)} is not a format: %s and %d are, one for each value")
        value = left.pop(0)
        if match[1] == "d" and not isinstance(value, int | float):
            raise Unfit(f"%d does not take {show(value)}")
        return _said(int(value) if match[1] == "d" else value)

    return _FORMAT.sub(put, text)


def _said(value: Any) -> str:
    try:
        return value if isinstance(value, str) else str(value)
    except ValueError:
        raise Unfit(f"{show(value)} cannot be written") from None


def _length(value: Any) -> int:
    if not isinstance(value, str | list | tuple | Mapping):
        raise TypeError("it has no length")
    return len(value)


_FILTERS: dict[str, Callable[..., Any]] = {
    "default": lambda value, other="", always=False: other if always and not value else value,
    "d": lambda value, other="", always=False: other if always and not value else value,
    "lower": lambda value: _said(value).lower(),
    "upper": lambda value: _said(value).upper(),
    "trim": lambda value: _said(value).strip(),
    "string": _said,
    "int": int,
    "float": float,
    "length": _length,
    "count": _length,
    "first": lambda value: _below(value, 0, "it"),
    "last": lambda value: _below(value, -1, "it"),
    "join": lambda value, between="": between.join(_said(item) for item in value),
    # The value keeps its type anyway.
    "to_complex": lambda value: value,
    "to_json_string": codec.dumps,
    "tojson": codec.dumps,
}

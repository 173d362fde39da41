"""The part of Jinja that operands of criteria are written in, without any evaluation of Python.

``{{ trigger.name }}`` takes a value from the event. Beside paths there are literals, comparisons, ``and``,
``or``, ``not``, ``a if b else c``, ``+``, ``-``, ``%`` (also of a text, with ``%s`` and ``%d``), some
filters, ``{% for x in … %}`` with ``loop``, and ``{% if %}``. Python's parser reads the expressions; a walker
of our own looks up members and elements, never attributes, and calls nothing.

As in StackStorm an operand keeps its type when it can: each ``{{ … }}`` is written as JSON first, and when
the whole is JSON then, its value is the operand. Else it is the text.
"""

from __future__ import annotations

import ast
import functools
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from functory.engine.errors import Invalid
from functory.engine.serialization import json_codec
from functory.triggers.patterns.formatting import format_value
from functory.triggers.stackstorm_criteria.jinja_renderer import (
    FILTERS,
    LITERALS,
    ORDERS,
    For,
    If,
    Output,
    Renderer,
    read_filter,
    to_json,
    to_text,
)

MAX_SOURCE = 4096
MAX_NESTING = 10

_PIECE = re.compile(r"\{\{-?(?P<value>.*?)-?\}\}|\{%-?(?P<tag>.*?)-?%\}|\{#.*?#\}", re.DOTALL)
_FOR = re.compile(r"for\s+(?P<name>[A-Za-z_]\w*)\s+in\s+(?P<rest>.+)", re.DOTALL)
_OPENED = re.compile(r"\{\{|\{%")


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
            return json_codec.loads(Renderer(context, to_json).text(self.parts))
        except Invalid:
            return Renderer(context, to_text).text(self.parts).removesuffix("\n")


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
                "the pattern has braces that are not closed", format_value(wrong), "write {{ trigger.name }}"
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
                found.append(Output(self.expression(text), text))
            elif (word := text.split(None, 1)[0] if text else "") in ends:
                self.depth -= 1
                return tuple(found), text
            elif word == "for":
                found.append(self.loop(text))
            elif word == "if":
                found.append(self.choice(text))
            else:
                raise Invalid(
                    f"the pattern has the tag {format_value(text)}",
                    "only for and if are understood, each with its end",
                )
        if ends:
            raise Invalid("the pattern has a tag that is not closed", f"{ends[-1]} is missing")
        return tuple(found), ""

    def loop(self, text: str) -> For:
        match = _FOR.fullmatch(text)
        if match is None:
            raise Invalid(
                f"the pattern has the tag {format_value(text)}",
                "a loop is written {% for x in trigger.list %}",
            )
        source = self.expression(match["rest"])
        self.bound += [match["name"], "loop"]
        body, _ = self.parts(("endfor",))
        del self.bound[-2:]
        return For(match["name"], source, body)

    def choice(self, text: str) -> If:
        branches: list[tuple[ast.expr | None, tuple[Any, ...]]] = []
        while True:
            word, _, rest = text.partition(" ")
            condition = None if word == "else" else self.expression(rest)
            body, text = self.parts(("elif", "else", "endif") if word != "else" else ("endif",))
            branches.append((condition, body))
            if text.startswith("endif"):
                return If(tuple(branches))

    def expression(self, text: str) -> ast.expr:
        node = _parse(text)
        self.check(node, text)
        return node

    def check(self, node: ast.AST, text: str) -> None:
        """Refuse what the walker would not understand, when the criteria are saved and not at each event."""
        match node:
            case ast.Name(id=name):
                if name not in LITERALS and name not in self.bound:
                    self.names.add(name)
                return
            case ast.Constant(value=str() | bool() | int() | float() | None):
                return
            case ast.BinOp(left=left, op=ast.BitOr(), right=right):
                name, arguments = read_filter(right)
                if name not in FILTERS:
                    raise _unknown(f'the filter "{name}"', text, "known are " + ", ".join(FILTERS))
                if isinstance(left, ast.BinOp) and not isinstance(left.op, ast.BitOr):
                    raise _unknown(
                        "a filter behind a calculation", text, "Jinja would filter the last operand only"
                    )
                children: Sequence[ast.AST] = [left, *arguments]
            case ast.BinOp(left=left, op=ast.Add() | ast.Sub() | ast.Mod(), right=right):
                children = [left, right]
            case ast.Compare(left=left, ops=ops, comparators=others) if all(type(op) in ORDERS for op in ops):
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
        f"{what} in {format_value(text)} is not understood",
        "criteria take a part of Jinja: paths, comparisons, some filters",
        mend,
    )

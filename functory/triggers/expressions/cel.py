"""The CEL library, with bounds on the work of an evaluation.

CEL (https://cel.dev) has no endless loops, but an expression can still cost much time. An evaluation is bounded by
CEL's own 10,000 iterations, by the rules of ``functory.triggers.expressions.cost`` for the lists that a macro may walk,
and by an estimate of the work from the size of its input.

The library ends a text at a NUL, has no lone surrogates, and holds integers of 64 bits only. Such a value would be
another one in the expression, so it is refused. Only what an expression reads is given to the library: what else an
event holds changes nothing.

Only this module uses the library. It has 52 MB, so it is loaded when the first expression is compiled.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Mapping
from functools import cache
from math import prod
from typing import Any

from functory.engine.errors import Invalid
from functory.triggers.expressions.cost import Shape, read_shape
from functory.triggers.expressions.paths import (
    ExpressionPath,
    ReadMembers,
    read_members,
    read_paths,
    read_regex_paths,
)

MAX_TEXT = 2048
# The library converts values recursively in C++ and dies on a very deep one.
MAX_DEPTH = 200
# Maximum number of characters read: about half a second. A usual expression reads some thousand.
MAX_WORK = 200_000_000
# Comparing one value takes as long as reading this number of characters of a text.
VALUE_COST = 16
# The integers that the library holds: int64 and uint64.
INTEGERS = range(-(2**63), 2**64)
# The most repetitions in a regular expression: {5}, {2,5}, {5,}.
_REPETITION = re.compile(r"\{(?:\d{1,9},)?(\d{1,9}),?\}")


class EvaluationError(Exception):
    """An evaluation gave no value. ``kind``: ``error`` (missing member, wrong types), ``budget`` (too much work)."""

    def __init__(self, problem: str, kind: str = "error") -> None:
        super().__init__(problem)
        self.problem = problem
        self.kind = kind


class Expression:
    """A compiled expression over named JSON values. Immutable; may be evaluated from any thread."""

    __slots__ = (
        "_expression",
        "_read",
        "_regex_paths",
        "_shape",
        "_states",
        "kind",
        "names",
        "paths",
        "syntax",
        "text",
        "what",
    )

    def __init__(self, text: str, what: str, names: tuple[str, ...], expression: Any, syntax: bytes) -> None:
        self.text = text
        self.what = what
        self.names = names
        self.kind: str = expression.return_type().name()
        self._expression = expression
        self._shape: Shape = read_shape(syntax)
        self._states = sum(map(_count_states, text.split("matches(")[1:]))
        self._regex_paths = _regex_paths(syntax, what)
        self.paths: tuple[ExpressionPath, ...] = read_paths(syntax)
        self._read: ReadMembers = read_members(self.paths)
        self.syntax = syntax

    def evaluate(self, variables: Mapping[str, Any], given: Mapping[str, Any]) -> tuple[Any, str]:
        """The value and CEL's name of its type.

        ``variables`` are JSON values, of which those that the expression reads are measured; ``given`` are passed
        unchanged (a timestamp). Raises :class:`EvaluationError`, nothing else, also for a value that the library would
        change.
        """
        try:
            measure = Measure()
            taken = measure.take(variables, self._read)
            states = self._states + sum(_regex_cost(variables, path) for path in self._regex_paths)
            work = self._shape.work(measure.size, measure.longest) + states * measure.size
            if work > MAX_WORK:
                raise EvaluationError(
                    f"{self.what} might look at {work:,} characters for this event (limit {MAX_WORK:,}); "
                    "walk a shorter list, or test it in the function",
                    "budget",
                )
            with _lock:
                value = self._expression.eval(data=taken | dict(given))
                answer, kind = value.plain_value(), value.type().name()
        except EvaluationError:
            raise
        except Exception as error:
            raise self._failed(str(error) or type(error).__name__) from None
        if kind == "ERROR":
            raise self._failed(str(answer))
        return answer, kind

    def _failed(self, message: str) -> EvaluationError:
        if "budget exceeded" in message:
            return EvaluationError(f"{self.what} takes more than 10,000 steps for this event", "budget")
        problem = clean_message(message)
        if "Key not found" in problem:
            problem += "; test with has(...) first"
        return EvaluationError(problem)


def _count_states(regex: str) -> int:
    """Return how often a regular expression may look at one character: its repetitions, multiplied."""
    return prod(int(number) for number in _REPETITION.findall(regex))


def _regex_paths(syntax: bytes, what: str) -> tuple[tuple[str | int, ...], ...]:
    found = read_regex_paths(syntax)
    if found is None:
        raise Invalid(
            f"{what} makes a regular expression itself",
            "matches() may take one that is written in it, or one member of the event, so that its cost can be counted",
            'write it out, as matches("a|b"), or use startsWith(), endsWith() or contains()',
        )
    return found


def _regex_cost(variables: Mapping[str, Any], path: tuple[str | int, ...]) -> int:
    """Return how often the regular expression at a path may look at one character. Raises :class:`EvaluationError` for
    one that is too long to be compiled.
    """
    found: Any = variables
    for step in path:
        inside = isinstance(found, Mapping) if isinstance(step, str) else isinstance(found, list | tuple)
        try:
            found = found[step] if inside else None
        except (KeyError, IndexError):
            found = None
    if not isinstance(found, str):
        return 0
    if len(found) > MAX_TEXT:
        raise EvaluationError(
            f"the regular expression in {path[0]} has {len(found):,} characters (limit {MAX_TEXT:,})",
            "budget",
        )
    return len(found) * _count_states(found)


# Whether the library's objects may be shared between threads is not documented. It holds Python's global lock
# anyway.
_lock = threading.Lock()


def compile_expression(
    text: str, what: str, names: tuple[str, ...], timestamps: tuple[str, ...], example: str
) -> Expression:
    """Compile ``text`` over the variables ``names`` and ``timestamps``.

    ``what`` is its name in messages ("the condition"). Raises :class:`Invalid`: too long, not CEL (with CEL's own
    message), or a macro over a list that the expression builds.
    """
    try:
        size = len(text.encode())
    except UnicodeEncodeError as error:
        raise Invalid(f"{what} is not valid text", str(error.reason), "remove the broken character") from None
    if size > MAX_TEXT:
        raise Invalid(
            f"{what} is too long: {size} bytes",
            f"at most {MAX_TEXT} are allowed",
            "move the test into the pattern or the function",
        )
    with _lock:
        environment = _environment(names, timestamps)
        try:
            expression = environment.compile(text)
            syntax = expression.serialize()
        except Exception as error:
            known = [*names, *timestamps]
            raise Invalid(
                f"{what} is not valid CEL",
                clean_message(str(error)),
                f"the variables are {', '.join(known[:-1])} and {known[-1]}; for example: {example}",
            ) from None
    return Expression(text, what, names, expression, syntax)


@cache
def _environment(names: tuple[str, ...], timestamps: tuple[str, ...]) -> Any:
    from cel_expr_python import cel

    variables: dict[str, Any] = dict.fromkeys(names, cel.Type.DYN)
    return cel.NewEnv(variables=variables | dict.fromkeys(timestamps, cel.Type.TIMESTAMP))


def clean_message(message: str) -> str:
    """CEL's message without the status codes around it."""
    return re.sub(r"^[A-Z_]+: (?:ERROR: )?|\s*\[[A-Z_]+\]$", "", message).replace("<input>:", "")[:1000]


class Measure:
    """Makes JSON values safe for the library, and measures them on the way."""

    def __init__(self) -> None:
        self.size = 0
        self.longest = 0

    def take(self, source: Mapping[str, Any], read: ReadMembers) -> dict[str, Any]:
        """The members of ``source`` that are ``read``. Raises ValueError for a value that the library would change."""
        return {
            name: self._value(source[name], 0) if below is None else self._members(source[name], below)
            for name, below in read.items()
            if name in source
        }

    def _members(self, value: Any, read: ReadMembers) -> Any:
        return self.take(value, read) if isinstance(value, Mapping) else self._value(value, 0)

    def _value(self, value: Any, depth: int) -> Any:
        self.size += VALUE_COST
        kind = type(value)
        if kind is str:
            return self._text(value)
        if value is None or kind is bool or kind is float:
            return value
        if kind is int:
            if value not in INTEGERS:
                raise ValueError(
                    f"{_shown(value)} is an integer beyond 64 bits, which an expression cannot read"
                )
            return value
        if depth > MAX_DEPTH:
            raise ValueError(f"the event is nested more than {MAX_DEPTH} deep")
        if isinstance(value, Mapping):
            self.longest = max(self.longest, len(value))
            made = {}
            changed = kind is not dict
            for name, inner in value.items():
                if not isinstance(name, str):
                    raise ValueError(f"the event has a member name that is a {type(name).__name__}")
                taken = self._value(inner, depth + 1)
                changed = changed or taken is not inner
                made[self._text(name)] = taken
            return made if changed else value
        if isinstance(value, list | tuple):
            self.longest = max(self.longest, len(value))
            elements = [self._value(inner, depth + 1) for inner in value]
            same = kind is list and all(a is b for a, b in zip(elements, value, strict=True))
            return value if same else elements
        for base in (str, int, float):
            if isinstance(value, base):
                return self._value(base(value), depth)
        raise ValueError(f"the event holds a {kind.__name__}, which is not JSON")

    def _text(self, text: str) -> str:
        self.size += len(text)
        if "\0" in text:
            raise ValueError(f"the text {_shown(text)} holds a NUL, which an expression cannot read")
        if not text.isascii():
            try:
                text.encode()
            except UnicodeEncodeError:
                raise ValueError(
                    f"the text {_shown(text)} holds half a surrogate pair, which an expression cannot read"
                ) from None
        return text


def _shown(value: int | str) -> str:
    if isinstance(value, int):
        # The digits of a very long integer take long to compute.
        return str(value) if value.bit_length() < 200 else "a number in the event"
    text = ascii(value)
    return text if len(text) <= 60 else text[:59] + "…"

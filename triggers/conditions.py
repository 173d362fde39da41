"""Conditions: the question that a pattern cannot ask, as an expression in CEL.

A trigger may carry ``when``, a text in the Common Expression Language (https://cel.dev), which is looked at
after the pattern has matched::

    data.output.stock < 3 && event.source.startsWith("functory/")

The variables are ``event`` (the whole envelope), ``data`` (``event.data``), ``now`` (a timestamp) and
``vars`` (values that the caller adds).

CEL has no loops that do not end, but it can still be made to work hard. An evaluation is bounded by CEL's own
10,000 iterations, by the rules of ``triggers.expressions`` for what a macro may walk, and by an estimate of
the work from the size of the event. An error, an answer that is not true or false, or a spent budget is *no
match* with its reason, never an exception: an event that comes from outside cannot stop the router.

This is the only module that knows the CEL library. It is 52 MB, so it is loaded when the first condition is
compiled.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any, Literal

from engine.errors import Invalid
from triggers.expressions import Shape, read_shape

MAX_TEXT = 2048
# The library converts values recursively in C++ and dies on a very deep one.
MAX_DEPTH = 200
# Characters looked at, at most: about half a second. A usual condition looks at some thousand.
MAX_WORK = 200_000_000
# To compare one value takes as long as to look at this many characters of a text.
VALUE = 16
INT64 = range(-(2**63), 2**63)


@dataclass(frozen=True, slots=True)
class Verdict:
    """The answer to a condition. Where there is none, ``matched`` is False and ``problem`` says why.

    ``kind`` of the problem: ``error`` (missing member, wrong types), ``non_bool`` (the value is not true or
    false), ``budget`` (too much work).
    """

    matched: bool
    problem: str | None = None
    kind: Literal["error", "non_bool", "budget"] | None = None


class Condition:
    """A compiled condition. Immutable; ``holds`` may be called from any thread."""

    __slots__ = ("_expression", "_shape", "text")

    def __init__(self, text: str, expression: Any, shape: Shape) -> None:
        self.text = text
        self._expression = expression
        self._shape = shape

    def holds(self, event: Mapping[str, Any], now: datetime, vars: Mapping[str, Any]) -> Verdict:  # noqa: A002
        """Return the verdict on ``event`` (the envelope) at ``now`` (aware, or taken as UTC). Never raises.

        Integers beyond 64 bits are compared as doubles; half a surrogate pair counts as U+FFFD.
        """
        try:
            measure = _Measure()
            envelope, own = measure.take(event), measure.take(vars)
            work = self._shape.work(measure.size, measure.longest)
            if work > MAX_WORK:
                return Verdict(
                    False,
                    f"the condition might look at {work:,} characters for this event (limit {MAX_WORK:,}); "
                    "walk a shorter list, or test it in the function",
                    "budget",
                )
            variables = {
                "event": envelope,
                "data": envelope.get("data"),
                "now": now if now.tzinfo else now.replace(tzinfo=UTC),
                "vars": own,
            }
            with _lock:
                value = self._expression.eval(data=variables)
                answer, kind = value.value(), value.type().name()
        except Exception as error:
            return _failed(str(error) or type(error).__name__)
        if isinstance(answer, bool):
            return Verdict(answer)
        if kind == "ERROR":
            return _failed(str(answer))
        return Verdict(False, f"the value is of type {kind.lower()}, not true or false", "non_bool")


# Whether the library's objects may be shared between threads is not documented. It holds Python's global lock
# anyway.
_lock = threading.Lock()
_environment: Any = None


def compile_condition(text: str) -> Condition:
    """Compile a condition; the same text gives the same object.

    Raises Invalid: too long, not CEL (with CEL's own message), a value that cannot be true or false, or
    macros that may not be walked.
    """
    if not isinstance(text, str):
        raise Invalid(
            "the condition is not a text",
            f"it is a {type(text).__name__}",
            'write it in quotes, such as "data.stock < 3"',
        )
    return _compile(text)


@lru_cache(maxsize=4096)
def _compile(text: str) -> Condition:
    try:
        size = len(text.encode())
    except UnicodeEncodeError as error:
        raise Invalid(
            "the condition is not valid text", str(error.reason), "remove the broken character"
        ) from None
    if size > MAX_TEXT:
        raise Invalid(
            f"the condition is too long: {size} bytes",
            f"at most {MAX_TEXT} are allowed",
            "move the test into the pattern or the function",
        )
    with _lock:
        environment = _load()
        try:
            expression = environment.compile(text)
            kind, syntax = expression.return_type().name(), expression.serialize()
        except Exception as error:
            raise Invalid(
                "the condition is not valid CEL",
                _plain(str(error)),
                "the variables are event, data, now and vars; for example: has(data.stock) && data.stock < 3",
            ) from None
    if kind not in ("BOOL", "DYN"):
        raise Invalid(
            "the condition does not answer yes or no",
            f"its value is of type {kind.lower()}",
            "compare it with something, such as: data.stock < 3",
        )
    return Condition(text, expression, read_shape(syntax))


def _load() -> Any:
    global _environment
    if _environment is None:
        from cel_expr_python import cel

        dyn = cel.Type.DYN
        _environment = cel.NewEnv(
            variables={"event": dyn, "data": dyn, "now": cel.Type.TIMESTAMP, "vars": dyn}
        )
    return _environment


def _failed(message: str) -> Verdict:
    if "budget exceeded" in message:
        return Verdict(False, "the condition takes more than 10,000 steps for this event", "budget")
    problem = _plain(message)
    if "Key not found" in problem:
        problem += "; test with has(...) first"
    return Verdict(False, problem, "error")


def _plain(message: str) -> str:
    """Return CEL's message without the status codes around it."""
    return re.sub(r"^[A-Z_]+: (?:ERROR: )?|\s*\[[A-Z_]+\]$", "", message).replace("<input>:", "")[:1000]


class _Measure:
    """Makes JSON values safe for the library, and measures them on the way."""

    def __init__(self) -> None:
        self.size = 0
        self.longest = 0

    def take(self, source: Mapping[str, Any]) -> dict[str, Any]:
        """Return ``source`` itself where nothing needs a change, else a changed copy. Raises ValueError."""
        if not isinstance(source, Mapping):
            raise ValueError(f"the event is not an object but {type(source).__name__}")
        return self._value(source, 0)

    def _value(self, value: Any, depth: int) -> Any:
        self.size += VALUE
        kind = type(value)
        if kind is str:
            return self._text(value)
        if value is None or kind is bool or kind is float:
            return value
        if kind is int:
            return value if value in INT64 else _double(value)
        if depth > MAX_DEPTH:
            raise ValueError(f"the event is nested more than {MAX_DEPTH} deep")
        if isinstance(value, Mapping):
            self.longest = max(self.longest, len(value))
            made = {}
            changed = kind is not dict
            for name, inner in value.items():
                if not isinstance(name, str):
                    raise ValueError(f"the event has a member name that is a {type(name).__name__}")
                key, taken = self._text(name), self._value(inner, depth + 1)
                changed = changed or key is not name or taken is not inner
                made[key] = taken
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
        if text.isascii():
            return text
        try:
            text.encode()
        except UnicodeEncodeError:
            return text.encode("utf-8", "surrogatepass").decode("utf-8", "replace")
        return text


def _double(number: int) -> float:
    try:
        return float(number)
    except OverflowError:
        return float("inf") if number > 0 else float("-inf")

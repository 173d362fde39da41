"""StackStorm's operators: 24 under 33 names, each a test of one value.

``compile_test`` makes the test for an operand once; the test then runs on many values. Names are
case-insensitive. An operand of null makes all but ``nequals``, ``exists`` and ``nexists`` answer no. A value
that an operator cannot test (a number that should start with a text) raises :class:`NotApplicable`; a value
that is absent or null is an ordinary no.

Equality and order are Python's, as in StackStorm: ``true`` equals 1, and texts are ordered by their characters.
``search`` is not here: it needs criteria of its own (``functory.packs.stackstorm.criteria.criteria``).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from functools import partial
from typing import Any

from functory.engine.errors import Invalid
from functory.packs.stackstorm.criteria.evaluation_budget import count_elements
from functory.packs.stackstorm.criteria.regexes import compile_expression, wildcard_expression
from functory.triggers.patterns.formatting import format_value
from functory.triggers.patterns.predicates import is_exact_double

Test = Callable[[Any, datetime], bool]

ALIASES = {
    "eq": "equals",
    "neq": "nequals",
    "ieq": "iequals",
    "lt": "lessthan",
    "gt": "greaterthan",
    "td_lt": "timediff_lt",
    "td_gt": "timediff_gt",
    "in": "inside",
    "nin": "ninside",
}

# Operators with their own rules for a null operand, and for an absent value.
NULL_OPERANDS = frozenset({"nequals", "exists", "nexists"})
NULL_VALUES = frozenset({"equals", "nequals", "exists", "nexists", "inside", "ninside"})

# What each operator expects of a value, as text for people; the operand is put into it.
EXPECTATIONS = {
    "equals": "{}",
    "nequals": "any value but {}",
    "iequals": "{} in any case",
    "contains": "a value that contains {}",
    "ncontains": "a value that does not contain {}",
    "icontains": "text that contains {} in any case",
    "incontains": "text that does not contain {} in any case",
    "startswith": "text that starts with {}",
    "istartswith": "text that starts with {} in any case",
    "endswith": "text that ends with {}",
    "iendswith": "text that ends with {} in any case",
    "lessthan": "a value below {}",
    "greaterthan": "a value above {}",
    "matchregex": "text that matches {} from its beginning",
    "iregex": "text that holds a match of {} in any case",
    "regex": "text that holds a match of {}",
    "matchwildcard": "text like {}",
    "timediff_lt": "a time less than {} seconds ago",
    "timediff_gt": "a time more than {} seconds ago",
    "exists": "any value",
    "nexists": "no value",
    "inside": "a value in {}",
    "ninside": "a value that is not in {}",
}

# Instructions of RE2 that take about as long as one character of another operator.
PROGRAM = 256

_KELVIN, _DOTTED = "\u212a", "\u0130"


class NotApplicable(Exception):
    """The operator cannot test this value: no match, with the reason."""


def operator_name(written: Any) -> str:
    """The operator that ``written`` names. Raises :class:`Invalid` with a list of all operators."""
    name = written.lower() if isinstance(written, str) else ""
    name = ALIASES.get(name, name)
    if name not in _MAKERS and name != "search":
        raise Invalid(
            f"there is no type {format_value(written)}",
            "it names an operator",
            "use one of " + ", ".join(sorted([*_MAKERS, "search", *ALIASES])),
        )
    return name


def compile_test(name: str, operand: Any) -> Test:
    """The test of an operator (by its name in full) with an operand. Raises :class:`Invalid`."""
    operand = decode_bytes(operand)
    if operand is None and name not in NULL_OPERANDS:
        return _never
    test = _MAKERS[name](operand)
    if name in NULL_VALUES:
        return lambda value, now: test(decode_bytes(value), now)
    return lambda value, now: value is not None and test(decode_bytes(value), now)


def is_expression(name: str) -> bool:
    """True for an operator whose operand is compiled by RE2."""
    return name in _EXPRESSIONS


def cost_per_character(name: str, operand: Any) -> int:
    """The cost of the test for each character or element of a value: 1, and more for expressions, by the size of their
    program (RE2 may read all of it for each character), and for what is compared with each element of a list."""
    if name in ("contains", "ncontains"):
        return count_elements(operand)
    if name not in _EXPRESSIONS or not isinstance(operand, str):
        return 1
    return 1 + _EXPRESSIONS[name](operand).programsize // PROGRAM


def fold(text: str) -> str:
    """``text`` in lower case. Two characters beyond ASCII whose lower case begins with an ASCII one stay as they
    are, so that a comparison gives the same result as a pattern that ignores case."""
    if text.isascii():
        return text.lower()
    return _DOTTED.join(
        _KELVIN.join(part.lower() for part in half.split(_KELVIN)) for half in text.split(_DOTTED)
    )


def decode_bytes(value: Any) -> Any:
    """Bytes (``!!binary`` of YAML) as the text that they spell."""
    if isinstance(value, bytes):
        try:
            return value.decode()
        except UnicodeDecodeError:
            raise Invalid(
                "the operand is binary", "only UTF-8 text can be compared", "write it as a text"
            ) from None
    return value


def _never(value: Any, now: datetime) -> bool:
    return False


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise NotApplicable(f"it takes a text, not {format_value(value)}")
    return value


def _operand(value: Any) -> str:
    if not isinstance(value, str):
        raise Invalid(
            f"the pattern is {format_value(value)}",
            "this operator takes a text",
            'write it in quotes: pattern: "5"',
        )
    return value


def _texts(ask: Callable[[str, str], bool], *, ignore_case: bool = False) -> Callable[[Any], Test]:
    def make(operand: Any) -> Test:
        wanted = _operand(operand)
        if ignore_case:
            wanted = fold(wanted)
            return lambda value, now: ask(fold(_text(value)), wanted)
        return lambda value, now: ask(_text(value), wanted)

    return make


def _contains(operand: Any) -> Callable[[Any], bool]:
    def ask(value: Any) -> bool:
        if isinstance(value, str):
            return _text(operand) in value
        if isinstance(value, list | tuple):
            return operand in value
        raise NotApplicable(f"it looks into a text or a list, not {format_value(value)}")

    return ask


def _inside(operand: Any) -> Callable[[Any], bool]:
    if isinstance(operand, str):
        return lambda value: _text(value) in operand
    if isinstance(operand, list | tuple):
        return lambda value: value in operand
    if isinstance(operand, Mapping):
        return lambda value: isinstance(value, str) and value in operand
    raise Invalid(
        f"the pattern is {format_value(operand)}", "inside looks into a list or a text", 'pattern: ["a", "b"]'
    )


def _plain(make: Callable[[Any], Callable[[Any], bool]], *, holds: bool = True) -> Callable[[Any], Test]:
    """An operator that does not use the current time. Without ``holds`` its answer is inverted."""

    def made(operand: Any) -> Test:
        ask = make(operand)
        return lambda value, now: ask(value) is holds

    return made


def _order(less: bool) -> Callable[[Any], Test]:
    def make(operand: Any) -> Test:
        def test(value: Any, now: datetime) -> bool:
            if isinstance(value, int | float) and isinstance(operand, int | float):
                if not (is_exact_double(value) and is_exact_double(operand)):
                    return False
            elif not (isinstance(value, str) and isinstance(operand, str)):
                raise NotApplicable(f"{format_value(value)} and {format_value(operand)} have no order")
            return value < operand if less else value > operand  # type: ignore[operator]

        return test

    return make


_EXPRESSIONS: dict[str, Callable[[str], Any]] = {
    "regex": compile_expression,
    "iregex": partial(compile_expression, ignore_case=True),
    "matchregex": partial(compile_expression, dot_all=True),
    "matchwildcard": lambda operand: compile_expression(wildcard_expression(operand), dot_all=True),
}


def _expression(name: str) -> Callable[[Any], Test]:
    def make(operand: Any) -> Test:
        compiled = _EXPRESSIONS[name](_operand(operand))
        find = compiled.match if name.startswith("match") else compiled.search
        return lambda value, now: find(_utf8(_text(value))) is not None

    return make


def _utf8(text: str) -> str:
    # RE2 reads UTF-8, which has no form for half a surrogate pair.
    return text if text.isascii() else text.encode("utf-8", "replace").decode()


def _age(less: bool) -> Callable[[Any], Test]:
    def make(operand: Any) -> Test:
        try:
            seconds = float(operand)
        except (TypeError, ValueError, OverflowError):
            raise Invalid(
                f"the pattern is {format_value(operand)}", "this operator takes seconds", "pattern: 60"
            ) from None

        def test(value: Any, now: datetime) -> bool:
            age = (_aware(now) - _parse_timestamp(value)).total_seconds()
            return age < seconds if less else age > seconds

        return test

    return make


def _parse_timestamp(value: Any) -> datetime:
    try:
        return _aware(datetime.fromisoformat(_text(value).strip()))
    except (ValueError, OverflowError):
        raise NotApplicable(
            f"{format_value(value)} is not a time of ISO 8601, such as 2026-05-01T12:00:00Z"
        ) from None


def _aware(time: datetime) -> datetime:
    return time if time.tzinfo else time.replace(tzinfo=UTC)


_MAKERS: dict[str, Callable[[Any], Test]] = {
    "equals": _plain(lambda operand: lambda value: value == operand),
    "nequals": _plain(lambda operand: lambda value: value == operand, holds=False),
    "iequals": _texts(str.__eq__, ignore_case=True),
    "contains": _plain(_contains),
    "ncontains": _plain(_contains, holds=False),
    "icontains": _texts(str.__contains__, ignore_case=True),
    "incontains": _texts(lambda value, wanted: wanted not in value, ignore_case=True),
    "startswith": _texts(str.startswith),
    "istartswith": _texts(str.startswith, ignore_case=True),
    "endswith": _texts(str.endswith),
    "iendswith": _texts(str.endswith, ignore_case=True),
    "lessthan": _order(less=True),
    "greaterthan": _order(less=False),
    **{name: _expression(name) for name in _EXPRESSIONS},
    "timediff_lt": _age(less=True),
    "timediff_gt": _age(less=False),
    "exists": lambda operand: lambda value, now: value is not None,
    "nexists": lambda operand: lambda value, now: value is None,
    "inside": _plain(_inside),
    "ninside": _plain(_inside, holds=False),
}

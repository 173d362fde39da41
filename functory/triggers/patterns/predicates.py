"""Predicates: the tests that a pattern can apply to one value.

The text of a predicate is what people read after "expected": ``a number above 500``.

A predicate is interned: patterns with the same test share one object. So an index evaluates it once an event, and
keeps the result under its identity. ``kind`` and ``operands`` define a predicate:

====================================  ===========================================================
kind                                  operands
====================================  ===========================================================
equal                                 (value,): str, int, float, None, TRUE or FALSE
ip                                    (family, number): any spelling of one address
prefix, suffix                        (text,)
equals-ignore-case                    (text,)
prefix-ignore-case                    (text,)
suffix-ignore-case                    (text,)
wildcard                              the literals around the stars: ``a*b`` is ("a", "b")
numeric                               (low, low included, high, high included)
cidr                                  (family, mask bits, masked number)
exists                                ()
anything-but                          the refused values: all str, or all numbers
anything-but-KIND                     the refused operands, each in the form of KIND
                                      (KIND: prefix, suffix, equals-ignore-case, wildcard)
====================================  ===========================================================
"""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from decimal import Decimal
from ipaddress import IPv4Address, IPv6Address
from math import inf, isfinite
from typing import Any
from weakref import WeakValueDictionary

from functory.triggers.patterns.formatting import format_value
from functory.triggers.patterns.ip_addresses import BITS, parse_address

Test = Callable[[Any], bool]

# Up to here every integer is a double (IEEE 754 binary64 has 53 bits of precision).
MAX_SAFE_INTEGER = 2**53


@dataclass(frozen=True, slots=True, eq=False, weakref_slot=True)
class Predicate:
    """One test of one value. Made by ``predicate`` only: equal predicates are one object."""

    kind: str
    operands: tuple[Hashable, ...]
    test: Test = field(repr=False)
    text: str = field(repr=False)

    @property
    def tests(self) -> int:
        """How many tests of one value it makes one by one; none for an equal value, which is looked up."""
        if self.kind == "equal":
            return 0
        by_kind = self.kind.startswith("anything-but-")
        return len(self.operands) if by_kind else 1


_interned: WeakValueDictionary[tuple[str, tuple], Predicate] = WeakValueDictionary()
_interning = threading.Lock()


def predicate(kind: str, *operands: Any) -> Predicate:
    """Return the interned predicate of this kind with these operands (see the table above)."""
    with _interning:
        known = _interned.get((kind, operands))
        if known is None:
            test, text = _MAKERS[kind](*operands)
            known = Predicate(kind, operands, test, text)
            _interned[kind, operands] = known
        return known


def _equal(value: Any) -> tuple[Test, str]:
    return (lambda v: v == value), format_value(value)


def _ip(family: int, number: int) -> tuple[Test, str]:
    address = (family, number)

    def test(v: Any) -> bool:
        return type(v) is str and parse_address(v) == address

    return test, f"the address {format_address(family, number)}"


def _prefix(text: str) -> tuple[Test, str]:
    return (lambda v: type(v) is str and v.startswith(text)), f"text that starts with {format_value(text)}"


def _suffix(text: str) -> tuple[Test, str]:
    return (lambda v: type(v) is str and v.endswith(text)), f"text that ends with {format_value(text)}"


def _equals_ignore_case(text: str) -> tuple[Test, str]:
    fullmatch = re.compile(_either_case(text)).fullmatch
    return (lambda v: type(v) is str and fullmatch(v) is not None), f"{format_value(text)} in any case"


def _prefix_ignore_case(text: str) -> tuple[Test, str]:
    match = re.compile(_either_case(text)).match
    return (
        lambda v: type(v) is str and match(v) is not None
    ), f"text that starts with {format_value(text)} in any case"


def _suffix_ignore_case(text: str) -> tuple[Test, str]:
    # The value's end is read backwards, so that a long value costs no more than a short one.
    longest = sum(max(len(c.lower()), len(c.upper())) for c in text)
    match = re.compile(_either_case(text, backwards=True)).match

    def test(v: Any) -> bool:
        return type(v) is str and match(v[-longest:][::-1] if longest else "") is not None

    return test, f"text that ends with {format_value(text)} in any case"


def _either_case(text: str, *, backwards: bool = False) -> str:
    """Return a regular expression for ``text`` with each character in lower or in upper case.

    Not case folding: a German sharp s takes itself and "SS", but not "ss".
    """
    step = -1 if backwards else 1
    parts = []
    for c in text[::step]:
        cases = dict.fromkeys((c.lower(), c.upper()))
        if len(cases) == 1:
            parts.append(re.escape(c.lower()[::step]))
        else:
            parts.append(f"(?:{'|'.join(re.escape(case[::step]) for case in cases)})")
    return "".join(parts)


def _wildcard(*literals: str) -> tuple[Test, str]:
    text = f"text like {format_value('*'.join(_escape(literal) for literal in literals))}"
    if len(literals) == 1:
        return (lambda v: v == literals[0]), text
    head, *middle, tail = literals
    shortest = len(head) + len(tail)

    def test(v: Any) -> bool:
        if type(v) is not str or len(v) < shortest or not v.startswith(head) or not v.endswith(tail):
            return False
        # The first fitting position leaves the most room for the rest, so no backtracking is needed.
        start, end = len(head), len(v) - len(tail)
        for literal in middle:
            start = v.find(literal, start, end)
            if start < 0:
                return False
            start += len(literal)
        return True

    return test, text


def _escape(literal: str) -> str:
    return literal.replace("\\", "\\\\").replace("*", "\\*")


def is_exact_double(number: int | float) -> bool:
    """Return True if a double holds ``number`` exactly; only such a number can lie in a range.

    event-ruler's rule: the decimal text equals the shortest text of the double. 9007199254740993 does not,
    nor do infinities and NaN; such a number only equals itself.
    """
    if -MAX_SAFE_INTEGER <= number <= MAX_SAFE_INTEGER:
        return True
    try:
        double = float(number)
    except OverflowError:
        return False
    return isfinite(double) and (type(number) is float or Decimal(repr(double)) == number)


def _numeric(low: float, low_included: bool, high: float, high_included: bool) -> tuple[Test, str]:
    # A bound that is absent is an excluded infinity, so the infinities, which some parsers make, are in no
    # range.
    if low_included:
        compare = (lambda v: low <= v <= high) if high_included else (lambda v: low <= v < high)
    else:
        compare = (lambda v: low < v <= high) if high_included else (lambda v: low < v < high)

    def test(v: Any) -> bool:
        kind = type(v)
        if kind is int:
            return (-MAX_SAFE_INTEGER <= v <= MAX_SAFE_INTEGER or is_exact_double(v)) and compare(v)
        return kind is float and compare(v)

    return test, _number_text(low, low_included, high, high_included)


def _number_text(low: float, low_included: bool, high: float, high_included: bool) -> str:
    """Return a range as people say it: ``a number above 3 and at most 7``."""
    if low_included and high_included:
        return f"a number from {format_value(low)} to {format_value(high)}"
    parts: list[str] = []
    if low != -inf:
        parts.append(f"{'of at least' if low_included else 'above'} {format_value(low)}")
    if high != inf:
        most = ("at most" if parts else "of at most") if high_included else "below"
        parts.append(f"{most} {format_value(high)}")
    return f"a number {' and '.join(parts)}"


def _cidr(family: int, bits: int, net: int) -> tuple[Test, str]:
    shift = BITS[family] - bits
    wanted = net >> shift

    def test(v: Any) -> bool:
        if type(v) is not str:
            return False
        address = parse_address(v)
        return address is not None and address[0] == family and address[1] >> shift == wanted

    return test, f"an address in {format_address(family, net)}/{bits}"


def format_address(family: int, number: int) -> str:
    """Return the address as text."""
    return str((IPv4Address if family == 4 else IPv6Address)(number))


def _exists() -> tuple[Test, str]:
    return (lambda v: True), "any value"


def _anything_but(*refused: Any) -> tuple[Test, str]:
    values = frozenset(refused)
    return (lambda v: v not in values), f"any value but {_any_of(refused)}"


def _anything_but_kind(kind: str) -> Callable[..., tuple[Test, str]]:
    def make(*refused: Any) -> tuple[Test, str]:
        made = [
            _MAKERS[kind](*operand) if kind == "wildcard" else _MAKERS[kind](operand) for operand in refused
        ]
        tests = [test for test, _ in made]
        texts = " or ".join(text for _, text in made[:3]) + (
            f" … ({len(made)} forms)" if len(made) > 3 else ""
        )
        return (lambda v: not any(test(v) for test in tests)), f"any value but {texts}"

    return make


def _any_of(values: tuple[Any, ...]) -> str:
    some = " or ".join(format_value(value) for value in values[:5])
    return some if len(values) <= 5 else f"{some} … ({len(values)} values)"


_MAKERS: dict[str, Callable[..., tuple[Test, str]]] = {
    "equal": _equal,
    "ip": _ip,
    "prefix": _prefix,
    "suffix": _suffix,
    "equals-ignore-case": _equals_ignore_case,
    "prefix-ignore-case": _prefix_ignore_case,
    "suffix-ignore-case": _suffix_ignore_case,
    "wildcard": _wildcard,
    "numeric": _numeric,
    "cidr": _cidr,
    "exists": _exists,
    "anything-but": _anything_but,
    "anything-but-prefix": _anything_but_kind("prefix"),
    "anything-but-suffix": _anything_but_kind("suffix"),
    "anything-but-equals-ignore-case": _anything_but_kind("equals-ignore-case"),
    "anything-but-wildcard": _anything_but_kind("wildcard"),
}

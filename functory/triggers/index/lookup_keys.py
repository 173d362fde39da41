"""Lookup keys of a requirement: where it is found in the buckets of its path.

A lookup key is (probe, key). The probe defines how a key is computed from an event's value (its first four characters,
its network of 24 bits ...), so that one dictionary access finds all requirements that it may satisfy. An *exact* lookup
key leaves nothing to test; the others only narrow the search, and the requirement is tested afterwards.
"""

from __future__ import annotations

from bisect import bisect
from collections.abc import Callable, Hashable
from math import frexp, isfinite
from operator import itemgetter
from typing import Any, NamedTuple

from functory.triggers.patterns.ip_addresses import BITS, parse_address
from functory.triggers.patterns.pattern import Requirement
from functory.triggers.patterns.predicates import Predicate

# (kind, *sizes), see text_key and number_key
Probe = tuple[str | int, ...]

# Prefixes and suffixes are looked up by this many of their characters: each number in use costs every event an
# access, and texts that people write have any length.
AFFIX_SIZES = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64)

EQUAL: Probe = ("equal",)
PRESENT: Probe = ("present",)
ABSENT: Probe = ("absent",)


class LookupKey(NamedTuple):
    """A key of one probe; ``exact``: an event found under it satisfies the requirement."""

    probe: Probe
    key: Hashable
    exact: bool


def lookup_keys(requirement: Requirement) -> list[LookupKey]:
    """Lookup keys for a requirement. Every event that satisfies it is found under at least one of them."""
    found = [slot for predicate in requirement.predicates for slot in _keys_of(predicate)]
    if requirement.or_absent:
        found.append(LookupKey(ABSENT, None, False))
    if any(slot.probe == PRESENT for slot in found):
        # A requirement under "any value" needs no lookup keys for certain values.
        exact = all(slot.exact for slot in found)
        found = [slot for slot in found if slot.probe == ABSENT] + [LookupKey(PRESENT, None, exact)]
    return list(dict.fromkeys(found))


def _keys_of(predicate: Predicate) -> list[LookupKey]:
    kind, operands = predicate.kind, predicate.operands
    if kind == "equal":
        return [LookupKey(EQUAL, operands[0], True)]
    if kind == "ip":
        family, number = operands
        return [LookupKey(("net", family, BITS[family]), number, True)]  # type: ignore[index,list-item]
    if kind == "cidr":
        family, bits, net = operands
        return [LookupKey(("net", family, bits), net >> BITS[family] - bits, True)]  # type: ignore[operator,index,list-item]
    if kind == "numeric":
        return _cells(*operands)  # type: ignore[arg-type]
    if kind == "wildcard":
        head, tail = str(operands[0]), str(operands[-1])
        if len(operands) == 1:
            return [LookupKey(EQUAL, head, True)]
        return [_affix("prefix", head, False) if head else _affix("suffix", tail, False)]
    if kind in ("prefix", "suffix"):
        return [_affix(kind, str(operands[0]), True)]
    if kind in ("equals-ignore-case", "prefix-ignore-case", "suffix-ignore-case"):
        text = fold(str(operands[0]))
        if not text or not foldable(str(operands[0])):
            return [LookupKey(PRESENT, None, False)]
        return [_affix("folded-suffix" if kind == "suffix-ignore-case" else "folded-prefix", text, False)]
    return [LookupKey(PRESENT, None, kind == "exists")]


def _affix(kind: str, text: str, exact: bool) -> LookupKey:
    """The lookup key of a prefix or suffix: as many of its characters as AFFIX_SIZES has a number for."""
    if not text:
        return LookupKey(PRESENT, None, False)
    size = AFFIX_SIZES[bisect(AFFIX_SIZES, len(text)) - 1]
    key = text[:size] if kind.endswith("prefix") else text[-size:]
    return LookupKey((kind, size), key, exact and size == len(text))


def _cells(low: float, _low_included: bool, high: float, _high_included: bool) -> list[LookupKey]:
    """The lookup keys of a range: cells of a grid at least as wide as the range, so that two hold it.

    The widths are powers of two: dividing by one is exact, and there are few of them however many ranges.
    """
    width = float(high) - float(low)
    if not isfinite(width):
        return [LookupKey(PRESENT, None, False)]
    level = frexp(width)[1]
    try:
        step = 2.0**level
    except OverflowError:
        return [LookupKey(PRESENT, None, False)]
    return [LookupKey(("grid", level), cell, False) for cell in {float(low) // step, float(high) // step}]


def fold(text: str) -> str:
    """Return ``text`` without its case, each character for itself.

    Lower-casing alone depends on the context in one case: the Greek sigma at the end of a word.
    """
    return text.upper().lower().replace("ς", "σ")  # noqa: RUF001


def foldable(text: str) -> bool:
    """True if every spelling of ``text`` in another case folds to the same text."""
    return text.isascii() or all(fold(c) == fold(c.lower()) == fold(c.upper()) for c in text)


def text_key(probe: Probe) -> Callable[[str], Any] | None:
    """Return the function that computes the key of a text; None for a probe that takes no texts."""
    kind, *sizes = probe
    size: int = sizes[-1] if sizes else 0  # type: ignore[assignment]
    if kind == "prefix":
        return itemgetter(slice(size))
    if kind == "suffix":
        return itemgetter(slice(-size, None))
    # A character folds to one or more, so that as many of them are enough.
    if kind == "folded-prefix":
        return lambda text: fold(text[:size])[:size]
    if kind == "folded-suffix":
        return lambda text: fold(text[-size:])[-size:]
    if kind == "net":
        family = sizes[0]
        shift = BITS[family] - size  # type: ignore[index]

        def net(text: str) -> int | None:
            address = parse_address(text)
            return address[1] >> shift if address is not None and address[0] == family else None

        return net
    return None


def number_key(probe: Probe) -> Callable[[float], float] | None:
    """Return the function that computes the key of a number; None for a probe that takes no numbers."""
    if probe[0] != "grid":
        return None
    step = 2.0 ** probe[1]  # type: ignore[operator]
    return lambda number: number // step

"""Parses a pattern into branches, or reports what is wrong and how to correct it.

``parse`` expands ``$or``: each branch maps paths to accepted values, and the pattern matches when one branch does. When
a path occurs twice in a branch, the later one counts (as in event-ruler), and ``parse`` reports a warning.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import inf, isfinite
from typing import Any

from functory.engine.errors import Invalid
from functory.triggers.patterns.flatten import FALSE, MAX_PATH, TRUE
from functory.triggers.patterns.formatting import format_value
from functory.triggers.patterns.ip_addresses import parse_address, parse_network
from functory.triggers.patterns.predicates import Predicate, is_exact_double, predicate

# EventBridge's own limit on the branches of one rule.
MAX_BRANCHES = 1000
# Wildcards of one pattern: less than a second for a text of a megabyte.
MAX_WILDCARDS = 200
# event-ruler's limit on the paths of one branch.
MAX_PATHS = 256
# Objects in objects. No event that we store nests deeper in a way that a pattern would name.
MAX_DEPTH = 64

# Inside an alternative of ``$or`` these are operators that lost their list, never member names.
RESERVED = frozenset((
    "exactly", "equals-ignore-case", "prefix", "suffix", "anything-but", "exists", "wildcard", "numeric", "cidr",
    "=", "<", "<=", ">", ">=", "regex", "not-wildcard", "not-equals-ignore-case", "date-after", "date-on-or-after",
    "date-before", "date-on-or-before", "in-date-range", "ip-address-in-range", "ip-address-not-in-range",
))  # fmt: skip

LEAF_MEND = 'write a list of accepted values, such as ["a", 5] or [{"prefix": "a"}]'


@dataclass(frozen=True, slots=True)
class Leaf:
    """The test of one path: one value satisfies a predicate, or (``or_absent``) there is no value."""

    predicates: tuple[Predicate, ...]
    or_absent: bool


@dataclass(slots=True)
class Parsed:
    """The result of ``parse``: branches in the order of the text, and warnings for the author."""

    branches: list[dict[str, Leaf]]
    warnings: list[str]


# The member names above a part of the pattern, outermost first.
Place = tuple[str, ...]
Branches = list[dict[str, Leaf]]


def parse(pattern: Any) -> Parsed:
    """Parse a whole pattern. Raises Invalid with the place in the pattern, and the correction."""
    warnings: list[str] = []
    parsed = Parsed(_object(pattern, (), "", [{}], warnings), warnings)
    wildcards = sum(
        map(
            _count_wildcards,
            {one for branch in parsed.branches for leaf in branch.values() for one in leaf.predicates},
        )
    )
    if wildcards > MAX_WILDCARDS:
        raise _wrong(
            (),
            f"it has {wildcards:,} wildcards; each is searched in the whole of a text, and {MAX_WILDCARDS} are taken",
            "use prefix or suffix where they say the same, or split the trigger",
        )
    return parsed


def _count_wildcards(one: Predicate) -> int:
    return {"wildcard": 1, "anything-but-wildcard": len(one.operands)}.get(one.kind, 0)


def _object(source: Any, place: Place, prefix: str, branches: Branches, warnings: list[str]) -> Branches:
    """Add the members of one object to every branch; return the branches, multiplied by each ``$or``."""
    if not isinstance(source, Mapping):
        raise _wrong(
            place,
            f"{format_value(source)} is not an object",
            'write an object, such as {"type": ["order.placed"]}',
        )
    if not source:
        raise _wrong(place, "an empty object tests nothing", 'name a member, or use [{"exists": true}]')
    if len(place) >= MAX_DEPTH:
        raise _wrong(
            place, f"objects are nested more than {MAX_DEPTH} deep", "test a member nearer to the top"
        )
    for name, inner in source.items():
        if not isinstance(name, str):
            raise _wrong(
                place, f"the member name {format_value(name)} is not text", "write member names as text"
            )
        here = (*place, name)
        if name == "$or":
            branches = _either(inner, here, prefix, branches, warnings)
            continue
        path = prefix + name
        if len(path) > MAX_PATH:
            raise _wrong(
                here, f"the path is longer than {MAX_PATH} characters", "test a member with a shorter path"
            )
        if isinstance(inner, Mapping):
            branches = _object(inner, here, path + ".", branches, warnings)
        elif isinstance(inner, list | tuple):
            leaf = _leaf(inner, here)
            if any(path in branch for branch in branches):
                warnings.append(f'"{path}" is tested twice in one branch; only the later test counts')
            for branch in branches:
                branch[path] = leaf
                if len(branch) > MAX_PATHS:
                    raise _wrong(here, f"one branch tests more than {MAX_PATHS} paths", "split the trigger")
        else:
            raise _wrong(here, f"{format_value(inner)} is neither an object nor a list", LEAF_MEND)
    return branches


def _either(source: Any, place: Place, prefix: str, branches: Branches, warnings: list[str]) -> Branches:
    mend = 'write at least two objects: {"$or": [{"a": [1]}, {"b": [2]}]}'
    if not isinstance(source, list | tuple):
        raise _wrong(place, f"$or takes a list of objects, not {format_value(source)}", mend)
    if len(source) < 2:
        raise _wrong(place, "$or needs at least two objects", mend)
    if len(branches) * len(source) > MAX_BRANCHES:
        raise _too_many(place)
    product: Branches = []
    for number, alternative in enumerate(source):
        here = (*place[:-1], f"$or[{number}]")
        if not isinstance(alternative, Mapping):
            raise _wrong(here, f"an alternative of $or is an object, not {format_value(alternative)}", mend)
        for name in alternative:
            if isinstance(name, str) and name in RESERVED:
                raise _wrong(
                    here,
                    f'"{name}" is an operator and cannot be a member name inside $or',
                    f'$or joins objects; for one path write a list: {{"path": [{{"{name}": ...}}, ...]}}',
                )
        product += _object(alternative, here, prefix, [dict(branch) for branch in branches], warnings)
        if len(product) > MAX_BRANCHES:
            raise _too_many(place)
    return product


def _leaf(elements: Any, place: Place) -> Leaf:
    if not elements:
        raise _wrong(place, "an empty list accepts nothing", LEAF_MEND)
    accepted: dict[Predicate, None] = {}
    or_absent = False
    for number, element in enumerate(elements):
        here = (*place[:-1], f"{place[-1]}[{number}]")
        made = _element(element, here)
        if made is None:
            or_absent = True
        else:
            accepted[made] = None
    return Leaf(tuple(accepted), or_absent)


def _element(element: Any, place: Place) -> Predicate | None:
    """Return the predicate of one list element; None stands for ``{"exists": false}``."""
    if element is None:
        return predicate("equal", None)
    if isinstance(element, bool):
        return predicate("equal", TRUE if element else FALSE)
    if isinstance(element, int | float):
        if isinstance(element, float) and not isfinite(element):
            raise _wrong(place, f"{format_value(element)} is no JSON number", "write a number below 1.8e308")
        return predicate("equal", element)
    if isinstance(element, str):
        address = parse_address(element)
        return predicate("ip", *address) if address else predicate("equal", element)
    if not isinstance(element, Mapping):
        raise _wrong(
            place,
            f"{format_value(element)} is no value to compare with",
            "write text, a number, true, false, null or an operator",
        )
    name, operand = _single(element, place, "a match operator")
    reader = _OPERATORS.get(name)
    if reader is None:
        raise _wrong(place, f'there is no operator "{name}"', f"use one of {', '.join(_OPERATORS)}")
    return reader(operand, (*place, name))


def _single(source: Mapping[str, Any], place: Place, what: str) -> tuple[str, Any]:
    if len(source) != 1:
        raise _wrong(
            place,
            f"{what} is an object with exactly one member; this one has {len(source)}",
            'write one object for each operator: [{"prefix": "a"}, {"suffix": "z"}]',
        )
    name, operand = next(iter(source.items()))
    if not isinstance(name, str):
        raise _wrong(place, f"the member name {format_value(name)} is not text", "write member names as text")
    return name, operand


def _text(operand: Any, place: Place) -> str:
    if not isinstance(operand, str):
        raise _wrong(
            place,
            f"{place[-1]} takes a text, not {format_value(operand)}",
            f'write {{"{place[-1]}": "text"}}',
        )
    return operand


def _number(operand: Any, place: Place) -> int | float:
    if isinstance(operand, bool) or not isinstance(operand, int | float):
        raise _wrong(place, f"{format_value(operand)} is not a number", "write a number without quotes")
    if not is_exact_double(operand):
        raise _wrong(
            place,
            f"{format_value(operand)} does not fit a double",
            "write a number that a double holds, or a text",
        )
    return operand


def _exact(kind: str) -> Callable[[Any, Place], Predicate]:
    return lambda operand, place: predicate(kind, _text(operand, place))


def _affix(kind: str) -> Callable[[Any, Place], Predicate]:
    def read(operand: Any, place: Place) -> Predicate:
        if not isinstance(operand, Mapping):
            return predicate(kind, _text(operand, place))
        name, text = _single(operand, place, f"the operand of {kind}")
        if name != "equals-ignore-case":
            raise _wrong(
                place,
                f'{kind} does not take "{name}"',
                f'write {{"{kind}": {{"equals-ignore-case": "text"}}}}',
            )
        return predicate(f"{kind}-ignore-case", _text(text, (*place, name)))

    return read


def _wildcard(operand: Any, place: Place) -> Predicate:
    return predicate("wildcard", *_literals(_text(operand, place), place))


def _literals(text: str, place: Place) -> tuple[str, ...]:
    """Split a wildcard at its stars; ``\\*`` and ``\\\\`` stand for the characters themselves."""
    literals = [""]
    position = 0
    while position < len(text):
        c = text[position]
        if c == "\\":
            position += 1
            c = text[position : position + 1]
            if c not in ("*", "\\"):
                raise _wrong(
                    place,
                    f"the backslash at position {position} escapes nothing",
                    r"write \\ for a backslash and \* for a star",
                )
            literals[-1] += c
        elif c == "*":
            if text[position + 1 : position + 2] == "*":
                raise _wrong(
                    place,
                    f"there are two stars in a row at position {position + 1}",
                    "write one star, or * and \\* for a literal one",
                )
            literals.append("")
        else:
            literals[-1] += c
        position += 1
    return tuple(literals)


def _numeric(operand: Any, place: Place) -> Predicate:
    mend = 'write ["<", 5], ["=", 5] or [">=", 1, "<", 5]'
    if not isinstance(operand, list | tuple):
        raise _wrong(place, f"numeric takes a list, not {format_value(operand)}", mend)
    if len(operand) not in (2, 4):
        raise _wrong(place, "numeric takes one comparison or a range of two", mend)
    bounds: dict[str, tuple[int | float, bool]] = {}
    for at in range(0, len(operand), 2):
        sign, number = operand[at], operand[at + 1]
        if not isinstance(sign, str) or sign not in ("<", "<=", ">", ">=", "="):
            raise _wrong(place, f"{format_value(sign)} is not one of < <= > >= =", mend)
        side = sign[0]
        if len(operand) == 4 and side != ("<" if at else ">"):
            raise _wrong(place, "a range is written lower bound first: > or >=, then < or <=", mend)
        bounds[side] = _number(number, place), sign.endswith("=")
    if "=" in bounds:
        return predicate("equal", bounds["="][0])
    low, low_included = bounds.get(">", (-inf, False))
    high, high_included = bounds.get("<", (inf, False))
    if not low < high:
        raise _wrong(
            place,
            f"the range from {format_value(low)} to {format_value(high)} is empty",
            'put the smaller bound first; for one number write ["=", 5]',
        )
    return predicate("numeric", low, low_included, high, high_included)


def _cidr(operand: Any, place: Place) -> Predicate:
    text = _text(operand, place)
    try:
        return predicate("cidr", *parse_network(text))
    except ValueError as error:
        raise _wrong(
            place, f"{format_value(text)} is not a network: {error}", 'write "10.0.0.0/8" or "2001:db8::/32"'
        ) from None


def _exists(operand: Any, place: Place) -> Predicate | None:
    if not isinstance(operand, bool):
        raise _wrong(
            place, f"exists takes true or false, not {format_value(operand)}", 'write {"exists": true}'
        )
    return predicate("exists") if operand else None


def _anything_but(operand: Any, place: Place) -> Predicate:
    mend = 'write a text, a number, a list of one of them, or {"prefix": "a"}'
    if isinstance(operand, Mapping):
        name, inner = _single(operand, place, "the operand of anything-but")
        if name not in ("prefix", "suffix", "equals-ignore-case", "wildcard"):
            raise _wrong(
                place,
                f'anything-but does not take "{name}"',
                "use prefix, suffix, equals-ignore-case or wildcard",
            )
        return _anything_but_kind(name, inner, (*place, name))
    listed = isinstance(operand, list | tuple)
    values = list(operand) if listed else [operand]
    texts = sum(isinstance(value, str) for value in values)
    numbers = sum(isinstance(value, int | float) and not isinstance(value, bool) for value in values)
    if not values or len(values) not in (texts, numbers):
        raise _wrong(place, "anything-but takes only texts or only numbers, and at least one", mend)
    if numbers:
        values = [_number(value, place) for value in values]
    return predicate("anything-but", *dict.fromkeys(values))


def _anything_but_kind(name: str, operand: Any, place: Place) -> Predicate:
    texts = [_text(text, place) for text in (operand if isinstance(operand, list | tuple) else [operand])]
    if not texts:
        raise _wrong(place, f"anything-but {name} needs at least one text", f'write {{"{name}": ["a", "b"]}}')
    if name in ("prefix", "suffix") and "" in texts:
        raise _wrong(
            place, f"every text has the empty {name}, so this would match no text", "leave the empty text out"
        )
    if name == "wildcard":
        return predicate("anything-but-wildcard", *(_literals(text, place) for text in texts))
    return predicate(f"anything-but-{name}", *texts)


_OPERATORS: dict[str, Callable[[Any, Place], Predicate | None]] = {
    "exactly": _exact("equal"),
    "prefix": _affix("prefix"),
    "suffix": _affix("suffix"),
    "equals-ignore-case": _exact("equals-ignore-case"),
    "wildcard": _wildcard,
    "numeric": _numeric,
    "cidr": _cidr,
    "exists": _exists,
    "anything-but": _anything_but,
}


def _wrong(place: Place, why: str, try_: str) -> Invalid:
    where = format_value(".".join(place)) if place else "its top"
    return Invalid(f"the pattern is wrong at {where}", why, try_)


def _too_many(place: Place) -> Invalid:
    return _wrong(
        place,
        f"the alternatives of $or multiply to more than {MAX_BRANCHES} branches",
        "split it into several triggers",
    )

"""Translates criteria to an event pattern, as far as a pattern can express them.

A translation is *necessary*: an event that the criterion takes is taken by the pattern. It is not always
sufficient, since a pattern looks into lists (``["a"]`` takes ``["a", "b"]``), so criteria are evaluated after
it. Where the payload holds no lists, both give the same result, except for ``contains`` on a value that is no text.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from functory.triggers.patterns.flatten import MAX_PATH
from functory.triggers.patterns.ip_addresses import parse_address
from functory.triggers.patterns.predicates import is_exact_double


def translate(name: str, operand: Any) -> list[Any] | None:
    """The accepted values at a path for an operator (its name in full) with a literal operand.

    None when a pattern cannot express it: tests that hold for an absent value or look inside one, characters beyond
    ASCII in any case, expressions, times.
    """
    if name == "equals":
        return _value(operand)
    if name == "inside" and isinstance(operand, list | tuple):
        return _values(operand)
    if name in ("lessthan", "greaterthan"):
        return _ordered(operand, less=name == "lessthan")
    if name == "contains" and not isinstance(operand, str):
        return _value(operand)
    if not isinstance(operand, str) or not operand:
        return None
    if name == "contains":
        return [{"wildcard": f"*{_escaped(operand)}*"}]
    if name in ("startswith", "endswith"):
        return [{"prefix" if name == "startswith" else "suffix": operand}]
    if name == "matchwildcard":
        return _wildcard(operand)
    if operand.isascii():
        if name == "iequals":
            return [{"equals-ignore-case": operand}]
        if name in ("istartswith", "iendswith"):
            return [{"prefix" if name == "istartswith" else "suffix": {"equals-ignore-case": operand}}]
    return None


def pattern_of(found: Sequence[tuple[tuple[str, ...], list[Any]]]) -> dict[str, Any] | None:
    """One pattern of several paths with their accepted values; the first entry of a path counts.

    Two bounds of one number become a range.
    """
    leaves: dict[tuple[str, ...], list[Any]] = {}
    for path, accepted in found:
        known = leaves.get(path)
        if known is None:
            leaves[path] = accepted
        elif (both := _range(known, accepted)) is not None:
            leaves[path] = both
    pattern: dict[str, Any] = {}
    for path, accepted in leaves.items():
        _put(pattern, path, accepted)
    return pattern or None


def narrow(on: Mapping[str, Any], pattern: Mapping[str, Any] | None) -> dict[str, Any]:
    """``on`` with those parts of ``pattern`` added whose paths it does not test itself: of a path that is
    written twice in a pattern only one would count."""
    if not pattern:
        return dict(on)
    tested = set(_paths(on, ""))
    narrowed = dict(on)
    for path, accepted in _leaves(pattern, ()):
        if ".".join(path) not in tested:
            _put(narrowed, path, accepted)
    return narrowed


def _value(operand: Any) -> list[Any] | None:
    return None if operand is None else _values([operand])


def _values(operands: Sequence[Any]) -> list[Any] | None:
    accepted: list[Any] = []
    for operand in operands:
        if isinstance(operand, str):
            accepted.append({"exactly": operand} if parse_address(operand) else operand)
        elif operand is None:
            accepted += [None, {"exists": False}]
        elif isinstance(operand, bool | int | float):
            accepted.append(operand)
            # In Python, and so in StackStorm, true is 1 and false is 0.
            if operand in (0, 1):
                accepted.append(int(operand) if isinstance(operand, bool) else bool(operand))
        else:
            return None
    return accepted or None


def _ordered(operand: Any, *, less: bool) -> list[Any] | None:
    if not isinstance(operand, int | float) or not is_exact_double(operand):
        return None
    number = int(operand) if isinstance(operand, bool) else operand
    truths = [truth for truth in (False, True) if (truth < number if less else truth > number)]
    return [{"numeric": ["<" if less else ">", number]}, *truths]


def _range(first: list[Any], second: list[Any]) -> list[Any] | None:
    bounds: dict[str, Any] = {}
    for accepted in (first, second):
        numeric = accepted[0].get("numeric") if isinstance(accepted[0], Mapping) else None
        if numeric is None or len(numeric) != 2:
            return None
        bounds[numeric[0]] = numeric[1]
    if len(bounds) != 2 or not bounds[">"] < bounds["<"]:
        return None
    truths = [element for element in first[1:] if element in second[1:]]
    return [{"numeric": [">", bounds[">"], "<", bounds["<"]]}, *truths]


def _wildcard(text: str) -> list[Any] | None:
    special = min((text.find(c) for c in "?[" if c in text), default=len(text))
    if special == len(text):
        parts = [_escaped(part) for part in text.split("*")]
        # Stars in a row are one star.
        return [{"wildcard": "*".join([parts[0], *(part for part in parts[1:-1] if part), *parts[1:][-1:]])}]
    literal = text[:special].split("*")[0]
    return [{"prefix": literal}] if literal else None


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace("*", "\\*")


def _put(pattern: dict[str, Any], path: Sequence[str], accepted: list[Any]) -> None:
    """Add a leaf, copying the objects on the way. A leaf below or above another one is left to the evaluation."""
    # A member of that name would be read as the operator.
    if "$or" in path or sum(len(name) + 1 for name in path) > MAX_PATH:
        return
    holder = pattern
    for name in path[:-1]:
        below = holder.get(name, {})
        if not isinstance(below, Mapping):
            return
        holder[name] = below = dict(below)
        holder = below
    if path[-1] not in holder:
        holder[path[-1]] = accepted


def _leaves(
    pattern: Mapping[str, Any], above: tuple[str, ...]
) -> Iterator[tuple[tuple[str, ...], list[Any]]]:
    for name, inner in pattern.items():
        if isinstance(inner, Mapping):
            yield from _leaves(inner, (*above, name))
        else:
            yield (*above, name), inner


def _paths(pattern: Any, prefix: str) -> Iterator[str]:
    for name, inner in pattern.items() if isinstance(pattern, Mapping) else ():
        if name == "$or":
            for alternative in inner if isinstance(inner, list | tuple) else ():
                yield from _paths(alternative, prefix)
        elif isinstance(inner, Mapping):
            yield from _paths(inner, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}"

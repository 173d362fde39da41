"""Wanted types: which event types patterns could match, whatever else an event holds.

An event of any other type needs no router (:mod:`functory.engine.events.decided_events`).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

from functory.triggers.patterns import Pattern
from functory.triggers.patterns.pattern import Branch

_TYPE = "type"


def wanted_types(patterns: Iterable[Pattern], types: Collection[str]) -> frozenset[str]:
    """Return those of ``types`` that one of the patterns could match. A pattern that does not test the type could match
    each of them.
    """
    wanted: set[str] = set()
    for pattern in patterns:
        for branch in pattern.branches:
            wanted.update(type_ for type_ in types if type_ not in wanted and _could_match(branch, type_))
        if len(wanted) == len(types):
            break
    return frozenset(wanted)


def _could_match(branch: Branch, type_: str) -> bool:
    """Return True unless a requirement about the type excludes it. Every event has exactly one type."""
    return all(needed.any_matches([type_]) for needed in branch.requirements if needed.path == _TYPE)

"""The steps of one check of a value by a JSON Schema, counted without making them.

Each pair of a subschema and a part of the value is looked at once, and what it costs is multiplied by how often the
check would look at it. :mod:`functory.engine.serialization.schema_cost` is the only caller.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from functory.engine.serialization.subschemas import FORMAT_REGEX, Subschema

# Pairs of a subschema and a part of the value that are counted: half a second.
MAX_PAIRS = 200_000
# Entries of the lists of subschemas that apply to the same part of a value.
_MAX_CLOSURES = 300_000
# One error of jsonschema-rs has its own copy of the value, which costs as much as errors of this number of parts.
_PARTS_PER_ERROR = 64


class TooMany(Exception):
    """The count itself takes too long."""


class Measured(NamedTuple):
    """What a check of one value may need.

    ``errors``: the errors that it may have at most, and the looks that finding them takes. ``branch_errors``: those of
    one ``anyOf`` or ``oneOf``, which are collected also when only the first error is wanted.
    """

    work: int
    errors: int
    branch_errors: int


class Closures:
    """For each subschema, the ones that apply to the same value with it."""

    def __init__(self, schemas: Sequence[Subschema], order: Mapping[int, int]) -> None:
        """``order`` has the position of each subschema behind all that it applies to the same value."""
        self._schemas = schemas
        self._order = order
        self._known: dict[int, list[tuple[int, int]]] = {}
        self._entries = 0

    def of(self, number: int) -> list[tuple[int, int]]:
        """Return the subschemas that apply to a value which subschema ``number`` is applied to, and how often each."""
        known = self._known.get(number)
        if known is not None:
            return known
        counts = {number: 1}
        for one in sorted(self._below(number), key=self._order.__getitem__, reverse=True):
            schema = self._schemas[one]
            for inner in schema.in_place:
                counts[inner] = counts.get(inner, 0) + counts[one] * schema.repeats
        self._entries += len(counts)
        if self._entries > _MAX_CLOSURES:
            raise TooMany
        found = self._known[number] = list(counts.items())
        return found

    def _below(self, number: int) -> set[int]:
        found, waiting = {number}, [number]
        while waiting:
            for inner in self._schemas[waiting.pop()].in_place:
                if inner not in found:
                    found.add(inner)
                    waiting.append(inner)
        return found


class Count:
    """Counts the work and the errors of one value; each pair of a subschema and a part of the value is counted once."""

    def __init__(self, schemas: Sequence[Subschema], closures: Closures, referred: Mapping[int, int]) -> None:
        """``referred`` has the subschemas that lead back to themselves, and how many places refer to each."""
        self._schemas = schemas
        self._closures = closures
        self._referred = referred
        self._known: dict[tuple[int, int], tuple[int, int]] = {}
        self._sizes: dict[int, int] = {}
        self._branch_errors = 0
        # The work of pairs that are looked at once, however many lead there.
        self._once = 0
        self._left = MAX_PAIRS

    def total(self, root: int, value: Any) -> Measured:
        """Return what the check of a value by subschema ``root`` may need. Raises :class:`TooMany`."""
        work, errors = self._pair(root, value)
        return Measured(work + self._once, errors, self._branch_errors)

    def _pair(self, number: int, value: Any) -> tuple[int, int]:
        key = (number, id(value))
        known = self._known.get(key)
        if known is not None:
            return known
        work = errors = 0
        size = self._size(value)
        closure = self._closures.of(number)
        for inner, times in closure:
            self._left -= 1
            if self._left < 0:
                raise TooMany
            schema = self._schemas[inner]
            work += times * _own_work(schema, value, size)
            errors += times * (1 + size // _PARTS_PER_ERROR)
            for below, part in _applied(schema, value):
                more, faults = self._pair(below, part)
                work += times * more
                errors += times * faults
        if places := self._referred.get(number):
            self._once += places * work
            work = 1
        self._known[key] = found = (work, errors)
        for inner, _ in closure:
            if branches := self._schemas[inner].branches:
                collected = sum(self._pair(one, value)[1] for one in branches)
                self._branch_errors = max(self._branch_errors, collected)
        return found

    def _size(self, value: Any) -> int:
        if isinstance(value, str):
            return 1 + len(value) // 16
        if not isinstance(value, dict | list | tuple):
            return 1
        known = self._sizes.get(id(value))
        if known is None:
            parts = value.values() if isinstance(value, dict) else value
            known = self._sizes[id(value)] = 1 + sum(map(self._size, parts))
            self._left -= len(value) // 8
            if self._left < 0:
                raise TooMany
        return known


def _own_work(schema: Subschema, value: Any, size: int) -> int:
    work = 1 + schema.compared
    if isinstance(value, str):
        work += schema.text_cost * (1 if schema.text_cost == FORMAT_REGEX else len(value))
        work += schema.pattern.of(value) if schema.pattern else 0
    elif isinstance(value, dict):
        work += schema.names
        work += sum(one.of(name) for one in schema.name_patterns for name in value)
    elif schema.unique:
        work += 4 * size
    return work


def _applied(schema: Subschema, value: Any) -> Iterator[tuple[int, Any]]:
    if isinstance(value, dict):
        for name, part in value.items():
            own = schema.members.get(name)
            for number in schema.other_member if own is None else (own,):
                yield number, part
            for number in schema.any_member:
                yield number, part
            for number in schema.member_name:
                yield number, name
    elif isinstance(value, list | tuple):
        for at, part in enumerate(value):
            for number in schema.first_items[at : at + 1] or schema.other_item:
                yield number, part
            for number in schema.any_item:
                yield number, part

"""The buckets of one path: which entries an event's value at that path leads to.

An entry is one branch of one pattern. A bucket is a list of entries under one slot; it is
handed out as it is, to be read before the next change.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any, NamedTuple

from functory.triggers.index.lookup_keys import ABSENT, EQUAL, PRESENT, Probe, number_key, text_key
from functory.triggers.patterns.pattern import Branch, Requirement


class Entry(NamedTuple):
    """A branch in a bucket: what is left to test, and whom it answers for."""

    checks: tuple[Requirement, ...]
    key: Hashable
    branch: Branch


Bucket = list[Entry]


class Probing(NamedTuple):
    """All buckets of one probe, and what computes their keys from a value."""

    key: Callable[[Any], Any]
    buckets: dict[Hashable, Bucket]


class Table:
    """The buckets of one path. ``equal`` keeps its identity for life, so that a walker may hold it."""

    __slots__ = ("absent", "equal", "numbers", "present", "texts")

    def __init__(self) -> None:
        self.equal: dict[Hashable, Bucket] = {}
        self.texts: dict[Probe, Probing] = {}
        self.numbers: dict[Probe, Probing] = {}
        self.present: Bucket = []
        self.absent: Bucket = []

    @property
    def empty(self) -> bool:
        """Whether no entry is left."""
        return not (self.equal or self.texts or self.numbers or self.present or self.absent)

    def add(self, probe: Probe, key: Hashable, entry: Entry) -> None:
        """Put an entry into the bucket of this slot."""
        if probe == EQUAL:
            self.equal.setdefault(key, []).append(entry)
        elif probe == PRESENT:
            self.present.append(entry)
        elif probe == ABSENT:
            self.absent.append(entry)
        else:
            group, compute = self._group(probe)
            if probe not in group:
                group[probe] = Probing(compute, {})
            group[probe].buckets.setdefault(key, []).append(entry)

    def discard(self, probe: Probe, key: Hashable, entry: Entry) -> None:
        """Take an entry out again; nothing of an empty bucket is kept."""
        if probe == PRESENT:
            _take(self.present, entry)
        elif probe == ABSENT:
            _take(self.absent, entry)
        elif probe == EQUAL:
            if _take(self.equal[key], entry):
                del self.equal[key]
        else:
            group, _ = self._group(probe)
            buckets = group[probe].buckets
            if _take(buckets[key], entry):
                del buckets[key]
                if not buckets:
                    del group[probe]

    def _group(self, probe: Probe) -> tuple[dict[Probe, Probing], Callable[[Any], Any]]:
        compute = text_key(probe)
        if compute is not None:
            return self.texts, compute
        compute = number_key(probe)
        assert compute is not None, probe
        return self.numbers, compute

    def find_text(self, value: str, found: list[Bucket]) -> None:
        """Add the buckets that a text leads to, but for ``equal`` and ``present``."""
        for compute, buckets in self.texts.values():
            bucket = buckets.get(compute(value))
            if bucket is not None:
                found.append(bucket)

    def find_number(self, value: float, found: list[Bucket]) -> None:
        """Add the buckets that a number leads to, but for ``equal`` and ``present``."""
        try:
            number = float(value)
        except OverflowError:  # no range holds it
            return
        for compute, buckets in self.numbers.values():
            bucket = buckets.get(compute(number))
            if bucket is not None:
                found.append(bucket)

    def find_all(self, values: list[Any], found: list[Bucket]) -> None:
        """Add the buckets that any of several values leads to, each once."""
        hits: list[Bucket] = [self.present] if self.present else []
        for value in values:
            bucket = self.equal.get(value)
            if bucket is not None:
                hits.append(bucket)
            if type(value) is str:
                self.find_text(value, hits)
            elif type(value) is int or type(value) is float:
                self.find_number(value, hits)
        found += {id(bucket): bucket for bucket in hits}.values()


def _take(bucket: Bucket, entry: Entry) -> bool:
    """Remove one entry, without moving all behind it. Return whether the bucket is empty."""
    last = bucket.pop()
    if last is not entry:
        bucket[_position(bucket, entry)] = last
    return not bucket


def _position(bucket: Bucket, entry: Entry) -> int:
    # list.index compares identities before it compares contents.
    return bucket.index(entry)

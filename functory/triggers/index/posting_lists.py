"""The buckets of one path: the postings that an event's value at that path leads to.

A posting is one branch of one pattern. A bucket is the list of postings under one lookup key. It is returned without a
copy, to be read before the next change.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any, NamedTuple

from functory.triggers.index.lookup_keys import ABSENT, EQUAL, PRESENT, Probe, number_key, text_key
from functory.triggers.patterns.pattern import Branch, Requirement


class Posting(NamedTuple):
    """A branch in a bucket: the requirements that are left to test, and the key of its pattern."""

    checks: tuple[Requirement, ...]
    key: Hashable
    branch: Branch


PostingList = list[Posting]


class ProbeIndex(NamedTuple):
    """All buckets of one probe, and the function that computes their keys from a value."""

    key: Callable[[Any], Any]
    postings: dict[Hashable, PostingList]


class PostingLists:
    """The buckets of one path. ``equal`` keeps its identity for life, so that a walker may hold it."""

    __slots__ = ("absent", "equal", "numbers", "present", "texts")

    def __init__(self) -> None:
        self.equal: dict[Hashable, PostingList] = {}
        self.texts: dict[Probe, ProbeIndex] = {}
        self.numbers: dict[Probe, ProbeIndex] = {}
        self.present: PostingList = []
        self.absent: PostingList = []

    @property
    def empty(self) -> bool:
        """True if no entry is left."""
        return not (self.equal or self.texts or self.numbers or self.present or self.absent)

    def add(self, probe: Probe, key: Hashable, entry: Posting) -> None:
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
                group[probe] = ProbeIndex(compute, {})
            group[probe].postings.setdefault(key, []).append(entry)

    def discard(self, probe: Probe, key: Hashable, entry: Posting) -> None:
        """Take an entry out again; nothing of an empty bucket is kept."""
        if probe == PRESENT:
            _remove(self.present, entry)
        elif probe == ABSENT:
            _remove(self.absent, entry)
        elif probe == EQUAL:
            if _remove(self.equal[key], entry):
                del self.equal[key]
        else:
            group, _ = self._group(probe)
            buckets = group[probe].postings
            if _remove(buckets[key], entry):
                del buckets[key]
                if not buckets:
                    del group[probe]

    def _group(self, probe: Probe) -> tuple[dict[Probe, ProbeIndex], Callable[[Any], Any]]:
        compute = text_key(probe)
        if compute is not None:
            return self.texts, compute
        compute = number_key(probe)
        assert compute is not None, probe
        return self.numbers, compute

    def find_text(self, value: str, found: list[PostingList]) -> None:
        """Add the buckets that a text leads to, but for ``equal`` and ``present``."""
        for compute, buckets in self.texts.values():
            bucket = buckets.get(compute(value))
            if bucket is not None:
                found.append(bucket)

    def find_number(self, value: float, found: list[PostingList]) -> None:
        """Add the buckets that a number leads to, but for ``equal`` and ``present``."""
        try:
            number = float(value)
        except OverflowError:  # no range holds it
            return
        for compute, buckets in self.numbers.values():
            bucket = buckets.get(compute(number))
            if bucket is not None:
                found.append(bucket)

    def find_all(self, values: list[Any], found: list[PostingList]) -> None:
        """Add the buckets that any of several values leads to, each once."""
        hits: list[PostingList] = [self.present] if self.present else []
        for value in values:
            bucket = self.equal.get(value)
            if bucket is not None:
                hits.append(bucket)
            if type(value) is str:
                self.find_text(value, hits)
            elif type(value) is int or type(value) is float:
                self.find_number(value, hits)
        found += {id(bucket): bucket for bucket in hits}.values()


def _remove(bucket: PostingList, entry: Posting) -> bool:
    """Remove one entry, without moving all behind it. Return whether the bucket is empty."""
    last = bucket.pop()
    if last is not entry:
        bucket[_position(bucket, entry)] = last
    return not bucket


def _position(bucket: PostingList, entry: Posting) -> int:
    # list.index compares identities before it compares contents.
    return bucket.index(entry)

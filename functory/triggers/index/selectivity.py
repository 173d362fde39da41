"""How many events a bucket would be looked up by: what the choice between requirements rests on.

The shares come from a sample of events that passed. Where it is silent, the patterns tell: a path that they
compare with a thousand different texts tells events apart better than one that they compare with three.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from functory.triggers.index.lookup_keys import (
    ABSENT,
    EQUAL,
    PRESENT,
    LookupKey,
    lookup_keys,
    number_key,
    text_key,
)
from functory.triggers.patterns.flatten import FlatEvent
from functory.triggers.patterns.pattern import Branch, Requirement

# Values of a path that a prefix, network or range is tried on.
TRIED = 50
# Before any event is known: what a present value is worth, and one that is not compared for equality.
GUESSED_PRESENT = 0.5
GUESSED_KEY = 0.1
# What a probe that must compute something costs every event, in candidates, times the patterns of which one
# shares it: one and a half candidates, one in twenty.
PROBE_COST = 30
PLAIN = (EQUAL[0], PRESENT[0], ABSENT[0])
# What testing anything but equality costs, compared with that.
OTHER_TEST = 4
# Shares that are remembered; requirements repeat.
REMEMBERED = 50_000


class _PathStatistics:
    """What the sample holds at one path."""

    __slots__ = ("counts", "present", "tried")

    def __init__(self) -> None:
        self.present = 0
        self.counts: Counter[Any] = Counter()
        self.tried: list[Any] = []


class Selectivity:
    """The expected shares of events, from ``events`` and from the ``patterns`` to be placed."""

    def __init__(self, events: Sequence[FlatEvent] = (), branches: Iterable[Branch] = ()) -> None:
        self._events = len(events)
        self._branches = 0
        self._seen: dict[str, _PathStatistics] = {}
        self._known: dict[Requirement, tuple[float, float]] = {}
        for flat in events:
            for path, values in flat.values.items():
                seen = self._seen.get(path)
                if seen is None:
                    seen = self._seen[path] = _PathStatistics()
                seen.present += 1
                seen.counts.update(set(values))
        chance = random.Random(0)  # noqa: S311  (the same sample gives the same choice)
        for seen in self._seen.values():
            distinct = list(seen.counts)
            seen.tried = distinct if len(distinct) <= TRIED else chance.sample(distinct, TRIED)
        operands: dict[str, set[Any]] = {}
        for branch in branches:
            self._branches += 1
            for requirement in branch.requirements:
                operands.setdefault(requirement.path, set()).update(requirement.predicates)
        self._operands = {path: len(asked) for path, asked in operands.items()}

    def best(self, branch: Branch) -> Requirement:
        """Return the requirement to place a branch under: an absent path only when there is nothing else."""
        return min(branch.requirements, key=self.cost)

    def cost(self, requirement: Requirement) -> tuple[bool, float]:
        """Return what orders requirements: those that absence satisfies last, then candidates an event."""
        share, probing = self._weigh(requirement)
        return requirement.or_absent, share + probing

    def order(self, requirement: Requirement) -> tuple[bool, float]:
        """Return what orders the tests of a candidate: cheap ones that rarely hold first, absence last.

        Comparing for equality is cheap: few values, and many patterns that ask for the same, so that the answer
        is mostly known. Weight over rejected share is the order of least expected cost for independent tests.
        """
        plain = all(predicate.kind == "equal" for predicate in requirement.predicates)
        rejected = max(1e-6, 1 - self.fraction(requirement))
        return requirement.or_absent, (1 if plain else OTHER_TEST) / rejected

    def fraction(self, requirement: Requirement) -> float:
        """Return the share of events (0 to 1) that lead to the slots of a requirement."""
        return self._weigh(requirement)[0]

    def _weigh(self, requirement: Requirement) -> tuple[float, float]:
        """Return the share, and what probing for it costs."""
        known = self._known.get(requirement)
        if known is None:
            seen = self._seen.get(requirement.path)
            guess = 1 / (1 + self._operands.get(requirement.path, 0))
            where = lookup_keys(requirement)
            share = min(1.0, sum(self._key_fraction(slot, seen, guess) for slot in where))
            probing = any(slot.probe[0] not in PLAIN for slot in where) * PROBE_COST / (self._branches + 1)
            if len(self._known) >= REMEMBERED:
                self._known.clear()
            known = self._known[requirement] = share, probing
        return known

    def _key_fraction(self, slot: LookupKey, seen: _PathStatistics | None, guess: float) -> float:
        present = (seen.present if seen else 0) / self._events if self._events else GUESSED_PRESENT
        if slot.probe == PRESENT:
            return present
        if slot.probe == ABSENT:
            return 1 - present
        if slot.probe == EQUAL:
            # As if one more event had been seen, which has it by the guess.
            return ((seen.counts.get(slot.key, 0) if seen else 0) + guess) / (self._events + 1)
        if seen is None:
            return (GUESSED_KEY + guess) / (self._events + 1)
        text, number = text_key(slot.probe), number_key(slot.probe)
        fitting = sum(_leads(value, slot, text, number) for value in seen.tried)
        return present * (fitting + guess) / (len(seen.tried) + 1)


def _leads(
    value: Any, slot: LookupKey, text: Callable[[str], Any] | None, number: Callable[[float], Any] | None
) -> bool:
    kind = type(value)
    if kind is str:
        return text is not None and text(value) == slot.key
    try:
        return number is not None and kind in (int, float) and number(float(value)) == slot.key
    except OverflowError:
        return False

"""Another generation of buckets, built and checked in a thread while the present one answers.

Started by ``Index`` now and then. It first asks whether the choice of buckets still suits the traffic; only
if not, it builds anew from what the last events were like. The result is tried on those events: where it
differs from the answer that was given then, the pattern itself decides, and a new generation that is wrong is
never used.
"""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Hashable, Mapping, Sequence
from typing import NamedTuple

from functory.triggers.index.event_view import MemberNames
from functory.triggers.index.matcher import Matcher
from functory.triggers.index.selectivity import Selectivity
from functory.triggers.patterns.flatten import FlatEvent
from functory.triggers.patterns.pattern import Pattern

# Patterns whose place is weighed to see whether the traffic has drifted.
WEIGHED = 200
# Build anew when the buckets in use cost this much more than the best, and so many candidates an event more.
MIN_COST_RATIO = 1.2
MIN_EXTRA_CANDIDATES = 0.5
# Patterns placed, or events tried, between two pauses: about a millisecond, so that a router that shares the
# interpreter is never held up for longer.
STEP = 25


class Sample(NamedTuple):
    """An event that passed, and the keys that were found then."""

    flat: FlatEvent
    keys: frozenset[Hashable]


class Rebuild(threading.Thread):
    """One attempt. ``matcher`` is the new generation when the thread has ended with one, else None.

    ``refuted``: why the new generation must not be used, None if nothing speaks against it.
    ``error``: what ended the attempt early.
    """

    def __init__(
        self,
        present: Matcher,
        patterns: Mapping[Hashable, Pattern],
        samples: Sequence[Sample],
        names: MemberNames,
    ) -> None:
        super().__init__(name="functory-index-renewal", daemon=True)
        self._present = present
        self._patterns = patterns
        self._samples = samples
        self._names = names
        self.matcher: Matcher | None = None
        self.rejection: str | None = None
        self.error: Exception | None = None

    def run(self) -> None:
        """Weigh, build, check."""
        try:
            self.rebuild()
        except Exception as error:
            self.error = error

    def rebuild(self, *, force: bool = False) -> None:
        """Do it in this thread; ``force`` leaves the weighing out."""
        branches = [branch for pattern in self._patterns.values() for branch in pattern.branches]
        shares = Selectivity([sample.flat for sample in self._samples], branches)
        if not force and not self._drifted(shares):
            return
        matcher = Matcher(shares, self._names)
        for number, (key, pattern) in enumerate(self._patterns.items()):
            matcher.add(key, pattern)
            self._pause(number, force)
        self.rejection = self._check(matcher, force)
        if self.rejection is None:
            self.matcher = matcher

    def _drifted(self, shares: Selectivity) -> bool:
        """Whether the places of some patterns, picked at random, cost much more than the best ones now."""
        keys = list(self._patterns)
        picked = keys if len(keys) <= WEIGHED else random.sample(keys, WEIGHED)
        cost = best = 0.0
        for key in picked:
            for placed in self._present.branches(key):
                if not placed.requirement.or_absent:
                    cost += shares.fraction(placed.requirement)
                    best += shares.fraction(shares.best(placed.posting.branch))
        candidates = (cost - best) * len(keys) / max(1, len(picked))
        return cost > MIN_COST_RATIO * best and candidates > MIN_EXTRA_CANDIDATES

    def _check(self, matcher: Matcher, force: bool) -> str | None:
        for number, (flat, keys) in enumerate(self._samples):
            for key in keys.symmetric_difference(matcher.match(flat)):
                pattern = self._patterns.get(key)
                # Where the patterns have changed since, the present ones decide.
                if (key in matcher) is not (pattern is not None):
                    return f"{key!r} is in one generation only"
                if pattern is not None and pattern.matches(flat) is not (key in matcher.match(flat)):
                    return f"{key!r} is answered wrongly for {flat.values!r}"
            self._pause(number, force)
        return None

    @staticmethod
    def _pause(number: int, force: bool) -> None:
        if not force and number % STEP == STEP - 1:
            time.sleep(0.001)

"""The expected share of events that reach a bucket, estimated from the patterns alone.

People write patterns for values that occur, so the patterns are taken for a picture of the traffic: a value is
expected in that part of the events that equals its part of the requirements at its path. A path that is compared
with a thousand values tells events apart better than one that is compared with three, and a value that many patterns
ask for is frequent.
"""

from __future__ import annotations

from collections import Counter

from functory.triggers.index.lookup_keys import ABSENT, EQUAL, PRESENT, LookupKey, lookup_keys
from functory.triggers.patterns.paths import Path
from functory.triggers.patterns.pattern import Branch, Requirement

# The share of events in which a path is expected to be present.
PRESENT_SHARE = 0.5
# What a probe that must compute a key costs every event, in candidates, divided by the number of branches: one
# candidate and a half for a share of one in twenty.
PROBE_COST = 30
PLAIN = (EQUAL[0], PRESENT[0], ABSENT[0])
# The cost of any test but equality, relative to equality.
OTHER_TEST_COST = 4
# Requirements whose lookup keys are kept; requirements repeat.
CACHE_SIZE = 50_000


class Selectivity:
    """Counts the lookup keys of all branches in an index, and ranks requirements by them."""

    def __init__(self) -> None:
        self._branches = 0
        self._asked: dict[Path, Counter[LookupKey]] = {}
        self._totals: Counter[Path] = Counter()
        self._cache: dict[Requirement, list[LookupKey]] = {}

    def count(self, branch: Branch, change: int) -> None:
        """Add (``change`` = 1) or remove (-1) a branch."""
        self._branches += change
        for requirement in branch.requirements:
            path = requirement.at
            asked = self._asked.setdefault(path, Counter())
            for key in self._keys(requirement):
                asked[key] += change
                self._totals[path] += change
                if asked[key] <= 0:
                    del asked[key]
            if not asked:
                del self._asked[path], self._totals[path]

    def best(self, branch: Branch) -> Requirement:
        """The requirement that the fewest events satisfy. One that absence satisfies is taken only when there is
        no other."""
        return min(branch.requirements, key=self._placing_cost)

    def test_cost(self, requirement: Requirement) -> tuple[bool, float]:
        """The order in which a candidate's requirements are tested: cheap tests that rarely hold first, absence last.

        Equality is cheap: there are few values, and many patterns ask for the same, so the answer is mostly known.
        Cost over rejected share is the order of least expected cost for independent tests.
        """
        plain = all(predicate.kind == "equal" for predicate in requirement.predicates)
        rejected = max(1e-6, 1 - self._share(requirement))
        return requirement.or_absent, (1 if plain else OTHER_TEST_COST) / rejected

    def _placing_cost(self, requirement: Requirement) -> tuple[bool, float]:
        probes = any(key.probe[0] not in PLAIN for key in self._keys(requirement))
        return requirement.or_absent, self._share(requirement) + probes * PROBE_COST / (self._branches + 1)

    def _share(self, requirement: Requirement) -> float:
        asked = self._asked.get(requirement.at, Counter())
        total = self._totals[requirement.at] + 1
        return min(
            1.0,
            sum(
                PRESENT_SHARE if key.probe in (PRESENT, ABSENT) else asked[key] / total
                for key in self._keys(requirement)
            ),
        )

    def _keys(self, requirement: Requirement) -> list[LookupKey]:
        keys = self._cache.get(requirement)
        if keys is None:
            if len(self._cache) >= CACHE_SIZE:
                self._cache.clear()
            keys = self._cache[requirement] = lookup_keys(requirement)
        return keys

"""A compiled pattern: matching, explaining, and the parts that an index is built from."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from typing import Any
from weakref import WeakValueDictionary

from functory.triggers.patterns.array_consistency import BudgetExceeded, ForbiddenValue, RequiredPath, Search
from functory.triggers.patterns.flatten import FlatEvent, flatten
from functory.triggers.patterns.formatting import format_values
from functory.triggers.patterns.parser import Leaf, parse
from functory.triggers.patterns.paths import Path, intern_path
from functory.triggers.patterns.predicates import Predicate, Test

# Tests of values that one pattern may make for one event: about a second.
MAX_TESTS = 3_000_000
# Tests that all such patterns together may make for one event: a few seconds.
MAX_TESTS_OF_ALL = 12_000_000
# Tests of one value up to which the size of an event alone bounds the work.
FEW_TESTS = 16


@dataclass(frozen=True, slots=True)
class Clause:
    """One line of an explanation: the test at ``path``, the value found, and the result."""

    path: str
    expected: str
    found: str
    matched: bool

    @property
    def sentence(self) -> str:
        """The clause as a part of a reason."""
        return f"{self.path}: expected {self.expected}; found {self.found}"


@dataclass(frozen=True, slots=True, eq=False, weakref_slot=True)
class Requirement:
    """The test of a branch at one path: a value satisfies a predicate, or (``or_absent``) there is no value.

    ``{"exists": false}`` alone has no predicates. Made by ``requirement`` only: equal requirements are
    one object. So an index evaluates a requirement of many patterns once an event, and keeps the result under its
    identity. ``test`` is True for a value that satisfies a predicate.
    """

    at: Path
    predicates: tuple[Predicate, ...]
    or_absent: bool
    test: Test = field(repr=False)
    # Tests of one value that are made one by one.
    tests: int = field(repr=False)

    def may_match(self, flat: FlatEvent) -> bool:
        """Return False if it cannot hold, whatever elements of arrays are chosen."""
        values = flat.values.get(self.path)
        return self.or_absent or (values is not None and self.any_matches(values))

    def any_matches(self, values: Sequence[Any]) -> bool:
        """Return True if one of the values of the path satisfies a predicate."""
        return self.test(values[0]) if len(values) == 1 else any(map(self.test, values))

    @property
    def path(self) -> str:
        """The path as text."""
        return self.at.text

    @property
    def text(self) -> str:
        """What is expected, as text for people: ``a number above 500``."""
        shown = [predicate.text for predicate in self.predicates[:5]]
        if len(self.predicates) > 5:
            shown[-1] = f"… ({len(self.predicates)} values)"
        return " or ".join(shown + ["no value"] * self.or_absent)


_interned: WeakValueDictionary[tuple[str, tuple[Predicate, ...], bool], Requirement] = WeakValueDictionary()
_interning = threading.Lock()


def requirement(path_: str, leaf: Leaf) -> Requirement:
    """Return the interned requirement: the test ``leaf`` at this path."""
    key = (path_, leaf.predicates, leaf.or_absent)
    with _interning:
        known = _interned.get(key)
        if known is None:
            known = Requirement(
                intern_path(path_),
                leaf.predicates,
                leaf.or_absent,
                _any(leaf.predicates),
                sum(one.tests for one in leaf.predicates),
            )
            _interned[key] = known
        return known


class Branch:
    """One alternative of a pattern: all its requirements hold together. An index holds branches.

    ``requirements``: all of them, cheapest first.
    """

    __slots__ = ("requirements",)

    def __init__(self, leaves: Mapping[str, Leaf]) -> None:
        self.requirements = tuple(sorted((requirement(p, leaf) for p, leaf in leaves.items()), key=_cost))

    def matches(self, flat: FlatEvent) -> bool:
        """Return True if every requirement holds, with values from the same elements of the event's arrays."""
        get, placed = flat.values.get, flat.in_arrays
        for needed in self.requirements:
            name = needed.at.text
            values = get(name)
            if values is None:
                if not needed.or_absent:
                    return False
            # A value in an array may lie in an element that the other paths do not choose: "absent" is open
            # then.
            elif not needed.any_matches(values) and not (needed.or_absent and name in placed):
                return False
        return not placed or self.is_array_consistent(flat)

    def is_array_consistent(self, flat: FlatEvent) -> bool:
        """Check the requirements whose values lie in arrays; the others are known to hold."""
        needs: list[RequiredPath] = []
        bans: list[ForbiddenValue] = []
        either: list[tuple[RequiredPath, list[ForbiddenValue]]] = []
        for rank, needed in enumerate(sorted(self.requirements, key=lambda r: r.path)):
            if needed.path not in flat.in_arrays:
                continue
            places = flat.values_with_positions(needed.path)
            need = RequiredPath(rank, [place for value, place in places if needed.test(value)])
            unwanted = [ForbiddenValue(rank, place) for _, place in places]
            if not needed.or_absent:
                needs.append(need)
            elif not need.positions:
                bans += unwanted
            else:
                either.append((need, unwanted))
        if len(needs) < 2 and not bans and not either:
            return True
        return _possible(needs, bans, either)


def _possible(
    needs: list[RequiredPath],
    bans: list[ForbiddenValue],
    either: list[tuple[RequiredPath, list[ForbiddenValue]]],
) -> bool:
    """Search with each combination of value and absence, for the requirements that accept both."""
    search = Search()
    try:
        for absent in product((False, True), repeat=len(either)):
            readings = list(zip(either, absent, strict=True))
            chosen = [need for (need, _), gone in readings if not gone]
            banned = [ban for (_, unwanted), gone in readings if gone for ban in unwanted]
            if search.possible(needs + chosen, bans + banned):
                return True
    except BudgetExceeded:
        # Only a hostile event gets here. No match is the safe result.
        return False
    return False


class Pattern:
    """A compiled pattern. Immutable and safe to share between threads.

    ``branches``: its alternatives; the pattern matches when one does. ``warnings``: sentences for the author, such as
    a path that is tested twice.
    """

    __slots__ = ("branches", "is_costly", "warnings")

    def __init__(self, branches: tuple[Branch, ...], warnings: tuple[str, ...]) -> None:
        self.branches = branches
        self.warnings = warnings
        distinct = {one for branch in branches for one in branch.requirements}
        # Its tests are counted for each event.
        self.is_costly = sum(one.tests for one in distinct) > FEW_TESTS

    def matches(self, event: Mapping[str, Any] | FlatEvent) -> bool:
        """Return True if the event matches. Flatten an event once to match it against many patterns."""
        flat = event if type(event) is FlatEvent else flatten(event)
        if self.is_costly:
            return self.matches_within_bound(flat) is True
        return any(branch.matches(flat) for branch in self.branches)

    def matches_within_bound(self, flat: FlatEvent) -> bool | None:
        """Return as ``matches``; None when that would take more than ``MAX_TESTS`` tests. They are counted before they
        are made.
        """
        left = MAX_TESTS
        for branch in self.branches:
            if all(one.may_match(flat) for one in branch.requirements if not one.tests):
                left -= sum(one.tests * len(flat.values.get(one.path, ())) for one in branch.requirements)
                if left < 0:
                    return None
                if branch.matches(flat):
                    return True
        return False

    def count_tests(self, flat: FlatEvent) -> int:
        """Return how many tests ``matches_within_bound`` makes at most."""
        return sum(
            one.tests * len(flat.values.get(one.path, ()))
            for branch in self.branches
            if all(one.may_match(flat) for one in branch.requirements if not one.tests)
            for one in branch.requirements
        )

    def explain(self, event: Mapping[str, Any] | FlatEvent) -> list[Clause]:
        """Return why the event matches or not, a clause for each path, in the order of paths.

        The event matches exactly if every clause is matched. With ``$or``, they are those of the branch that
        matches, or of the nearest one, after a clause with the number of that branch.
        """
        flat = flatten(event)
        if self.is_costly and self.matches_within_bound(flat) is None:
            return [Clause("the pattern", f"at most {MAX_TESTS:,} tests of values", "more", False)]
        answers = [self._explain(branch, flat) for branch in self.branches]
        nearest = min(range(len(answers)), key=lambda n: sum(not clause.matched for clause in answers[n]))
        clauses = answers[nearest]
        if len(answers) == 1:
            return clauses
        matched = all(clause.matched for clause in clauses)
        found = f"alternative {nearest + 1}" if matched else f"none; alternative {nearest + 1} is nearest"
        return [Clause("$or", f"one of {len(answers)} alternatives", found, matched), *clauses]

    def _explain(self, branch: Branch, flat: FlatEvent) -> list[Clause]:
        matched = branch.matches(flat)
        clauses = []
        for requirement in sorted(branch.requirements, key=lambda r: r.path):
            values = flat.values.get(requirement.path)
            found = format_values(values) if values else "no value"
            alone = requirement.any_matches(values) if values else requirement.or_absent
            if matched and not alone:
                found += ", but not in the chosen elements"
            clauses.append(Clause(requirement.path, requirement.text, found, matched or alone))
        if not matched and all(clause.matched for clause in clauses):
            arrays = sorted(r.path for r in branch.requirements if r.path in flat.in_arrays)
            clauses.append(
                Clause(
                    ", ".join(arrays),
                    "all in the same element of the array that holds them",
                    "only in different elements",
                    False,
                )
            )
        return clauses


def compile_pattern(pattern: Mapping[str, Any]) -> Pattern:
    """Compile a pattern of the EventBridge language (a JSON object, already parsed).

    Raises Invalid, naming the place in the pattern, what is wrong there and what to write.
    """
    parsed = parse(pattern)
    return Pattern(tuple(map(Branch, parsed.branches)), tuple(dict.fromkeys(parsed.warnings)))


def _any(predicates: tuple[Predicate, ...]) -> Test:
    """Return the fastest test of one value against alternatives."""
    if len(predicates) == 1:
        return predicates[0].test
    equals = frozenset(p.operands[0] for p in predicates if p.kind == "equal")
    tests = [p.test for p in predicates if p.kind != "equal"]
    if not tests:
        return equals.__contains__
    if any(p.kind == "exists" for p in predicates):
        return lambda value: True
    return lambda value: value in equals or any(test(value) for test in tests)


def _cost(requirement: Requirement) -> int:
    """Order: equality first, then text and number tests, absence last."""
    if not requirement.predicates:
        return 2
    return 0 if all(p.kind == "equal" for p in requirement.predicates) else 1

"""The index itself: patterns in, keys of the patterns that match an event out."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from functory.triggers.index import event_view
from functory.triggers.index.event_view import (
    MISSING,
    AnswerCache,
    EventView,
    FlatEventView,
    MemberNames,
    NeedsFlattening,
    scalars,
)
from functory.triggers.index.lookup_keys import lookup_keys
from functory.triggers.index.posting_lists import Posting, PostingList, PostingLists
from functory.triggers.index.selectivity import Selectivity
from functory.triggers.patterns.flatten import FALSE, TRUE, FlatEvent, flatten
from functory.triggers.patterns.paths import ROOT, Path
from functory.triggers.patterns.pattern import Branch, Pattern, Requirement

# Changes after which cached answers are dropped: some are for requirements that no pattern has any more.
CACHE_CLEAR_INTERVAL = 10_000


class _Node:
    """An object that events are walked through: members with tables, and members with objects in them."""

    __slots__ = ("inner", "path", "postings")

    def __init__(self, path: Path) -> None:
        self.path = path
        self.postings: dict[str, tuple[str, dict[Hashable, PostingList], PostingLists]] = {}
        self.inner: dict[str, _Node] = {}


class IndexedBranch(NamedTuple):
    """Where one branch lies: its posting, and the requirement whose lookup keys lead to it."""

    posting: Posting
    requirement: Requirement


class Index:
    """Patterns by key, each branch in the buckets of the requirement that is expected to be the rarest.

    Not thread-safe: each router has its own. The buckets are built at the first ``match``, so that the choice of
    buckets considers all patterns of a first load.
    """

    def __init__(self) -> None:
        self._selectivity = Selectivity()
        self._names = MemberNames()
        self._root = _Node(ROOT)
        self._answer_cache = AnswerCache()
        self._changes = 0
        # The number of branches that were tested for the last event.
        self.tested = 0
        self._postings: dict[Path, PostingLists] = {}
        self._absent: dict[Path, PostingLists] = {}
        self._branches: dict[Hashable, tuple[IndexedBranch, ...]] = {}
        # The patterns of the first load; None once they are in their buckets.
        self._loading: dict[Hashable, Pattern] | None = {}

    def __len__(self) -> int:
        return len(self._branches if self._loading is None else self._loading)

    def __contains__(self, key: Hashable) -> bool:
        return key in (self._branches if self._loading is None else self._loading)

    def candidates(self, event: Mapping[str, Any] | FlatEvent) -> int:
        """The number of branches that are tested for an event."""
        self._build()
        return sum(map(len, self._flat_candidates(flatten(event))))

    def add(self, key: Hashable, pattern: Pattern) -> None:
        """Add a pattern, in place of an older one under this key."""
        if self._loading is not None:
            self._loading[key] = pattern
            return
        self.discard(key)
        self._count(pattern)
        self._place(key, pattern)

    def discard(self, key: Hashable) -> None:
        """Remove a pattern; an unknown key is no error."""
        if self._loading is not None:
            self._loading.pop(key, None)
            return
        self._changes += 1
        if self._changes % CACHE_CLEAR_INTERVAL == 0:
            self._answer_cache.clear()
        for placed in self._branches.pop(key, ()):
            self._selectivity.count(placed.posting.branch, -1)
            path = placed.requirement.at
            table = self._postings[path]
            for probe, slot_key, _ in lookup_keys(placed.requirement):
                table.discard(probe, slot_key, placed.posting)
            if not table.absent:
                self._absent.pop(path, None)
            if table.empty:
                del self._postings[path]
                self._prune(path)

    def match(self, event: Mapping[str, Any] | FlatEvent) -> list[Any]:
        """The keys of the patterns that match an event (a JSON object, or a flattened one).

        Each key once, in no particular order: exactly the keys whose ``Pattern.matches`` is true. Raises
        :class:`Invalid` when the event is not a JSON object, or not JSON where a pattern looks.
        """
        self._build()
        if type(event) is dict:
            try:
                found, walked = self._walk(event)  # type: ignore[arg-type]
                self.tested = sum(map(len, found))
                if not found:
                    return found  # type: ignore[return-value]
                objects: dict[Path | None, Any] = {node.path: members for members, node in walked}
                return _test(found, EventView(objects, self._names, self._answer_cache), None)
            except NeedsFlattening:
                pass
        flat = flatten(event)
        found = self._flat_candidates(flat)
        self.tested = sum(map(len, found))
        return _test(found, FlatEventView(flat), flat)

    def _build(self) -> None:
        """Put the patterns of the first load into buckets: all are counted before the first is placed."""
        if self._loading is None:
            return
        loaded, self._loading = self._loading, None
        for pattern in loaded.values():
            self._count(pattern)
        for key, pattern in loaded.items():
            self._place(key, pattern)

    def _count(self, pattern: Pattern) -> None:
        for branch in pattern.branches:
            self._selectivity.count(branch, 1)

    def _place(self, key: Hashable, pattern: Pattern) -> None:
        self._branches[key] = tuple(self._place_branch(key, branch) for branch in pattern.branches)

    def _place_branch(self, key: Hashable, branch: Branch) -> IndexedBranch:
        first = self._selectivity.best(branch)
        where = lookup_keys(first)
        exact = all(slot.exact for slot in where)
        checks = [r for r in branch.requirements if r is not first or not exact]
        entry = Posting(tuple(sorted(checks, key=self._selectivity.test_cost)), key, branch)
        table = self._postings.get(first.at)
        if table is None:
            table = self._postings[first.at] = PostingLists()
            self._grow(first.at, table)
        for probe, slot_key, _ in where:
            table.add(probe, slot_key, entry)
        if first.or_absent:
            self._absent[first.at] = table
        return IndexedBranch(entry, first)

    def _grow(self, path: Path, table: PostingLists) -> None:
        """Make the walk pass by a new table."""
        node = self._root
        for above in _above(path):
            node = node.inner.setdefault(above.name, _Node(above))
        node.postings[path.name] = (path.name, table.equal, table)

    def _prune(self, path: Path) -> None:
        """Take a table out of the walk, and nodes that lead nowhere any more."""
        nodes = [self._root]
        above = list(_above(path))
        for step in above:
            nodes.append(nodes[-1].inner[step.name])
        del nodes[-1].postings[path.name]
        for step, node, holder in zip(reversed(above), reversed(nodes), reversed(nodes[:-1]), strict=False):
            if node.postings or node.inner:
                break
            del holder.inner[step.name]

    def _walk(self, event: dict[str, Any]) -> tuple[list[PostingList], list[tuple[dict[str, Any], _Node]]]:
        """Return the buckets that an event leads to, and the objects passed on the way.

        Raises NeedsFlattening when the event must be flattened.
        """
        found: list[PostingList] = []
        known = self._names.known
        todo = [(event, self._root)]
        for members, node in todo:  # grows while it is walked
            if not known.issuperset(members):
                self._names.check(members)
            get = members.get
            for name, equal, table in node.postings.values():
                value = get(name, MISSING)
                kind = type(value)
                if kind is str:
                    bucket = equal.get(value)
                    if bucket is not None:
                        found.append(bucket)
                    if table.texts:
                        table.find_text(value, found)  # type: ignore[arg-type]
                elif kind is int or kind is float:
                    bucket = equal.get(value)
                    if bucket is not None:
                        found.append(bucket)
                    if table.numbers:
                        table.find_number(value, found)  # type: ignore[arg-type]
                elif value is MISSING or kind is dict:
                    continue
                elif kind is list:
                    values = scalars(value)  # type: ignore[arg-type]
                    if values is not None:
                        table.find_all(values, found)
                    continue
                elif kind is bool or value is None:
                    bucket = equal.get((TRUE if value else FALSE) if kind is bool else None)
                    if bucket is not None:
                        found.append(bucket)
                else:
                    raise NeedsFlattening
                if table.present:
                    found.append(table.present)
            for name, inner in node.inner.items():
                value = get(name)
                kind = type(value)
                if kind is dict:
                    todo.append((value, inner))  # type: ignore[arg-type]
                elif kind is list:
                    scalars(value)  # type: ignore[arg-type]
                elif not (value is None or kind is str or kind is int or kind is float or kind is bool):
                    raise NeedsFlattening
        if self._absent:
            facts = EventView({ROOT: event}, self._names, self._answer_cache)
            found += [
                table.absent
                for path, table in self._absent.items()
                if facts[path] is event_view.ABSENT_ANSWERS
            ]
        return found, todo

    def _flat_candidates(self, flat: FlatEvent) -> list[PostingList]:
        """Return the buckets that a flattened event leads to."""
        found: list[PostingList] = []
        for path, table in self._postings.items():
            values = flat.values.get(path.text)
            if values is not None:
                table.find_all(values, found)
            # In arrays of objects, a value that is there may be absent from the chosen element.
            if table.absent and (values is None or path.text in flat.in_arrays):
                found.append(table.absent)
        return found


def _test(
    found: Iterable[PostingList], facts: EventView | FlatEventView, flat: FlatEvent | None
) -> list[Hashable]:
    """Return the keys of the entries that hold what is left to test."""
    arrays = flat is not None and bool(flat.in_arrays)
    matched: list[Hashable] = []
    for bucket in found:
        for checks, key, branch in bucket:
            for check in checks:
                if not facts[check.at][check]:
                    break
            else:
                if not arrays or branch.is_array_consistent(flat):  # type: ignore[arg-type]
                    matched.append(key)
    return list(dict.fromkeys(matched)) if len(matched) > 1 else matched


def _above(path: Path) -> Iterator[Path]:
    """The paths of the objects around a value, outermost first, without the event itself."""
    around: list[Path] = []
    holder = path.parent
    while holder is not None and holder is not ROOT:
        around.append(holder)
        holder = holder.parent
    return reversed(around)

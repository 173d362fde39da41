"""The index itself: patterns by key."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import Any

from functory.triggers.index.matcher import Matcher
from functory.triggers.patterns.flatten import FlatEvent, flatten
from functory.triggers.patterns.pattern import Pattern


class Index:
    """Patterns by key. Not thread-safe: each router has its own.

    The buckets are built at the first ``match``, so that the choice of buckets considers all patterns of a first load.
    """

    def __init__(self) -> None:
        self._loading: dict[Hashable, Pattern] = {}
        self._matcher: Matcher | None = None

    def __len__(self) -> int:
        return len(self._loading if self._matcher is None else self._matcher)

    def __contains__(self, key: Hashable) -> bool:
        return key in (self._loading if self._matcher is None else self._matcher)

    def add(self, key: Hashable, pattern: Pattern) -> None:
        """Add a pattern, in place of an older one under this key."""
        if self._matcher is None:
            self._loading[key] = pattern
        else:
            self._matcher.add(key, pattern)

    def discard(self, key: Hashable) -> None:
        """Remove a pattern; an unknown key is no error."""
        if self._matcher is None:
            self._loading.pop(key, None)
        else:
            self._matcher.discard(key)

    def match(self, event: Mapping[str, Any] | FlatEvent) -> list[Any]:
        """The keys of the patterns that match an event (a JSON object, or a flattened one).

        Each key once, in no particular order: exactly the keys whose ``Pattern.matches`` is true. Raises
        :class:`Invalid` when the event is not a JSON object, or not JSON where a pattern looks.
        """
        return self._built().match(event)

    def candidates(self, event: Mapping[str, Any] | FlatEvent) -> int:
        """The number of branches that are tested for an event."""
        return sum(map(len, self._built().flat_candidates(flatten(event))))

    def stats(self) -> dict[str, int]:
        """Figures.

        ``patterns``; ``paths`` that events are looked up by; ``broad`` branches, which are tested for every event that
        has (or lacks) some path.
        """
        matcher = self._built()
        return {"patterns": len(matcher), **matcher.stats()}

    def _built(self) -> Matcher:
        if self._matcher is None:
            self._matcher = Matcher(self._loading)
            self._loading = {}
        return self._matcher

"""The index itself: patterns by key, kept in the buckets that suit the traffic."""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable, Mapping
from typing import Any

import structlog

from functory.engine.errors import Invalid
from functory.triggers.index.event_view import MemberNames
from functory.triggers.index.matcher import Matcher
from functory.triggers.index.rebuild import Rebuild, Sample
from functory.triggers.index.selectivity import Selectivity
from functory.triggers.patterns.flatten import FlatEvent, flatten
from functory.triggers.patterns.pattern import Pattern

log = structlog.get_logger("functory.index")

# Events that are kept to learn from, and to try a new generation on.
SAMPLES = 512
# Of the events after the first SAMPLES, one in so many is kept: keeping one costs as much as matching one.
SAMPLE_INTERVAL = 32
# Looks at whether the traffic has drifted: after so many samples, when there are SAMPLES, and then every SAMPLES.
FIRST_CHECK = 128
# A sample with more leaves or longer texts is not kept: SAMPLES of them must not fill the memory.
MAX_LEAVES = 300
MAX_CHARACTERS = 20_000


class Index:
    """Patterns by key. For one thread: each router has its own; what it does in the background is safe.

    Nothing is built before the first ``match``, so that the choice of buckets knows all patterns of a
    first load.
    """

    def __init__(self) -> None:
        self._patterns: dict[Hashable, Pattern] = {}
        self._names = MemberNames()
        self._matcher: Matcher | None = None
        self._samples: deque[Sample] = deque(maxlen=SAMPLES)
        self._countdown = 1
        self._until_check = FIRST_CHECK
        self._rebuild: Rebuild | None = None
        self._changed: set[Hashable] = set()
        self._candidates: deque[int] = deque(maxlen=SAMPLES)
        self._renewals = 0
        self._refuted = 0

    def __len__(self) -> int:
        return len(self._patterns)

    def __contains__(self, key: Hashable) -> bool:
        return key in self._patterns

    def add(self, key: Hashable, pattern: Pattern) -> None:
        """Add a pattern, in place of an older one under this key."""
        self._patterns[key] = pattern
        if self._matcher is not None:
            self._matcher.add(key, pattern)
        if self._rebuild is not None:
            self._changed.add(key)

    def discard(self, key: Hashable) -> None:
        """Remove a pattern; an unknown key is no error."""
        self._patterns.pop(key, None)
        if self._matcher is not None:
            self._matcher.discard(key)
        if self._rebuild is not None:
            self._changed.add(key)

    def match(self, event: Mapping[str, Any] | FlatEvent) -> list[Any]:
        """Return the keys of the patterns that match an event (a JSON object or one that is flattened).

        Each once, in no particular order: exactly the keys whose ``Pattern.matches`` says so. Raises Invalid
        when the event is not a JSON object, or not JSON where a pattern looks.
        """
        self._countdown -= 1
        if self._countdown and self._matcher is not None:
            return self._matcher.match(event)
        return self._observe(event)

    def rebuild(self) -> None:
        """Build the buckets anew for the events seen so far, now and in this thread."""
        self.wait_for_rebuild()
        renewal = Rebuild(self._built(), dict(self._patterns), list(self._samples), self._names)
        renewal.rebuild(force=True)
        self._adopt(renewal)

    def wait_for_rebuild(self, timeout: float | None = None) -> None:
        """Wait (seconds; None: without end) for what goes on in the background, and use its result."""
        if self._rebuild is not None:
            self._rebuild.join(timeout)
            self._collect()

    def stats(self) -> dict[str, Any]:
        """Return figures.

        ``patterns``; ``paths`` that events are looked up by; ``broad`` branches, which are tested on every event
        that has (or lacks) some path; mean ``candidates`` an event; ``renewals``, and ``refuted`` ones.
        """
        matcher = self._built()
        seen = self._candidates
        return {
            "patterns": len(self._patterns),
            **matcher.stats(),
            "candidates": sum(seen) / len(seen) if seen else 0.0,
            "renewals": self._renewals,
            "refuted": self._refuted,
        }

    def _built(self) -> Matcher:
        if self._matcher is None:
            branches = (branch for pattern in self._patterns.values() for branch in pattern.branches)
            matcher = Matcher(Selectivity([sample.flat for sample in self._samples], branches), self._names)
            for key, pattern in self._patterns.items():
                matcher.add(key, pattern)
            self._matcher = matcher
        return self._matcher

    def _observe(self, event: Mapping[str, Any] | FlatEvent) -> list[Any]:
        """Match, and learn from this event."""
        self._collect()
        matcher = self._built()
        self._countdown = 1 if len(self._samples) < SAMPLES else SAMPLE_INTERVAL
        keys = matcher.match(event)
        try:
            flat = flatten(event)
        except Invalid:  # where no pattern looks; nothing to learn from
            return keys
        self._candidates.append(sum(map(len, matcher.flat_candidates(flat))))
        if _modest(flat):
            self._samples.append(Sample(flat, frozenset(keys)))
            self._until_check -= 1
            if self._until_check <= 0 and self._rebuild is None:
                self._until_check = SAMPLES - len(self._samples) or SAMPLES
                self._changed.clear()
                self._rebuild = Rebuild(matcher, dict(self._patterns), list(self._samples), self._names)
                self._rebuild.start()
        return keys

    def _collect(self) -> None:
        """Use what a renewal has come to, when it has ended."""
        if self._rebuild is not None and not self._rebuild.is_alive():
            renewal, self._rebuild = self._rebuild, None
            self._adopt(renewal)

    def _adopt(self, renewal: Rebuild) -> None:
        if renewal.error is not None or renewal.rejection is not None:
            self._refuted += 1
            log.error("a new index was not used", error=str(renewal.error or renewal.rejection))
        elif renewal.matcher is not None:
            for key in self._changed:
                pattern = self._patterns.get(key)
                if pattern is None:
                    renewal.matcher.discard(key)
                else:
                    renewal.matcher.add(key, pattern)
            self._matcher = renewal.matcher
            self._renewals += 1
            self._candidates.clear()
        self._changed.clear()


def _modest(flat: FlatEvent) -> bool:
    leaves = [value for values in flat.values.values() for value in values]
    return len(leaves) <= MAX_LEAVES and sum(len(v) for v in leaves if type(v) is str) <= MAX_CHARACTERS

"""Backtest: the decisions of a draft or stored trigger about stored events, without running anything.

A backtest decides about each event as the router does: pattern, condition, then the guards over the event's recorded
chain, and the rate over the events' own times. It does not know which events the function would have emitted, so it
shows loops only as far as history shows them.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from functory.engine.errors import Invalid
from functory.engine.events import store as event_store
from functory.engine.flow_control import rate_limits
from functory.engine.settings import Settings
from functory.triggers.definition import CompiledTrigger
from functory.triggers.index import Index
from functory.triggers.routing.guards import check_guards, effective_guards

# Event ids that a result lists; counts are always complete.
MAX_EXAMPLES = 20


@dataclass
class BacktestCounts:
    """The decisions of one trigger version, counted."""

    matched: int = 0
    fired: int = 0
    suppressed: Counter[str] = field(default_factory=Counter)
    problems: int = 0
    examples: list[str] = field(default_factory=list)

    def as_json(self) -> dict[str, Any]:
        """Counts and examples."""
        return {
            "matched": self.matched,
            "would_fire": self.fired,
            "would_be_suppressed": dict(self.suppressed),
            "condition_problems": self.problems,
            "examples": self.examples,
        }


@dataclass
class Comparison:
    """A backtest's result: the counts of the draft and of the stored version, and the events on which they differ."""

    events: int = 0
    seconds: float = 0.0
    draft: BacktestCounts = field(default_factory=BacktestCounts)
    stored: BacktestCounts | None = None
    only_draft: list[str] = field(default_factory=list)
    only_stored: list[str] = field(default_factory=list)
    differing: int = 0

    def as_json(self) -> dict[str, Any]:
        """The result as plain data; ``events_per_minute`` is the speed of the run."""
        result = {
            "events": self.events,
            "seconds": round(self.seconds, 3),
            "events_per_minute": round(self.events / self.seconds * 60) if self.seconds else 0,
            **self.draft.as_json(),
        }
        if self.stored is not None:
            result["stored"] = self.stored.as_json()
            result["difference"] = {
                "events": self.differing,
                "only_draft": self.only_draft,
                "only_stored": self.only_stored,
            }
        return result


class BacktestRun:
    """One trigger version deciding about events in their order."""

    def __init__(self, compiled: CompiledTrigger, settings: Settings) -> None:
        self.counts = BacktestCounts()
        self._compiled = compiled
        # The index reads only the paths that the pattern names, not the whole event.
        self._index = Index()
        if compiled.pattern is None:
            raise Invalid(
                f"the trigger {compiled.name} is a composite",
                "a backtest looks at each event by itself",
                "save it as a shadow trigger instead: it records what it would do",
            )
        self._index.add(compiled.name, compiled.pattern)
        self._limits = effective_guards(
            compiled.guards, by_agent=compiled.row.get("origin") == "agent", settings=settings
        )
        self._max_depth = settings.max_depth
        self._budget = min(settings.root_budget, self._limits.budget or settings.root_budget)
        self._next_allowed_at: dict[str | None, datetime] = {}
        self._spent: Counter[str] = Counter()

    def decide(self, row: Mapping[str, Any], event: Mapping[str, Any]) -> bool:
        """True when the trigger would have fired; counts the decision."""
        compiled, counts = self._compiled, self.counts
        if compiled.types is not None and row["type"] not in compiled.types:
            return False
        if not self._index.match(event):
            return False
        result = compiled.evaluate_conditions(event, row["time"])
        if result is not None and not result.matched:
            counts.problems += result.problem is not None
            return False
        counts.matched += 1
        reason = self._suppression_reason(row)
        if reason is not None:
            counts.suppressed[reason] += 1
            return False
        counts.fired += 1
        if len(counts.examples) < MAX_EXAMPLES:
            counts.examples.append(row["id"])
        return True

    def _suppression_reason(self, row: Mapping[str, Any]) -> str | None:
        tripped = check_guards(self._compiled.id, self._compiled.name, self._limits, row, self._max_depth)
        if tripped is not None:
            return tripped.guard
        if self._spent[row["root_id"]] >= self._budget:
            return "budget"
        self._spent[row["root_id"]] += 1
        if self._limits.rate:
            start, following = rate_limits.reserve(
                self._next_allowed_at.get(row["subject"]),
                row["time"],
                rate_limits.guard_limit(row["subject"], self._limits.rate),
            )
            if start > row["time"]:
                return "rate"
            self._next_allowed_at[row["subject"]] = following
        return None


def run(
    draft: CompiledTrigger,
    stored: CompiledTrigger | None,
    rows: Iterable[Mapping[str, Any]],
    settings: Settings,
    *,
    progress: Callable[[int], None] | None = None,
) -> Comparison:
    """Backtest ``draft`` over ``rows`` (event rows, oldest first), beside ``stored`` when there is one.

    ``progress(n)`` is called every 2,000 events with the number of events done.
    """
    result = Comparison()
    first = BacktestRun(draft, settings)
    second = BacktestRun(stored, settings) if stored is not None else None
    start = time.perf_counter()
    for row in _counted(rows, result, progress):
        event = event_store.envelope(row)
        fires = first.decide(row, event)
        if second is None:
            continue
        fired = second.decide(row, event)
        if fires != fired:
            result.differing += 1
            listed = result.only_draft if fires else result.only_stored
            if len(listed) < MAX_EXAMPLES:
                listed.append(row["id"])
    result.seconds = time.perf_counter() - start
    result.draft = first.counts
    result.stored = second.counts if second is not None else None
    return result


def possible_event_types(*versions: CompiledTrigger | None) -> frozenset[str] | None:
    """The only event types that any of the versions can match; None when one can match any."""
    found: set[str] = set()
    for compiled in versions:
        if compiled is None:
            continue
        if compiled.types is None:
            return None
        found |= compiled.types
    return frozenset(found)


def _counted(
    rows: Iterable[Mapping[str, Any]], result: Comparison, progress: Callable[[int], None] | None
) -> Iterator[Mapping[str, Any]]:
    for row in rows:
        result.events += 1
        if progress is not None and result.events % 2000 == 0:
            progress(result.events)
        yield row

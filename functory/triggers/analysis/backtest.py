"""Backtest: the decisions of a draft or stored trigger about stored events, without running anything.

Time is replayed (:mod:`functory.triggers.analysis.replay`): each event is decided about when the router decided about
it, and the timers of flow control run in between. So the answer is what the trigger would have done with the target
function as it is now. What no row says is listed as unknown, with the reason.
"""

from __future__ import annotations

import heapq
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any

from functory.engine.database.clock import time_of_id
from functory.engine.events import store as event_store
from functory.engine.events.event_row import EventRow
from functory.engine.settings import Settings
from functory.triggers.analysis.replay import MAX_EXAMPLES, Decisions, MatchedEvent, Replay, Targets
from functory.triggers.analysis.unknown_facts import History, UnknownFact, unknown_facts
from functory.triggers.definition import CompiledTrigger

Row = Mapping[str, Any]

# The executions of other triggers and of calls by root, for roots that have used this much of their budget.
BudgetUse = Callable[[int, str], Mapping[str, int]]


@dataclass
class BacktestCounts:
    """The decisions of one trigger version, counted, and what could not be known about them."""

    decisions: Decisions
    unknown: list[UnknownFact] = field(default_factory=list)

    def as_json(self) -> dict[str, Any]:
        """Counts and examples. ``would_fire`` counts executions, the other numbers events."""
        decisions = self.decisions
        return {
            "matched": decisions.matched,
            "would_fire": decisions.executions,
            "events_fired": decisions.fired,
            "would_be_suppressed": dict(sorted(decisions.suppressed.items())),
            "still_waiting": decisions.waiting,
            "cannot_know": dict(sorted(decisions.unknown.items())),
            "condition_problems": decisions.suppressed["condition_error"],
            "examples": decisions.examples,
            "unknown": [asdict(one) for one in self.unknown],
        }


@dataclass
class Comparison:
    """A backtest's result: the counts of the draft and of the stored version, and the events on which they differ."""

    draft: BacktestCounts
    stored: BacktestCounts | None
    events: int = 0
    seconds: float = 0.0

    @property
    def only_draft(self) -> list[str]:
        """Events that only the draft would have fired for, oldest first, as many as a result lists."""
        return self._difference(self.draft, self.stored)[:MAX_EXAMPLES]

    @property
    def only_stored(self) -> list[str]:
        """Events that only the stored version would have fired for, oldest first, as many as a result lists."""
        return self._difference(self.stored, self.draft)[:MAX_EXAMPLES]

    @property
    def differing(self) -> int:
        """The number of events that only one of the versions would have fired for."""
        return len(self._difference(self.draft, self.stored)) + len(self._difference(self.stored, self.draft))

    def _difference(self, one: BacktestCounts | None, other: BacktestCounts | None) -> list[str]:
        if one is None or other is None:
            return []
        return sorted(one.decisions.fired_ids - other.decisions.fired_ids)

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


def run(
    draft: CompiledTrigger,
    stored: CompiledTrigger | None,
    rows: Iterable[EventRow],
    settings: Settings,
    *,
    targets: Targets,
    since: datetime,
    until: datetime,
    pruned_until: datetime | None = None,
    budget_use: BudgetUse = lambda least, trigger_id: {},
    progress: Callable[[int], None] | None = None,
) -> Comparison:
    """Backtest ``draft`` over ``rows`` (event rows by id), beside ``stored`` when there is one.

    ``targets`` are the versions that the triggers start, by reference. The triggers are there from ``since`` on, and
    ``until`` is now. ``progress(n)`` is called every 2,000 events with the number of events done.
    """
    start = time.perf_counter()
    queue = _RoutingOrder(until)
    replays = [
        Replay(compiled, settings, targets, since, queue.first_pending)
        for compiled in (draft, stored)
        if compiled is not None
    ]
    history = _Reader(rows, replays, History(since, pruned_until=pruned_until), progress)
    for now, batch in queue.batches(history.matched()):
        for number, replay in enumerate(replays):
            mine = [found for matches in batch if (found := matches[number]) is not None]
            if mine:
                replay.route(mine, now)
    counts = [
        _finish(replay, compiled, settings, until, history.history, budget_use)
        for replay, compiled in zip(replays, (draft, stored), strict=False)
        if compiled is not None
    ]
    return Comparison(
        counts[0], counts[1] if stored is not None else None, history.events, time.perf_counter() - start
    )


def _finish(
    replay: Replay,
    compiled: CompiledTrigger,
    settings: Settings,
    until: datetime,
    history: History,
    budget_use: BudgetUse,
) -> BacktestCounts:
    decisions = replay.finish(until)
    limit = min(settings.root_budget, compiled.guards.budget or settings.root_budget)
    most = max(replay.spent.values(), default=0)
    used = budget_use(limit - most + 1, compiled.id) if most else {}
    over = sum(
        min(spent, max(0, spent + used[root] - limit)) for root, spent in replay.spent.items() if root in used
    )
    return BacktestCounts(decisions, unknown_facts(compiled, decisions, history, over))


def possible_event_types(*versions: CompiledTrigger | None) -> frozenset[str] | None:
    """The only event types that a backtest of these versions has to read; None when it has to read all.

    A composite waits for pending events of every type, also of those that it does not match.
    """
    found: set[str] = set()
    for compiled in versions:
        if compiled is None:
            continue
        types = compiled.event_types
        if types is None or compiled.composite is not None:
            return None
        found |= types
    return frozenset(found)


# The event for each replay; None where no pattern matches it.
_Matches = list[MatchedEvent | None]


class _Reader:
    """Reads event rows once, for all replays."""

    def __init__(
        self,
        rows: Iterable[EventRow],
        replays: list[Replay],
        history: History,
        progress: Callable[[int], None] | None,
    ) -> None:
        self._rows = rows
        self._replays = replays
        self._reads_all = any(replay.by_event_time for replay in replays)
        self._progress = progress
        self.history = history
        self.events = 0

    def matched(self) -> Iterator[tuple[EventRow, _Matches]]:
        """Yield the event rows that a replay has to decide about, and those that it may have to wait for."""
        for row in self._rows:
            self.events += 1
            if self._progress is not None and self.events % 2000 == 0:
                self._progress(self.events)
            if event_store.is_inert(row):
                continue
            event = event_store.envelope(row)
            matches = [replay.match(row, event) for replay in self._replays]
            matched = any(one is not None for one in matches)
            if not matched and not self._reads_all:
                continue
            if row.state == "quarantined":
                self.history = replace(self.history, quarantined=self.history.quarantined + matched)
                continue
            if matched and row.state == "pending":
                self.history = replace(self.history, pending=self.history.pending + 1)
            yield row, matches


def _written(row: EventRow) -> datetime:
    """When an event was written: its own time where its id says the same millisecond, else the time in the id."""
    at = time_of_id(row.id)
    return row.time if at <= row.time < at + timedelta(milliseconds=1) else at


class _RoutingOrder:
    """Brings events into the order in which they were routed. Pending ones are taken as routed at ``until``."""

    def __init__(self, until: datetime) -> None:
        self._until = until
        self._heap: list[tuple[datetime, str, EventRow, _Matches]] = []
        # The last batch: until its time its events were pending.
        self._batch: list[tuple[datetime, str, EventRow, _Matches]] = []

    def batches(
        self, matched: Iterable[tuple[EventRow, _Matches]]
    ) -> Iterator[tuple[datetime, list[_Matches]]]:
        """Yield the events that were routed together, with the time, earliest first."""
        for row, matches in matched:
            # All events that are still to be read were written, and so routed, later than those before this one.
            written = _written(row)
            while self._heap and self._heap[0][0] < written:
                yield self._pop()
            heapq.heappush(self._heap, (row.routed_at or self._until, row.id, row, matches))
        while self._heap:
            yield self._pop()

    def first_pending(self, now: datetime) -> datetime | None:
        """The own time of the first event that was written until ``now`` and not routed by then."""
        waiting = [
            (id_, row.time)
            for routed, id_, row, _ in (*self._batch, *self._heap)
            if routed > now and _written(row) <= now
        ]
        return min(waiting)[1] if waiting else None

    def _pop(self) -> tuple[datetime, list[_Matches]]:
        now = self._heap[0][0]
        self._batch = []
        while self._heap and self._heap[0][0] == now:
            self._batch.append(heapq.heappop(self._heap))
        return now, [one[3] for one in self._batch]

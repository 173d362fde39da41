"""Replay: one trigger decides again about events, at the times at which they were routed. Nothing is written.

The decisions are those of the router and the release service, by the same functions; only their states are in memory:
idempotency keys, rates, budgets, breakers and buffers. Between two events the buffers that are due decide at their due
time. So a debounce, a batch or a composite ends as it would have ended.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

from msgspec import structs

from functory.engine.events.event_row import EventRow
from functory.engine.firings import admission, firings, idempotency
from functory.engine.firings.admission import Suppress
from functory.engine.firings.cancel_on import Cancel, EarlierMatch
from functory.engine.flow_control import overlap
from functory.engine.flow_control.buffers import BufferedMatch
from functory.engine.flow_control.circuit_breaker import Breaker, BreakerStates
from functory.engine.flow_control.controls import MAX_BUFFERED, Overlap
from functory.engine.flow_control.overlap import OpenExecution
from functory.engine.flow_control.rate_limits import RateLimitState, RateLimitStates
from functory.engine.functions.dependencies import Reference
from functory.engine.functions.version_row import StartVersion
from functory.engine.settings import Settings
from functory.triggers.analysis.memory_buffers import MemoryBuffers
from functory.triggers.definition import CompiledTrigger
from functory.triggers.routing.concurrency_release import rule_matches
from functory.triggers.routing.decision import TriggerEvaluator, decide_match
from functory.triggers.routing.inputs import TemplatedFire, render_inputs
from functory.triggers.routing.trigger_set import TriggerMatch, TriggerSet

Row = Mapping[str, Any]
Targets = Mapping[Reference, StartVersion]

# Event ids that a result lists; counts are always complete.
MAX_EXAMPLES = 20


@dataclass
class Decisions:
    """The decisions of one trigger version. ``executions`` would have started; the other numbers count events.

    ``unknown`` has the events whose decision depends on what is not recorded, by the control that would have decided.
    ``fired_ids`` are the events that would have fired, and ``examples`` the first of them.
    """

    executions: int = 0
    fired: int = 0
    suppressed: Counter[str] = field(default_factory=Counter)
    unknown: Counter[str] = field(default_factory=Counter)
    waiting: int = 0
    cancelling: int = 0
    fired_ids: set[str] = field(default_factory=set)
    examples: list[str] = field(default_factory=list)

    @property
    def matched(self) -> int:
        """The events with a decision, and those that wait for one."""
        return self.fired + self.suppressed.total() + self.unknown.total() + self.waiting


@dataclass(frozen=True)
class MatchedEvent:
    """An event row that patterns of the trigger match, and its envelope."""

    row: EventRow
    event: Row
    match: TriggerMatch


class Replay:
    """A trigger version that was there from ``since`` on. Events come in the order in which they were routed.

    ``first_pending`` returns the own time of the first event that was not routed yet at a time, if there was one.
    """

    def __init__(
        self,
        compiled: CompiledTrigger,
        settings: Settings,
        targets: Targets,
        since: datetime,
        first_pending: Callable[[datetime], datetime | None],
    ) -> None:
        # Whatever its state is now: the question is what it would have done.
        self._compiled = replace(compiled, row=structs.replace(compiled.row, state="enabled"))
        self._types = compiled.event_types
        self._triggers = TriggerSet()
        self._triggers.add(self._compiled)
        self._evaluator = TriggerEvaluator(settings)
        self._max_budget = settings.root_budget
        self._targets = targets
        self._first_pending = first_pending
        self._now = since
        self._keys: dict[tuple[str, str], tuple[str, datetime]] = {}
        self._rates: dict[tuple[str, str], RateLimitState] = {}
        self._guard_rates: dict[tuple[str, str], RateLimitState] = {}
        self._breakers: dict[str, Breaker] = {}
        self._open: dict[str, list[OpenExecution]] = defaultdict(list)
        self._buffers = MemoryBuffers(self._compiled, self._evaluator, since)
        self.spent: Counter[str] = Counter()
        self.decisions = Decisions()

    @property
    def by_event_time(self) -> bool:
        """True when buffers wait until all events before their due time are routed."""
        return self._buffers.by_event_time

    def match(self, row: EventRow, event: Row) -> MatchedEvent | None:
        """The event if patterns of the trigger match it."""
        if self._types is not None and row.type not in self._types:
            return None
        found = self._triggers.matching(event)
        return MatchedEvent(row, event, found[0]) if found else None

    def route(self, batch: Sequence[MatchedEvent], now: datetime) -> None:
        """Decide about events that were routed together at ``now``, and about all buffers that are due until then."""
        self._release_before(now)
        self._now = now = max(now, self._now)
        decided = [
            (one.row, decision)
            for one in batch
            for decision in decide_match(self._evaluator, one.match, one.row, one.event, now)
        ]
        self._suppress([(row, one) for row, one in decided if isinstance(one, Suppress)])
        passed, dropped = idempotency.decide(
            [(row, one) for row, one in decided if isinstance(one, TemplatedFire | BufferedMatch)],
            idempotency.IdempotencyKeys(self._keys, now),
            RateLimitStates(self._rates, now),
        )
        self._suppress(dropped)
        self._buffers.put([(row, one) for row, one in passed if isinstance(one, BufferedMatch)], now)
        self._admit([(row, one) for row, one in passed if isinstance(one, TemplatedFire)])
        self._release()
        for row, one in decided:
            if isinstance(one, Cancel):
                self._cancel(row, one)

    def finish(self, until: datetime) -> Decisions:
        """Let the time pass until ``until``. Returns all decisions."""
        self._release_before(until)
        self._now = max(until, self._now)
        self._release()
        self.decisions.waiting = len(self._buffers.waiting())
        return self.decisions

    def _release_before(self, end: datetime) -> None:
        """Release the buffers that are due before ``end``, each at its time."""
        while (due := self._buffers.next_due()) is not None and due < end:
            at = max(due, self._now)
            if due > self._routed_until(at):
                return
            self._now = at
            self._release()

    def _release(self) -> None:
        """Release all buffers that are due now; one may be due again at once."""
        while (due := self._buffers.next_due()) is not None and due <= self._routed_until(self._now):
            found = self._buffers.release(self._now, self._routed_until(self._now))
            self._suppress(found.refused)
            self._admit(found.fires)

    def _routed_until(self, now: datetime) -> datetime:
        first = self._first_pending(now) if self._buffers.by_event_time else None
        return now if first is None else min(first, now)

    def _admit(self, fires: Sequence[tuple[EventRow, TemplatedFire]]) -> None:
        """Let matches pass the checks of :mod:`functory.engine.firings.admission` in their order."""
        ready, unfit = render_inputs(fires, admission.choose_targets(fires, self._targets))
        self._suppress(unfit)
        used = {item.event.root_id: (self.spent[item.event.root_id], self._max_budget) for item in ready}
        kept, over, _ = admission.within_limits(
            ready,
            admission.RootBudgets(used),
            RateLimitStates(self._guard_rates, self._now),
            BreakerStates(self._breakers, self._now),
        )
        self._suppress(firings.for_each_event(ready, over))
        for item in kept:
            rows = item.fire.events or (item.event,)
            self.spent[item.event.root_id] += 1
            unknown = self._may_overlap(item.event.id, item.fire.controls.overlap)
            if unknown is not None:
                self.decisions.unknown[unknown] += len(rows)
                continue
            self.decisions.executions += 1
            self.decisions.fired += len(rows)
            self.decisions.fired_ids |= {row.id for row in rows}
            self.decisions.examples += [row.id for row in rows][: MAX_EXAMPLES - len(self.decisions.examples)]

    def _may_overlap(self, event_id: str, rule: Overlap | None) -> str | None:
        """Return the control that may drop a match: it would, if all earlier executions of its key still ran, and it
        would not, if all had ended. None when both lead to a start."""
        if rule is None:
            return None
        open_ = self._open[rule.key.hash]
        worst = overlap.decide(rule.policy, event_id, open_)
        mine = OpenExecution(event_id, event_id, has_slot=not open_)
        # More of them than the policy counts change nothing; the newest must stay.
        if len(open_) < (MAX_BUFFERED + 1 if rule.policy == "buffer_all" else 2):
            open_.append(mine)
        elif open_[-1].position < event_id:
            open_[-1] = replace(mine, has_slot=False)
        return rule.reason if worst.action == "drop" else None

    def _suppress(self, refused: Sequence[admission.SuppressedMatch]) -> None:
        self.decisions.suppressed.update(stop.reason for _, stop in refused)

    def _cancel(self, row: EventRow, cancel: Cancel) -> None:
        """Drop the waiting matches of earlier events that a cancel-on rule applies to."""
        self.decisions.cancelling += 1
        for one in self._buffers.waiting_rows():
            earlier = EarlierMatch(self._buffers.event(one.id), one.since)
            if one.id < row.id and rule_matches(self._compiled, cancel.rule, row, earlier, self._now):
                self._buffers.drop(one, self._now)
                self._suppress([(one, Suppress(cancel.trigger, "cancelled"))])
        self._release()

"""What a backtest cannot know: each with the reason, and the number of events that it concerns where that is known."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime

from functory.triggers.analysis.replay import Decisions
from functory.triggers.definition import CompiledTrigger


@dataclass(frozen=True)
class UnknownFact:
    """Something that no row says. ``events`` is None where the number of events that it concerns is not known."""

    what: str
    why: str
    events: int | None = None


@dataclass(frozen=True)
class History:
    """The events of a backtest as they were read: where they begin, and those that are not routed.

    ``pruned_until`` is set when events after ``since`` may have been deleted.
    """

    since: datetime
    pending: int = 0
    quarantined: int = 0
    pruned_until: datetime | None = None


def unknown_facts(
    compiled: CompiledTrigger, decisions: Decisions, history: History, over_budget: int
) -> list[UnknownFact]:
    """Return what could not be known about a trigger version. ``over_budget`` are the starts of causal trees whose
    budget other executions may have used up.
    """
    return [*_of_history(compiled, history), *_of_executions(compiled, decisions, over_budget)]


def _of_history(compiled: CompiledTrigger, history: History) -> Iterator[UnknownFact]:
    if history.pruned_until is not None and history.pruned_until > history.since:
        yield UnknownFact(
            "deleted events", f"events before {history.pruned_until:%Y-%m-%d %H:%M} UTC may have been pruned"
        )
    if history.pending:
        yield UnknownFact(
            "pending events", "they are not routed yet; they are taken as routed now", history.pending
        )
    if history.quarantined:
        yield UnknownFact(
            "quarantined events",
            "the router could not decide about them; they are left out",
            history.quarantined,
        )
    flow = compiled.flow
    if flow.idempotency or flow.rate_limit or compiled.buffer_policy is not None:
        yield UnknownFact(
            "what came before",
            f"keys, rates and buffers are empty at the start ({history.since:%Y-%m-%d %H:%M} UTC)",
        )
    yield UnknownFact(
        "consequences", "events that its executions would have caused are met only where history has them"
    )


def _of_executions(
    compiled: CompiledTrigger, decisions: Decisions, over_budget: int
) -> Iterator[UnknownFact]:
    flow = compiled.flow
    for control, events in sorted(decisions.unknown.items()):
        yield UnknownFact(
            control,
            "it depends on whether an earlier execution of the same key still ran; these events are in no other count",
            events,
        )
    if decisions.suppressed["source_rate"]:
        yield UnknownFact(
            "source_rate",
            "its limit grows with the usual rate of a busy trigger, which is not replayed: some may have fired",
            decisions.suppressed["source_rate"],
        )
    if over_budget:
        yield UnknownFact(
            "budget",
            "other triggers and calls may have used up the budget of the same root first",
            over_budget,
        )
    if decisions.cancelling:
        yield UnknownFact(
            "cancel_on",
            "these events would have cancelled executions that had not ended; which ones depends on the workers",
            decisions.cancelling,
        )
    delays = [name for name in ("throttle", "concurrency", "expires") if getattr(flow, name)]
    if delays:
        yield UnknownFact(
            " and ".join(delays),
            "when an execution starts, or that it expires before, depends on the workers; it counts as fired",
        )
    if compiled.compensate:
        yield UnknownFact(
            "compensate", "a match is suppressed when the execution that it is a step of has failed meanwhile"
        )

"""Firings: one row for each (trigger, event) match that fired or was suppressed, written with its execution.

The caller has decided and holds the transaction (``functory.triggers.routing``). In that transaction matches become
executions, firings, and events ``trigger.suppressed`` and ``trigger.failed``: a match leaves one firing, and one
execution if it fired, or nothing at all.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from functory.engine.database.schema import firing
from functory.engine.database.transaction import Tx
from functory.engine.events import store as event_store
from functory.engine.events.event_row import FiringEvent
from functory.engine.executions.direct_dispatch import OpensRoom
from functory.engine.firings import failures, launch, routing_spans, suppressions
from functory.engine.firings.admission import Admission, Admitted, Fire, Suppress, SuppressedMatch, admit
from functory.engine.firings.launch import Launch
from functory.engine.firings.routing_facts import RoutingFacts
from functory.engine.flow_control.trigger_row import FiringTrigger
from functory.engine.functions import open_canaries
from functory.engine.telemetry import traces


@dataclass
class FiringCounts:
    """What fired and what was suppressed, for metrics and logs: trigger names, and (trigger name, reason)."""

    fired: list[str] = field(default_factory=list)
    suppressed: list[tuple[str, str]] = field(default_factory=list)

    def add(self, other: FiringCounts) -> None:
        """Add the counts of another transaction."""
        self.fired += other.fired
        self.suppressed += other.suppressed


def write(
    tx: Tx,
    ready: Sequence[Admitted],
    suppressed: Sequence[SuppressedMatch],
    admission: Admission,
    facts: RoutingFacts,
    direct: OpensRoom | None = None,
) -> FiringCounts:
    """Write the executions and firings of the matches ``ready``, and the firings of ``suppressed``.

    Admission and flow control may suppress more of them, and what is left of a trigger in shadow is recorded only.
    ``facts`` are of this transaction. With ``direct`` the caller sends after the commit what there is room for.
    Returns the counts of both kinds.
    """
    # Before the questions of the admission, which take this one along.
    room = direct.room(tx) if direct is not None and ready else None
    admitted, refused = admit(tx, ready, admission.max_budget, facts)
    in_shadow = [item for item in admitted if item.fire.in_shadow]
    if in_shadow:
        refused += [(item.event, _in_shadow(item.fire)) for item in in_shadow]
        admitted = [item for item in admitted if not item.fire.in_shadow]
    launched, late = launch.start(tx, admitted, room)
    if admission.versions.canaries:
        _record_arms(tx, launched)
    if traces.recorder is not None and launched:
        traces.record_after_commit(tx.at_end, lambda: routing_spans.of_firings(launched, tx.now))
    rows = [
        _firing(tx, event, one.admitted.fire.trigger, one.row["id"], joint=len(one.admitted.fire.events) > 1)
        for one in launched
        for event in one.admitted.fire.events or (one.admitted.event,)
    ]
    return _write(
        tx,
        rows,
        [*suppressed, *for_each_event(ready, [*refused, *late])],
        [one.admitted.fire.trigger.name for one in launched],
    )


def _record_arms(tx: Tx, launched: Sequence[Launch]) -> None:
    """Record which executions an open canary has chosen the version of."""
    assigned = [(one.admitted.target.assigned, one.row["id"]) for one in launched]
    open_canaries.record(tx, [(arm, id_) for arm, id_ in assigned if arm is not None])


def write_suppressed(tx: Tx, suppressed: Sequence[SuppressedMatch]) -> FiringCounts:
    """Write the firings of suppressed matches. Returns their counts."""
    return _write(tx, [], suppressed, [])


def _write(
    tx: Tx, rows: list[dict[str, Any]], stopped: Sequence[SuppressedMatch], fired: list[str]
) -> FiringCounts:
    new_events, recorded = suppressions.record(tx, stopped)
    tx.insert(firing, rows + [_firing(tx, event, stop.trigger) | more for event, stop, more in recorded])
    event_store.append(tx, [*new_events, *failures.record(tx, stopped)])
    return FiringCounts(fired, [(stop.trigger.name, stop.reason) for _, stop in stopped])


def _in_shadow(fire: Fire) -> Suppress:
    """Return the record of a match that would have fired. Whether an earlier execution still ran cannot be known."""
    overlap = fire.controls.overlap
    unless = (
        "" if overlap is None else f", unless {overlap.reason} had stopped it: no execution of its key runs"
    )
    detail = f"it would have fired{unless}; functory trigger promote makes it do so"
    return Suppress(fire.trigger, "shadow", detail=detail)


def for_each_event(ready: Sequence[Admitted], refused: Sequence[SuppressedMatch]) -> list[SuppressedMatch]:
    """Return one suppressed match for each event of a firing that has several events."""
    if not refused:
        return []
    several = {(item.fire.trigger.id, item.event.id): item.fire.events for item in ready if item.fire.events}
    return [
        (each, stop) for event, stop in refused for each in several.get((stop.trigger.id, event.id), (event,))
    ]


def _firing(
    tx: Tx,
    event: FiringEvent,
    trigger: FiringTrigger,
    execution_id: str | None = None,
    *,
    joint: bool = False,
) -> dict[str, Any]:
    return {
        "trigger_id": trigger.id,
        "event_id": event.id,
        "trigger_version": trigger.version,
        "decision": "fired",
        "reason": None,
        "limit_value": None,
        "actual_value": None,
        "detail": None,
        "chain": event.chain,
        "execution_id": execution_id,
        "joint": joint,
        "root_id": event.root_id,
        "time": tx.now,
    }

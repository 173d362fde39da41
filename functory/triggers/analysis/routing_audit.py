"""Deciding again about events that were routed: did every match leave a firing, or wait for one?

``functory verify --deep`` asks. What SQL cannot see is which events a trigger matches; so each routed event is shown to
the triggers once more, and every decision must have left its row. That is decidable only where the trigger is still
what it was: a trigger that has changed in any way since shortly before the event was routed is skipped, and counted.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from functory.engine.database.connection import Database
from functory.engine.events import store as event_store
from functory.engine.maintenance.invariants.routed_events import RoutedEvent, routed_events
from functory.engine.settings import Settings
from functory.triggers.routing.decision import TriggerEvaluator
from functory.triggers.routing.trigger_set import TriggerSet

# A change and a router's look at the triggers may overlap for as long as their transactions last.
MARGIN = timedelta(seconds=10)


@dataclass
class RoutingAudit:
    """What came of it: events and matches that were looked at, pairs that could not be decided, and those that have
    left nothing (``missing``, with sentences about the first)."""

    events: int = 0
    matches: int = 0
    skipped: int = 0
    missing: int = 0
    examples: list[str] = field(default_factory=list)


def audit_routing(
    database: Database,
    settings: Settings,
    since: datetime,
    *,
    examples: int = 5,
    progress: Callable[[int], None] | None = None,
) -> RoutingAudit:
    """Decide again about the events made from ``since`` on. Changes nothing. Raises :class:`Unavailable`."""
    judge, triggers, found = TriggerEvaluator(settings), TriggerSet(), RoutingAudit()
    with database.read() as tx:
        triggers.refresh(tx)
    for one in routed_events(database, since):
        found.events += 1
        _audit_event(judge, triggers, one, found, examples)
        if progress is not None and found.events % 1000 == 0:
            progress(found.events)
    return found


def _audit_event(
    judge: TriggerEvaluator, triggers: TriggerSet, one: RoutedEvent, found: RoutingAudit, examples: int
) -> None:
    event = event_store.envelope(one.row)
    moment = one.row["routed_at"]
    for match in triggers.matching(event):
        compiled = match.compiled
        if not match.fires:
            continue
        if compiled.row["updated_at"] > moment - MARGIN:
            found.skipped += 1
            continue
        if judge.decide(compiled, one.row, event, moment, match.parts) is None:
            continue
        found.matches += 1
        if compiled.id in one.triggers:
            continue
        found.missing += 1
        if len(found.examples) < examples:
            found.examples.append(
                f"event {one.row['id']} ({one.row['type']}) matches trigger {compiled.name} and has no firing of it"
            )

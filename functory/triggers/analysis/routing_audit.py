"""The routing audit of ``functory verify --deep``: every match of a routed event must have left its row.

SQL cannot see which events a trigger matches, so the audit decides about each routed event once more. It can do so only
for unchanged triggers: a trigger that has changed since shortly before the event was routed is skipped, and counted.
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

# A change of a trigger and a router's refresh may overlap for as long as their transactions last.
MARGIN = timedelta(seconds=10)


@dataclass
class RoutingAudit:
    """Counts of an audit: checked events and matches, skipped pairs, and matches without a row (``missing``, with
    ``examples`` as sentences)."""

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
    evaluator, triggers, found = TriggerEvaluator(settings), TriggerSet(), RoutingAudit()
    with database.read() as tx:
        triggers.refresh(tx)
    for one in routed_events(database, since):
        found.events += 1
        _audit_event(evaluator, triggers, one, found, examples)
        if progress is not None and found.events % 1000 == 0:
            progress(found.events)
    return found


def _audit_event(
    evaluator: TriggerEvaluator, triggers: TriggerSet, one: RoutedEvent, found: RoutingAudit, examples: int
) -> None:
    event = event_store.envelope(one.row)
    routed_at = one.row.routed_at
    assert routed_at is not None, "it is routed"
    for match in triggers.matching(event):
        compiled = match.compiled
        if not match.fires:
            continue
        changed_at = compiled.row.updated_at
        assert changed_at is not None, "it is stored"
        if changed_at > routed_at - MARGIN:
            found.skipped += 1
            continue
        if evaluator.decide(compiled, one.row, event, routed_at, match.parts) is None:
            continue
        found.matches += 1
        if compiled.id in one.triggers:
            continue
        found.missing += 1
        if len(found.examples) < examples:
            found.examples.append(
                f"event {one.row.id} ({one.row.type}) matches trigger {compiled.name} and has no firing of it"
            )

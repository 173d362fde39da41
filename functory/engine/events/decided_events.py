"""Decided events: new events of which it is known that no trigger can want them need no router.

They are *routed* in the transaction that writes them, with the columns that a router gives to an event without a match.
The writer publishes them. It decides with what it knows about the triggers, and the transaction asks whether
that still holds: when the triggers have changed, or they are halted, the events wait for a router like any other.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa

from functory.engine.database import counters
from functory.engine.database.connection import Tx
from functory.engine.database.schema import counter, event
from functory.engine.events import event_row, routing_queue
from functory.engine.events.event_publishing import PublishesEvents
from functory.engine.events.kill_switch import HALTED, HALTED_SQL
from functory.engine.telemetry import metrics


@dataclass(frozen=True)
class UnwantedTypes:
    """Event types that no trigger can want, as of the value ``trigger_changes`` of the triggers' counter."""

    trigger_changes: int
    types: frozenset[str]


@dataclass(frozen=True)
class TriggerFacts:
    """What a transaction has read about the triggers: whether they are halted, and the counter of their changes."""

    halted: bool
    trigger_changes: int


@dataclass
class KnownTriggers:
    """What a process knows about the triggers. A thread that reads them sets ``unwanted``: None before the first time.

    A writer of events that finds it out of date sets ``is_stale``, so that the thread reads them again.
    """

    unwanted: UnwantedTypes | None = None
    is_stale: bool = True


class EventWriter:
    """Writes the events of one process: those of unwanted types as decided events, and publishes all of them.

    Without ``known`` all events wait for a router.
    """

    def __init__(self, publisher: PublishesEvents, known: KnownTriggers | None = None) -> None:
        self._publisher = publisher
        self._known = known

    def append(self, tx: Tx, rows: Sequence[dict[str, Any]], facts: TriggerFacts | None = None) -> None:
        """Write new event rows (all with the same keys). ``facts`` as in :func:`append`."""
        known = self._known
        unwanted = None if known is None else known.unwanted
        if not append(tx, rows, unwanted, self._publisher, facts) and known is not None:
            known.is_stale = True


# The facts, as parts of a statement that a claim or a result runs anyway: in SQL, and as columns.
FACTS_SQL = (
    HALTED_SQL,
    f"COALESCE((SELECT value FROM {counter.name} WHERE name = '{counters.TRIGGERS}'), 0)",  # noqa: S608
)
FACT_COLUMNS = (
    HALTED.label("triggers_halted"),
    sa.literal_column(FACTS_SQL[1], sa.Integer).label("trigger_changes"),
)
# Built once, because results run it.
_FACTS = sa.select(*FACT_COLUMNS)


def append(
    tx: Tx,
    rows: Sequence[dict[str, Any]],
    unwanted: UnwantedTypes | None,
    publisher: PublishesEvents,
    facts: TriggerFacts | None = None,
) -> bool:
    """Write new pending event rows (all with the same keys), and let ``publisher`` publish all of them.

    Those of ``unwanted`` types become routed. Without ``unwanted``, all of them wait for a router. ``facts`` are those
    that this transaction has read, with :data:`FACT_COLUMNS`; without them they are read now. Returns False when
    ``unwanted`` is out of date.
    """
    if not rows:
        return True
    current = True
    if unwanted is not None:
        # Also when all types are wanted: a trigger that wants them may be deleted.
        facts = facts or TriggerFacts(*tx.execute(_FACTS).one())
        current = facts.trigger_changes == unwanted.trigger_changes
        if current and not facts.halted:
            rows = [_routed(tx, row) if row["type"] in unwanted.types else row for row in rows]
    tx.insert(event, rows, later=True)
    pending = [row["id"] for row in rows if row["state"] == "pending"]
    if pending:
        routing_queue.add(tx, pending, published=True)
        tx.wake("events")
    publisher.put(tx, [event_row.from_mapping(row) for row in rows])
    routed = [row for row in rows if row["state"] == "routed"]
    if routed:
        tx.at_end(lambda committed: _count(routed) if committed else None)
    return current


def _routed(tx: Tx, row: Mapping[str, Any]) -> dict[str, Any]:
    return {**row, "state": "routed", "routed_at": tx.now}


def _count(rows: Sequence[Mapping[str, Any]]) -> None:
    metrics.router_events.labels("unmatched").inc(len(rows))
    for depth, count in Counter(row["depth"] for row in rows).items():
        metrics.observe_many(metrics.causation_depth, depth, count)

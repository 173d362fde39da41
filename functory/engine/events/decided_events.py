"""Decided events: new events of which it is known that no trigger can want them need no router.

They are *routed* in the transaction that writes them, with the columns that a router gives to an event without a match.
The writer publishes them. It decides with what it knows about the triggers, and the transaction asks whether
that still holds: when the triggers have changed, or routing is halted, the events wait for a router like any other.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa

from functory.engine.database import counters
from functory.engine.database.connection import Tx
from functory.engine.database.schema import counter, event, switch
from functory.engine.events import routing_queue
from functory.engine.events.batch_publisher import PublishesEvents
from functory.engine.telemetry import metrics


@dataclass(frozen=True)
class UnwantedTypes:
    """Event types that no trigger can want, as of the value ``trigger_changes`` of the triggers' counter."""

    trigger_changes: int
    types: frozenset[str]


# Built once, because every claim and every result runs it.
_FACTS = sa.select(
    sa.exists(sa.select(switch.c.name)),
    sa.func.coalesce(
        sa.select(counter.c.value).where(counter.c.name == counters.TRIGGERS).scalar_subquery(), 0
    ),
)


def append(
    tx: Tx, rows: Sequence[dict[str, Any]], unwanted: UnwantedTypes | None, publisher: PublishesEvents
) -> None:
    """Write new pending event rows (all with the same keys), and let ``publisher`` publish all of them.

    Those of ``unwanted`` types become routed. Without ``unwanted``, all of them wait for a router.
    """
    if not rows:
        return
    if unwanted is not None and any(row["type"] in unwanted.types for row in rows):
        halted, changes = tuple(tx.execute(_FACTS).one())
        if not halted and changes == unwanted.trigger_changes:
            rows = [_routed(tx, row) if row["type"] in unwanted.types else row for row in rows]
    tx.insert(event, rows)
    pending = [row["id"] for row in rows if row["state"] == "pending"]
    if pending:
        routing_queue.add(tx, pending, published=True)
        tx.wake("events")
    publisher.put(tx, rows)
    routed = [row for row in rows if row["state"] == "routed"]
    if routed:
        tx.at_end(lambda committed: _count(routed) if committed else None)


def _routed(tx: Tx, row: Mapping[str, Any]) -> dict[str, Any]:
    return {**row, "state": "routed", "routed_at": tx.now}


def _count(rows: Sequence[Mapping[str, Any]]) -> None:
    metrics.router_events.labels("unmatched").inc(len(rows))
    for depth, count in Counter(row["depth"] for row in rows).items():
        metrics.observe_many(metrics.causation_depth, depth, count)

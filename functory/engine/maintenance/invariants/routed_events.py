"""Routed events and the decisions about them, for a routing audit: read in batches, one snapshot each."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime

import sqlalchemy as sa

from functory.engine.database.connection import Database
from functory.engine.database.schema import buffered_match, event, firing
from functory.engine.events.event_row import EVENT_COLUMNS, EventRow
from functory.engine.events.store import lowest_id_since

# The engine emits these about its own decisions. They start nothing, or nothing records whether they may.
INERT = ("trigger.suppressed", "trigger.silent", "trigger.paused")


@dataclass(frozen=True)
class RoutedEvent:
    """A routed event, and the ids of the triggers that have a firing of it or let it wait."""

    row: EventRow
    triggers: frozenset[str]


def routed_events(database: Database, since: datetime, batch: int = 1000) -> Iterator[RoutedEvent]:
    """Yield the events that routers decided about, made from ``since`` on, in their order; inert ones are left out."""
    last: str | None = None
    while True:
        with database.read(snapshot=True) as tx:
            wanted = sa.select(*EVENT_COLUMNS).where(
                event.c.id >= lowest_id_since(since), event.c.state == "routed"
            )
            if last is not None:
                wanted = wanted.where(event.c.id > last)
            rows = tx.all(EventRow, wanted.order_by(event.c.id).limit(batch))
            ids = [row.id for row in rows]
            found: dict[str, set[str]] = {}
            for table in (firing, buffered_match):
                pairs = sa.select(table.c.event_id, table.c.trigger_id).where(table.c.event_id.in_(ids))
                for row in tx.rows(pairs) if ids else ():
                    found.setdefault(row["event_id"], set()).add(row["trigger_id"])
        for row in rows:
            if row.type not in INERT:
                yield RoutedEvent(row, frozenset(found.get(row.id, ())))
        if len(rows) < batch:
            return
        last = ids[-1]

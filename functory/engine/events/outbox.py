"""The transactional outbox: events that are committed and not yet published."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import sqlalchemy as sa

from functory.engine.database.connection import Database, Tx
from functory.engine.database.schema import event, outbox
from functory.engine.events.exchange import EventPublisher


def take_unpublished(tx: Tx, limit: int) -> list[dict[str, Any]]:
    """Lock up to ``limit`` events that are not on the exchange yet, in order."""
    statement = (
        sa.select(event)
        .join(outbox, outbox.c.event_id == event.c.id)
        .order_by(outbox.c.event_id)
        .limit(limit)
    )
    return tx.rows(statement.with_for_update(of=outbox, skip_locked=True))


def mark_published(tx: Tx, ids: Sequence[str]) -> None:
    """Record that the exchange has confirmed these events."""
    tx.execute(sa.delete(outbox).where(outbox.c.event_id.in_(ids)))


def publish_outbox(database: Database, publisher: EventPublisher, limit: int = 200) -> list[dict[str, Any]]:
    """Publish the oldest unpublished events and record it. Returns their rows.

    A crash between the two sends them again: subscribers recognise duplicates by the CloudEvents ``id``.
    """
    with database.write() as tx:
        rows = take_unpublished(tx, limit)
        if rows:
            publisher.publish(rows)
            mark_published(tx, [row["id"] for row in rows])
    return rows


def drop_outbox(database: Database, limit: int) -> int:
    """Remove the oldest unpublished events from the outbox, because there is no broker. Returns the number removed."""
    oldest = sa.select(outbox.c.event_id).order_by(outbox.c.event_id).limit(limit)
    oldest = oldest.with_for_update(skip_locked=True)
    with database.write() as tx:
        return tx.execute(sa.delete(outbox).where(outbox.c.event_id.in_(oldest))).rowcount

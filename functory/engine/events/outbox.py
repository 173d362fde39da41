"""The transactional outbox: events that are committed and not yet published."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import sqlalchemy as sa

from functory.engine.database.connection import Database, Tx
from functory.engine.database.schema import Instant, event, outbox
from functory.engine.errors import Unavailable
from functory.engine.events.exchange import EventPublisher

# Built once, because every publisher runs them in every round.
_NOW = sa.bindparam("now", type_=Instant)
_IDS = sa.bindparam("ids", expanding=True)
_UNPUBLISHED = (
    sa.select(event)
    .join(outbox, outbox.c.event_id == event.c.id)
    .where(sa.or_(outbox.c.claimed_until.is_(None), outbox.c.claimed_until < _NOW))
    .order_by(outbox.c.event_id)
    .limit(sa.bindparam("limit", type_=sa.Integer))
    .with_for_update(of=outbox, skip_locked=True)
)
_CLAIMED = (
    sa.update(outbox)
    .where(outbox.c.event_id.in_(_IDS))
    .values(claimed_until=sa.bindparam("until", type_=Instant))
)


def claim_unpublished(tx: Tx, limit: int, seconds: float) -> list[dict[str, Any]]:
    """Claim up to ``limit`` events that are not on the exchange yet, in order, for ``seconds``. Returns their rows."""
    rows = tx.rows(_UNPUBLISHED, {"now": tx.now, "limit": limit})
    if rows:
        until = tx.now + timedelta(seconds=seconds)
        tx.execute(_CLAIMED, {"ids": [row["id"] for row in rows], "until": until})
    return rows


def mark_published(tx: Tx, ids: Sequence[str]) -> None:
    """Record that the exchange has confirmed these events."""
    tx.execute(sa.delete(outbox).where(outbox.c.event_id.in_(ids)))


def publish_outbox(
    database: Database, publisher: EventPublisher, limit: int = 200, *, claim_seconds: float = 30.0
) -> list[dict[str, Any]]:
    """Publish the oldest unpublished events and record it. Returns their rows.

    No transaction is open while the broker is asked. When it fails, the events are free again at once; after a crash,
    when ``claim_seconds`` have passed. What was sent before is then sent again: subscribers recognise duplicates by the
    CloudEvents ``id``.
    """
    with database.write() as tx:
        rows = claim_unpublished(tx, limit, claim_seconds)
    if not rows:
        return rows
    ids = [row["id"] for row in rows]
    try:
        publisher.publish(rows)
    except Exception:
        with contextlib.suppress(Unavailable), database.write() as tx:
            tx.execute(_CLAIMED, {"ids": ids, "until": None})
        raise
    with database.write() as tx:
        mark_published(tx, ids)
    return rows


def drop_outbox(database: Database, limit: int) -> int:
    """Remove the oldest unpublished events from the outbox, because there is no broker. Returns the number removed."""
    oldest = sa.select(outbox.c.event_id).order_by(outbox.c.event_id).limit(limit)
    oldest = oldest.with_for_update(skip_locked=True)
    with database.write() as tx:
        return tx.execute(sa.delete(outbox).where(outbox.c.event_id.in_(oldest))).rowcount

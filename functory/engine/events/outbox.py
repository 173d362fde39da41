"""The transactional outbox: batches of committed events that the broker has not confirmed.

A row is a batch: the ids of events, in the order in which subscribers get them. The transaction that settles who
publishes the events writes it:

- An event that waits for a router has no row. The router writes one for all events that it routes together, and one for
  an event that it cannot route or may not route (:mod:`functory.engine.events.routing_queue`).
- An event that needs no router gets its row with itself.

The process that wrote a row may publish the batch from its memory, after the commit
(:mod:`functory.engine.events.batch_publisher`); the row carries a claim until then. Whatever is left over is read from
the database and published by any publisher (:mod:`functory.engine.maintenance.outbox_publisher`).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import timedelta
from typing import Any

import sqlalchemy as sa

from functory.engine.database.connection import Database, Tx
from functory.engine.database.id_lists import one_of
from functory.engine.database.packed_ids import pack, packed_id, places, unpack
from functory.engine.database.schema import Id, Instant, event, outbox
from functory.engine.events.event_row import EVENT_COLUMNS, EventRow

# Events of one row: a publisher holds them in memory.
MAX_BATCH = 200

# Built once, because every publisher runs them in every round.
_NOW = sa.bindparam("now", type_=Instant)
_FREE = sa.or_(outbox.c.claimed_until.is_(None), outbox.c.claimed_until < _NOW)
_UNPUBLISHED = (
    sa.select(outbox.c.id, outbox.c.event_ids, outbox.c.count)
    .where(_FREE)
    .order_by(outbox.c.id)
    .limit(sa.bindparam("limit", type_=sa.Integer))
    .with_for_update(skip_locked=True)
)
_ANY_FREE = sa.select(sa.literal(1)).select_from(outbox).where(_FREE).limit(1)
_ANY_OF = (
    sa.select(sa.literal(1))
    .select_from(outbox)
    .where(outbox.c.id.between(sa.bindparam("first", type_=Id), sa.bindparam("last", type_=Id)))
    .limit(1)
)
_CLAIMED = (
    sa.update(outbox).where(one_of(outbox.c.id)).values(claimed_until=sa.bindparam("until", type_=Instant))
)
_EVENTS = sa.select(*EVENT_COLUMNS).where(one_of(event.c.id))
_PUBLISHED = sa.delete(outbox).where(one_of(outbox.c.id))


def put(tx: Tx, event_ids: Sequence[str], *, claim_seconds: float | None = None) -> list[str]:
    """Write events into the outbox, in this order. Returns the ids of the new rows.

    With ``claim_seconds`` the caller publishes them itself after the commit, and no other process does for so long.
    Without, publishers are woken.
    """
    until = None if claim_seconds is None else tx.now + timedelta(seconds=claim_seconds)
    rows: list[dict[str, Any]] = []
    for at in range(0, len(event_ids), MAX_BATCH):
        ids = event_ids[at : at + MAX_BATCH]
        rows.append(
            {
                "id": tx.new_id(),
                "event_ids": pack(ids),
                "count": len(ids),
                "first_id": min(ids),
                "time": tx.now,
                "claimed_until": until,
            }
        )
    if rows:
        tx.insert(outbox, rows)
        if claim_seconds is None:
            tx.wake("outbox")
    return [row["id"] for row in rows]


def claim_unpublished(tx: Tx, limit: int, seconds: float) -> tuple[list[str], list[EventRow]]:
    """Claim the oldest batches that no publisher has, for ``seconds``: together at most ``limit`` events, or one batch.

    Returns the ids of the batches, and the rows of their events in order.
    """
    ids: list[str] = []
    event_ids: list[str] = []
    for row in tx.rows(_UNPUBLISHED, {"now": tx.now, "limit": limit}):
        if ids and len(event_ids) + row["count"] > limit:
            break
        ids.append(row["id"])
        event_ids += unpack(row["event_ids"])
    if not ids:
        return [], []
    claim(tx, ids, seconds)
    found = {row.id: row for row in tx.all(EventRow, _EVENTS, {"ids": event_ids})}
    return ids, [found[id_] for id_ in event_ids if id_ in found]


def claim(tx: Tx, ids: Sequence[str], seconds: float | None) -> None:
    """Claim batches for ``seconds``; None: let every publisher have them."""
    until = None if seconds is None else tx.now + timedelta(seconds=seconds)
    tx.execute(_CLAIMED, {"ids": list(ids), "until": until})
    if seconds is None:
        tx.wake("outbox")


def has_unclaimed(tx: Tx) -> bool:
    """Return True while a batch waits for a publisher."""
    return tx.scalar(_ANY_FREE, {"now": tx.now}) is not None


def has_any(tx: Tx, first_id: str, last_id: str) -> bool:
    """Return True while a batch from ``first_id`` to ``last_id`` is not published, claimed or not."""
    return tx.scalar(_ANY_OF, {"first": first_id, "last": last_id}) is not None


def mark_published(tx: Tx, ids: Iterable[str]) -> None:
    """Record that the exchange has confirmed all events of these batches."""
    tx.later(_PUBLISHED, {"ids": list(ids)})


def drop_outbox(database: Database, limit: int) -> int:
    """Remove the oldest batches from the outbox, because there is no broker. Returns the number removed."""
    oldest = sa.select(outbox.c.id).order_by(outbox.c.id).limit(limit).with_for_update(skip_locked=True)
    with database.read() as tx:
        if tx.scalar(sa.select(outbox.c.id).limit(1)) is None:
            return 0
    with database.write() as tx:
        # Not as a part of the DELETE: PostgreSQL may run it there once for each row, and then deletes more.
        ids = list(tx.execute(oldest).scalars())
        if ids:
            tx.execute(_PUBLISHED, {"ids": ids})
    return len(ids)


def unpublished_ids() -> sa.Select[str, Any]:
    """Return the query of the events that the outbox has: ``event_id``, and ``outbox_id`` of the batch."""
    numbers = places(MAX_BATCH)
    return (
        sa.select(
            packed_id(outbox.c.event_ids, numbers.c.place).label("event_id"), outbox.c.id.label("outbox_id")
        )
        .select_from(outbox)
        .join(numbers, numbers.c.place < outbox.c.count)
    )

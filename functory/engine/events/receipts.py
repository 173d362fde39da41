"""Delivery receipts: every arrival at a source becomes one event, however often it is delivered.

The key of an arrival is a delivery id, an offset or a message id. It is a row of ``delivery_receipt``, written in the
transaction of the event, so that any number of processes may ingest the same arrival, and be killed at any time.

Receipts expire, because a busy source would otherwise fill the database. An arrival that comes again after its receipt
expired is a new one, so the age must be longer than any sender repeats a delivery, and longer than the range of a
backfill.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

import sqlalchemy as sa

from functory.engine.database.connection import Database
from functory.engine.database.id_lists import one_of_keys
from functory.engine.database.schema import Instant, delivery_receipt, schedule_tick
from functory.engine.database.transaction import Tx
from functory.engine.events import store as event_store
from functory.engine.events.causation import Cause
from functory.engine.events.lineage_tokens import LineageToken, find_cause
from functory.engine.serialization import json_codec

# Longer keys are stored as their hash.
MAX_KEY = 255
# Expired rows that one transaction deletes, so that it stays short.
BATCH = 1000


@dataclass(frozen=True)
class IncomingEvent:
    """An arrival at a source, before it becomes an event.

    ``key`` identifies it within its source: a second arrival with the same key is dropped; without a key every arrival
    is new. ``content_key`` does the same for what a sender signed, where it did not sign the ``key``. ``time`` is when
    it happened (aware; default: now), ``cause`` the execution that caused it, if known. ``lineage`` is a verified token
    that names the cause. ``depth`` is the depth of an event that continues one of another installation. ``source``
    replaces the source's address in the envelope. ``extensions`` are attributes of the envelope beyond ours.
    ``refusal`` is the reason of a ``source.rejected`` event, a word of
    :data:`functory.engine.sources.refusals.REASONS`.
    """

    type: str
    data: Any = None
    subject: str | None = None
    key: str | None = None
    time: datetime | None = None
    cause: Cause | None = None
    source: str | None = None
    content_key: str | None = None
    extensions: Mapping[str, Any] | None = None
    lineage: LineageToken | None = None
    depth: int = 0
    refusal: str = "other"

    @property
    def stored_keys(self) -> list[str]:
        """The keys as the table holds them."""
        return [_stored_key(key) for key in (self.key, self.content_key) if key is not None]


def ingest(tx: Tx, source_id: str, address: str, arrivals: Sequence[IncomingEvent]) -> list[str | None]:
    """Write the events of ``arrivals``. Returns an event id for each; None for an arrival that came before.

    ``address`` is the envelope's ``source``. Types and data are not checked here: a source checks its input before it
    makes an :class:`IncomingEvent`.
    """
    tokens = {one.lineage for one in arrivals if one.lineage is not None}
    causes = {token: find_cause(tx, token) for token in sorted(tokens)}
    rows = [
        event_store.record(
            tx,
            one.type,
            one.subject,
            one.data,
            source=one.source or address,
            cause=causes[one.lineage] if one.lineage is not None else one.cause,
            time=one.time,
            extensions=one.extensions,
            depth=one.depth,
        )
        for one in arrivals
    ]
    fresh: dict[str, str] = {}
    for one, row in zip(arrivals, rows, strict=True):
        for key in one.stored_keys:
            fresh.setdefault(key, row["id"])
    new = tx.insert_returning(
        delivery_receipt,
        [
            {"source_id": source_id, "key": key, "event_id": id_, "time": tx.now}
            for key, id_ in sorted(fresh.items())
        ],
        delivery_receipt.c.key,
    )
    taken: list[str | None] = []
    for one, row in zip(arrivals, rows, strict=True):
        keys = one.stored_keys
        own = [key for key in keys if key in new and fresh[key] == row["id"]]
        taken.append(row["id"] if len(own) == len(keys) else None)
        if own and len(own) < len(keys):
            _point_to_first_event(tx, source_id, own, keys, fresh)
    event_store.append(tx, [row for row in rows if row["id"] in set(taken)])
    return taken


def _point_to_first_event(
    tx: Tx, source_id: str, own: list[str], keys: list[str], fresh: dict[str, str]
) -> None:
    """Let the new receipts of an arrival that came before under another key name the event of that key."""
    here = delivery_receipt.c.source_id == source_id
    (known,) = set(keys) - set(own)
    first = tx.scalar(sa.select(delivery_receipt.c.event_id).where(here, delivery_receipt.c.key == known))
    fresh |= dict.fromkeys(own, str(first))
    tx.execute(
        sa.update(delivery_receipt).where(here, delivery_receipt.c.key.in_(own)).values(event_id=first)
    )


def find_event_id(tx: Tx, source_id: str, arrival: IncomingEvent) -> str | None:
    """Return the id of the event that an arrival with a key of this one became; None if there is no receipt."""
    keys = arrival.stored_keys
    if not keys:
        return None
    return tx.scalar(
        sa.select(delivery_receipt.c.event_id)
        .where(delivery_receipt.c.source_id == source_id, delivery_receipt.c.key.in_(keys))
        .limit(1)
    )


def delete_expired(database: Database, older_than: timedelta, batch: int = BATCH) -> dict[str, int]:
    """Delete up to ``batch`` receipts and as many schedule ticks older than ``older_than``. Returns both counts."""
    done: dict[str, int] = {}
    for table in (delivery_receipt, schedule_tick):
        keys = list(table.primary_key.columns)
        with database.read() as tx:
            # Most rounds find no row, and must not take the one writer of SQLite.
            if tx.scalar(_any_before(table), {"cutoff": tx.now - older_than}) is None:
                done[table.name] = 0
                continue
        with database.write() as tx:
            old = (
                sa.select(*keys).where(table.c.time < tx.now - older_than).order_by(table.c.time).limit(batch)
            )
            old = old.with_for_update(skip_locked=True)
            rows = [tuple(row.values()) for row in tx.rows(old)]
            if rows:
                tx.execute(sa.delete(table).where(one_of_keys(keys, rows)))
            done[table.name] = len(rows)
    return done


@functools.cache
def _any_before(table: sa.Table) -> sa.Select[Any]:
    return sa.select(sa.literal(1)).where(table.c.time < sa.bindparam("cutoff", type_=Instant)).limit(1)


def _stored_key(key: str) -> str:
    """Return a key as the table holds it: text that every database can store, at most 255 characters."""
    shown = key.replace("\x00", "\\x00").encode("utf-8", "backslashreplace").decode()
    return shown if 0 < len(shown) <= MAX_KEY and shown == key else f"sha256:{json_codec.digest(key)}"

"""How events of the world outside get in: each arrival once, by the key that it has by nature.

A delivery id, an offset, a message id: what a source calls the same arrival when it hears of it twice. The key
is a row of table ``receipt``, written in the transaction of the event, so that any number of processes may hear of
the same arrival, and be killed at any moment, and it becomes one event.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import sqlalchemy as sa

from functory.engine.database.schema import delivery_receipt
from functory.engine.database.transaction import Tx
from functory.engine.events import store as event_store
from functory.engine.events.causation import Cause
from functory.engine.serialization import json_codec

# Longer keys are kept as their hash.
MAX_KEY = 255


@dataclass(frozen=True)
class IncomingEvent:
    """Something that happened outside, to become an event.

    ``key`` names it within its source: the second arrival with the same one becomes nothing; without one each is
    new. ``time`` is when it happened (aware; the present without it), ``cause`` the execution that is known to
    have brought it about. ``source`` replaces the address of the source in the envelope.
    """

    type: str
    data: Any = None
    subject: str | None = None
    key: str | None = None
    time: datetime | None = None
    cause: Cause | None = None
    source: str | None = None


def ingest(tx: Tx, source_id: str, address: str, arrivals: Sequence[IncomingEvent]) -> list[str | None]:
    """Write the events of ``arrivals``. Returns an event id each; None for what had arrived before.

    ``address`` is the envelope's ``source``. Types and data are not checked here: a source checks what comes from
    outside before it makes an arrival of it.
    """
    rows = [
        event_store.record(
            tx,
            one.type,
            one.subject,
            one.data,
            source=one.source or address,
            cause=one.cause,
            time=one.time,
        )
        for one in arrivals
    ]
    fresh: dict[str, str] = {}
    for one, row in zip(arrivals, rows, strict=True):
        if one.key is not None:
            fresh.setdefault(_stored_key(one.key), row["id"])
    new = tx.insert_returning(
        delivery_receipt,
        [
            {"source_id": source_id, "key": key, "event_id": id_, "time": tx.now}
            for key, id_ in sorted(fresh.items())
        ],
        delivery_receipt.c.event_id,
    )
    taken: list[str | None] = [
        row["id"] if one.key is None or row["id"] in new else None
        for one, row in zip(arrivals, rows, strict=True)
    ]
    event_store.append(tx, [row for row in rows if row["id"] in set(taken)])
    return taken


def find_event_id(tx: Tx, source_id: str, key: str) -> str | None:
    """The event that the arrival with ``key`` became, if it has come before."""
    return tx.scalar(
        sa.select(delivery_receipt.c.event_id).where(
            delivery_receipt.c.source_id == source_id, delivery_receipt.c.key == _stored_key(key)
        )
    )


def _stored_key(key: str) -> str:
    """A key as the table holds it: text that every database can store, at most 255 letters."""
    shown = key.replace("\x00", "\\x00").encode("utf-8", "backslashreplace").decode()
    return shown if 0 < len(shown) <= MAX_KEY and shown == key else f"sha256:{json_codec.digest(key)}"

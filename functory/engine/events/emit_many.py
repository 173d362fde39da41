"""Many events in one transaction: all of them are written, or none."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa

from functory.engine.database import audit
from functory.engine.database.connection import Database
from functory.engine.database.schema import event
from functory.engine.database.transaction import Tx
from functory.engine.errors import Invalid
from functory.engine.events import causation
from functory.engine.events import store as event_store
from functory.engine.events.causation import Cause
from functory.engine.serialization import json_codec

# One call holds its events in memory, and one transaction writes them.
MAX_EVENTS = 10_000
MAX_TOTAL_BYTES = 64 * 1024 * 1024
# Types of a call that its entry in the audit log names.
LISTED_TYPES = 20

FIELDS = ("type", "data", "subject", "dedup_key")


@dataclass(frozen=True)
class NewEvent:
    """A checked event that is to be written; ``size`` are the bytes of its data as JSON."""

    type: str
    data: Any
    subject: str | None
    dedup_key: str | None
    size: int


def check(given: Any, name: str, max_bytes: int) -> NewEvent:
    """Return an event given as an object with ``type`` and optionally ``data``, ``subject`` and ``dedup_key``.

    Raises :class:`Invalid`, which begins with ``name``.
    """
    try:
        return _check(given, max_bytes)
    except Invalid as error:
        raise Invalid(f"{name}: {error.what}", error.why, error.try_) from None


def check_all(given: Iterable[Any], max_bytes: int) -> list[NewEvent]:
    """Return checked events. Raises :class:`Invalid` with the number of the first wrong one, counted from 1."""
    checked: list[NewEvent] = []
    total = 0
    for number, one in enumerate(given, 1):
        if number > MAX_EVENTS:
            raise Invalid("too many events", f"one call takes at most {MAX_EVENTS:,}", "emit them in parts")
        checked.append(check(one, f"event {number}", max_bytes))
        total += checked[-1].size
        if total > MAX_TOTAL_BYTES:
            raise Invalid(
                "the events are too large",
                f"the first {number:,} have {total:,} bytes; one call takes at most {MAX_TOTAL_BYTES:,}",
                "emit them in parts",
            )
    return checked


def write(
    database: Database,
    events: Sequence[NewEvent],
    *,
    source: str = "/functory/api",
    cause: Cause | None = None,
    author: str = "",
) -> list[str]:
    """Write ``events`` in one transaction. Returns their ids, in order.

    An event whose ``dedup_key`` was used before is not written; its id is that of the first one. With a ``cause`` they
    belong to that execution's tree, and are refused for a zombie. With an ``author`` the audit log gets one entry for
    all that are written.
    """

    audited = audit.from_here(author, "event.emit")

    def work(tx: Tx) -> list[str]:
        rows, ids = append(tx, events, source=source, cause=cause)
        new = {row["id"]: row["type"] for row, id_ in zip(rows, ids, strict=True) if row["id"] == id_}
        if new:
            types = list(dict.fromkeys(new.values()))[:LISTED_TYPES]
            audited(tx, next(iter(new)), {"types": types, "count": len(new)})
        return ids

    return database.group_commit(work) if events else []


def append(
    tx: Tx, events: Sequence[NewEvent], *, source: str, cause: Cause | None
) -> tuple[list[dict[str, Any]], list[str]]:
    """Append what is new. Returns the row and the id of each event: those of a used ``dedup_key`` differ."""
    causation.check_fence(tx, cause)
    rows = [
        event_store.record(
            tx, one.type, one.subject, one.data, source=source, cause=cause, dedup_key=one.dedup_key
        )
        for one in events
    ]
    event_store.append(tx, [row for row in rows if row["dedup_key"] is None])
    first: dict[str, dict[str, Any]] = {}
    for row in rows:
        if row["dedup_key"] is not None:
            first.setdefault(row["dedup_key"], row)
    # In sorted order, so that two calls with the same keys do not wait for each other.
    keyed = [row for _, row in sorted(first.items())]
    written = event_store.append_new(tx, keyed) if keyed else set()
    ids = {key: row["id"] for key, row in first.items() if row["id"] in written}
    known = sorted(first.keys() - ids.keys())
    if known:
        ids |= tx.pairs(sa.select(event.c.dedup_key, event.c.id).where(event.c.dedup_key.in_(known)))
    return rows, [str(ids.get(row["dedup_key"], row["id"])) for row in rows]


def _check(given: Any, max_bytes: int) -> NewEvent:
    if not isinstance(given, Mapping):
        raise Invalid("this is no event", 'it must be an object, such as {"type": "order.created"}')
    unknown = [name for name in given if name not in FIELDS]
    if unknown:
        raise Invalid(f"an event has no field {unknown[0]!r}", f"its fields are {', '.join(FIELDS)}")
    if "type" not in given:
        raise Invalid("the event has no type", try_='{"type": "order.created", "data": {"sku": "A1"}}')
    event_store.check_type(given["type"])
    data = json_codec.from_python(given.get("data"), "event")
    size = event_store.check_data(data, max_bytes)
    event_store.check_subject(given.get("subject"))
    event_store.check_key(given.get("dedup_key"), "dedup_key")
    return NewEvent(given["type"], data, given.get("subject"), given.get("dedup_key"), size)

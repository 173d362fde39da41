"""Match buffers: matches that wait for more events or for time to pass (debounce, batch, composites).

A buffer belongs to a trigger and a key. Its row is locked before anything in it changes. A waiting match is a row of
table ``buffered_match``, written in the transaction that routes its event; its firing is written in the transaction
that deletes the row, so no match is lost in between. :mod:`functory.triggers.routing.buffer_release` decides what
becomes of a buffer; this module writes the decisions, and :mod:`functory.engine.flow_control.due_buffers` finds the
buffers that need one.

Transactions that wait for locks take them in the order of the keys.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

import sqlalchemy as sa

from functory.engine.database.schema import Id, Instant, buffered_match, event, match_buffer, trigger
from functory.engine.database.transaction import Tx
from functory.engine.events.event_row import EVENT_COLUMNS, FIRING_COLUMNS, EventRow, FiringEvent
from functory.engine.flow_control.controls import NO_CONTROLS, Controls, Key
from functory.engine.flow_control.trigger_row import TriggerRow

# Buffers that follow the events' own time: they wait until all events before their ``due_at`` have been routed.
EVENT_TIME_KIND = "composite"

# A buffer that becomes due earlier than before, or within this time, wakes the release service.
WAKE_THRESHOLD = timedelta(seconds=1)

# Rows that one statement names at most.
CHUNK = 500

BufferKey = tuple[str, str]


@dataclass(frozen=True)
class BufferedMatch:
    """A match that waits in a buffer.

    ``kind`` is the control that it waits for, ``parts`` has a bit for each part of a composite that it stands for,
    ``size`` is the size of its data in bytes. ``since`` is when it began to wait, if it has waited before.
    """

    trigger: TriggerRow
    key: Key
    kind: str = "debounce"
    parts: int = 1
    size: int = 0
    controls: Controls = NO_CONTROLS
    since: datetime | None = None


class WaitingRow(FiringEvent, frozen=True):
    """A match that waits in a locked buffer, with what a firing needs of its event."""

    trigger_id: str
    key: str
    trigger_version: int
    parts: int
    bytes: int
    round: int
    event_time: datetime
    since: datetime


@dataclass(frozen=True)
class LockedBuffer:
    """A buffer that is locked until the commit, as it is with its new ``matches`` (event row, match).

    ``count`` and ``bytes`` are of all matches in it, the new ones included; ``memory`` is what the last decision left.
    """

    trigger_id: str
    key: str
    opened_at: datetime
    due_at: datetime | None
    count: int
    bytes: int
    memory: Any
    round: int
    matches: Sequence[tuple[EventRow, BufferedMatch]]


@dataclass(frozen=True)
class BufferUpdate:
    """The state of a buffer after a decision: its next due time, memory, and number and bytes of the matches that
    stay. ``opened_at`` is when those began to wait. ``keep_when_empty`` keeps its row without matches."""

    due_at: datetime | None
    memory: Any
    count: int
    bytes: int
    opened_at: datetime
    kind: str
    changed: int
    keep_when_empty: bool = False


def lock(tx: Tx, matches: Sequence[tuple[EventRow, BufferedMatch]]) -> list[LockedBuffer]:
    """Lock the buffers of these matches (event row, match), and create those that are missing.

    The rows count the new matches already. :func:`put` writes them, in the same transaction.
    """
    groups: dict[BufferKey, list[tuple[EventRow, BufferedMatch]]] = defaultdict(list)
    for row, one in matches:
        groups[one.trigger.id, one.key.hash].append((row, one))
    keys = sorted(groups)
    locked: list[LockedBuffer] = []
    for start in range(0, len(keys), CHUNK):
        for found in _upsert_buffers(tx, [groups[key] for key in keys[start : start + CHUNK]]):
            key = found["trigger_id"], found["key"]
            locked.append(
                LockedBuffer(
                    *key,
                    opened_at=found["opened_at"],
                    due_at=found["due_at"],
                    count=found["count"],
                    bytes=found["bytes"],
                    memory=found["memory"],
                    round=found["round"],
                    matches=groups[key],
                )
            )
    return locked


def put(tx: Tx, buffers: Sequence[tuple[LockedBuffer, datetime | None]]) -> None:
    """Write the new matches of locked buffers, and when each buffer is due from now on."""
    changed: list[dict[str, Any]] = []
    for buffer, due_at in buffers:
        if due_at != buffer.due_at:
            changed.append({"t": buffer.trigger_id, "k": buffer.key, "at": due_at})
        if due_at is not None and (
            buffer.due_at is None or due_at < max(buffer.due_at, tx.now + WAKE_THRESHOLD)
        ):
            tx.wake("flow")
    tx.insert(
        buffered_match,
        [_row(tx, row, one, buffer.round) for buffer, _ in buffers for row, one in buffer.matches],
    )
    if changed:
        tx.execute(_DUE_AT, sorted(changed, key=lambda one: (one["t"], one["k"])))


def _upsert_buffers(
    tx: Tx, groups: Sequence[Sequence[tuple[EventRow, BufferedMatch]]]
) -> list[dict[str, Any]]:
    """Create or lock the buffers of these groups and count their matches in. Returns the new rows.

    An upsert, because another transaction may delete a buffer that it has just emptied.
    """
    rows: list[dict[str, Any]] = []
    for group in groups:
        first = group[0][1]
        begun = [one.since or tx.now for _, one in group]
        rows.append(
            {
                "trigger_id": first.trigger.id,
                "key": first.key.hash,
                "text": first.key.text,
                "kind": first.kind,
                "opened_at": min(begun),
                "due_at": None,
                "memory": None,
                "count": len(group),
                "bytes": sum(one.size for _, one in group),
                "round": 0,
                "changed": first.trigger.changed,
            }
        )
    return tx.upsert(match_buffer, rows, _count_in)()


def _count_in(new: Any) -> dict[str, Any]:
    begun_again = sa.or_(match_buffer.c.count == 0, match_buffer.c.opened_at > new.opened_at)
    return {
        "count": match_buffer.c.count + new["count"],
        "bytes": match_buffer.c.bytes + new["bytes"],
        "opened_at": sa.case((begun_again, new.opened_at), else_=match_buffer.c.opened_at),
    }


def _row(tx: Tx, row: EventRow, one: BufferedMatch, round_: int) -> dict[str, Any]:
    return {
        "trigger_id": one.trigger.id,
        "event_id": row.id,
        "part": (one.parts & -one.parts).bit_length() - 1,
        "parts": one.parts,
        "key": one.key.hash,
        "trigger_version": one.trigger.version,
        # A time in the future would keep the buffer open until then.
        "event_time": min(row.time, tx.now),
        "bytes": one.size,
        "round": round_,
        "root_id": row.root_id,
        "time": one.since or tx.now,
    }


def create_missing(tx: Tx, triggers: Sequence[TriggerRow]) -> None:
    """Create missing buffers of triggers that wait without any event (absence). They are due at once."""
    rows = [
        {
            "trigger_id": row.id,
            "key": "",
            "text": "",
            "kind": EVENT_TIME_KIND,
            "opened_at": tx.now,
            "due_at": tx.now,
            "memory": None,
            "changed": row.changed,
        }
        for row in triggers
    ]
    tx.insert_missing(match_buffer, sorted(rows, key=lambda row: row["trigger_id"]))


def load_matches(tx: Tx, places: Sequence[BufferKey]) -> dict[BufferKey, list[WaitingRow]]:
    """Return the matches of locked buffers, each with the columns of its event that a firing needs."""
    found: dict[BufferKey, list[WaitingRow]] = {place: [] for place in places}
    for start in range(0, len(places), CHUNK):
        chunk = set(sorted(places)[start : start + CHUNK])
        # Not pairs: SQLite would scan the whole table for them. Matches of other buffers are skipped below.
        asked = {"ids": sorted({place[0] for place in chunk}), "keys": sorted({place[1] for place in chunk})}
        for row in tx.all(WaitingRow, _MATCHES, asked):
            place = (row.trigger_id, row.key)
            if place in chunk:
                found[place].append(row)
    return found


def load_events(tx: Tx, ids: Collection[str]) -> dict[str, EventRow]:
    """Return the complete rows of these events, by id."""
    found: dict[str, EventRow] = {}
    wanted = sorted(set(ids))
    for start in range(0, len(wanted), CHUNK):
        asked = {"ids": wanted[start : start + CHUNK]}
        found |= {row.id: row for row in tx.all(EventRow, _WHOLE, asked)}
    return found


def write_decisions(
    tx: Tx, decided: Mapping[str, Collection[str]], updates: Mapping[BufferKey, BufferUpdate]
) -> None:
    """Delete the decided matches (event ids by trigger), and write the new state of locked buffers."""
    for trigger_id, ids in sorted(decided.items()):
        gone = sorted(ids)
        for start in range(0, len(gone), CHUNK):
            tx.execute(_OVER, {"t": trigger_id, "ids": gone[start : start + CHUNK]})
    empty = [
        {"t": t, "k": k}
        for (t, k), one in sorted(updates.items())
        if not one.count and not one.keep_when_empty
    ]
    if empty:
        tx.execute(_EMPTIED, empty)
    stay = [
        {
            "t": t,
            "k": k,
            "due": one.due_at,
            "what": one.memory,
            "n": one.count,
            "size": one.bytes,
            "opened": one.opened_at,
            "of": one.kind,
            "seen": one.changed,
        }
        for (t, k), one in sorted(updates.items())
        if one.count or one.keep_when_empty
    ]
    if stay:
        tx.execute(_DECIDED, stay)


def postpone(tx: Tx, places: Sequence[BufferKey], until: datetime) -> None:
    """Make locked buffers due at ``until``, because no decision about them was possible."""
    if places:
        tx.execute(_POSTPONED, [{"t": t, "k": k, "at": until} for t, k in sorted(places)])


# Built once, because flow control runs them in every round, or a router for every batch.
_IDS = sa.bindparam("ids", expanding=True, type_=Id)
_AT = sa.bindparam("at", type_=Instant)
_OF = buffered_match.c.trigger_id == sa.bindparam("t", type_=Id)
_PLACE = (match_buffer.c.trigger_id == sa.bindparam("t", type_=Id), match_buffer.c.key == sa.bindparam("k"))

_MATCHES = (
    sa.select(
        *FIRING_COLUMNS,
        buffered_match.c.trigger_id,
        buffered_match.c.key,
        buffered_match.c.trigger_version,
        buffered_match.c.parts,
        buffered_match.c.bytes,
        buffered_match.c.round,
        buffered_match.c.event_time,
        buffered_match.c.time.label("since"),
    )
    .join(event, event.c.id == buffered_match.c.event_id)
    .where(
        buffered_match.c.trigger_id.in_(_IDS), buffered_match.c.key.in_(sa.bindparam("keys", expanding=True))
    )
    .order_by(buffered_match.c.event_id)
)
_WHOLE = sa.select(*EVENT_COLUMNS).where(event.c.id.in_(_IDS))

_DUE_AT = sa.update(match_buffer).where(*_PLACE).values(due_at=_AT)
_OVER = sa.delete(buffered_match).where(_OF, buffered_match.c.event_id.in_(_IDS))
_EMPTIED = sa.delete(match_buffer).where(*_PLACE)
_UPDATE_PARAMETERS = {
    "due_at": "due",
    "memory": "what",
    "count": "n",
    "bytes": "size",
    "opened_at": "opened",
    "kind": "of",
    "changed": "seen",
}
_DECIDED = (
    sa.update(match_buffer)
    .where(*_PLACE)
    .values(
        round=match_buffer.c.round + 1,
        **{
            name: sa.bindparam(key, type_=match_buffer.c[name].type)
            for name, key in _UPDATE_PARAMETERS.items()
        },
    )
)
_POSTPONED = (
    sa.update(match_buffer)
    .where(*_PLACE)
    .values(
        due_at=_AT,
        changed=sa.select(trigger.c.changed)
        .where(trigger.c.id == match_buffer.c.trigger_id)
        .scalar_subquery(),
    )
)

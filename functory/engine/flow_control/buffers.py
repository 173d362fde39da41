"""Matches that wait for more events or for time to pass: debounce, batch and composites share these rows.

A bucket is a (trigger, key); its row is what is locked to change anything in it. A match that waits is a row of table
``hold``, written in the transaction that routes its event, so nothing is lost between the two; its firing is written in
the transaction that deletes the row. What becomes of a bucket is the ``triggers`` package's to say
(``triggers.routing.buffer_release``); this module finds the buckets that are due, locks them, and writes what was said.

Rows are locked in the order of their keys by who waits for them; who takes what is due skips what is locked.
"""

from __future__ import annotations

import functools
from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

import sqlalchemy as sa

from functory.engine.database.schema import Id, Instant, buffered_match, event, match_buffer, trigger
from functory.engine.database.transaction import Tx, insert_for
from functory.engine.flow_control.controls import NO_CONTROLS, Controls, Key

# Buckets that go by the events' own time: they wait until all events before their moment have been routed.
EVENT_TIME_KIND = "composite"

# A bucket that is due sooner than this, or sooner than it was, wakes those who take turns; all others they know of.
WAKE_THRESHOLD = timedelta(seconds=1)

# Rows that one statement names.
CHUNK = 500

# What is read of the event of a match that waits: enough for a firing that tells why it does not fire.
_LIGHT = ("id", "subject", "root_id", "cause_execution_id", "depth", "chain", "time")

BufferKey = tuple[str, str]


@dataclass(frozen=True)
class BufferedMatch:
    """A match that waits in a buffer.

    ``kind`` is the control that it waits for, ``parts`` has a bit for each part of a composite that it stands for,
    ``size`` is the size of its data in bytes. ``since`` is when it began to wait, if it has waited before.
    """

    trigger: Mapping[str, Any]
    key: Key
    kind: str = "debounce"
    parts: int = 1
    size: int = 0
    controls: Controls = NO_CONTROLS
    since: datetime | None = None


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
    matches: Sequence[tuple[Mapping[str, Any], BufferedMatch]]


@dataclass(frozen=True)
class BufferUpdate:
    """What becomes of a bucket: the moment it is due, what it remembers, and the matches that stay in it; ``keep`` it
    even when there are none. ``opened_at`` is when those began to wait."""

    due_at: datetime | None
    memory: Any
    count: int
    bytes: int
    opened_at: datetime
    kind: str
    changed: int
    keep_when_empty: bool = False


def lock(tx: Tx, matches: Sequence[tuple[Mapping[str, Any], BufferedMatch]]) -> list[LockedBuffer]:
    """Lock the buffers of these matches (event row, match), and create those that are missing.

    The new matches are counted in. :func:`put` writes them, in the same transaction.
    """
    groups: dict[BufferKey, list[tuple[Mapping[str, Any], BufferedMatch]]] = defaultdict(list)
    for row, one in matches:
        groups[one.trigger["id"], one.key.hash].append((row, one))
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
    tx: Tx, groups: Sequence[Sequence[tuple[Mapping[str, Any], BufferedMatch]]]
) -> list[dict[str, Any]]:
    """Make or lock the buckets of these groups, with their matches counted in; the rows as they are then.

    An upsert and not a look before it: a bucket may be deleted by whoever has just emptied it.
    """
    rows: list[dict[str, Any]] = []
    for group in groups:
        first = group[0][1]
        begun = [one.since or tx.now for _, one in group]
        rows.append(
            {
                "trigger_id": first.trigger["id"],
                "key": first.key.hash,
                "text": first.key.text,
                "kind": first.kind,
                "opened_at": min(begun),
                "due_at": None,
                "memory": None,
                "count": len(group),
                "bytes": sum(one.size for _, one in group),
                "round": 0,
                "changed": first.trigger["changed"],
            }
        )
    # Rows beside the statement, not in it: it is compiled once for any number.
    return tx.rows(_entering(tx.dialect), rows)


@functools.cache
def _entering(dialect: str) -> Any:
    statement = insert_for(dialect)(match_buffer)
    new = statement.excluded
    begun_again = sa.or_(match_buffer.c.count == 0, match_buffer.c.opened_at > new.opened_at)
    statement = statement.on_conflict_do_update(
        index_elements=[match_buffer.c.trigger_id, match_buffer.c.key],
        set_={
            "count": match_buffer.c.count + new["count"],
            "bytes": match_buffer.c.bytes + new["bytes"],
            "opened_at": sa.case((begun_again, new.opened_at), else_=match_buffer.c.opened_at),
        },
    )
    return statement.returning(match_buffer)


def _row(tx: Tx, row: Mapping[str, Any], one: BufferedMatch, round_: int) -> dict[str, Any]:
    return {
        "trigger_id": one.trigger["id"],
        "event_id": row["id"],
        "part": (one.parts & -one.parts).bit_length() - 1,
        "parts": one.parts,
        "key": one.key.hash,
        "trigger_version": one.trigger["version"],
        # A time to come would hold the bucket open until then.
        "event_time": min(row["time"], tx.now),
        "bytes": one.size,
        "round": round_,
        "root_id": row["root_id"],
        "time": one.since or tx.now,
    }


def routed_until(tx: Tx) -> datetime:
    """The moment up to which all events that were written have been routed: the present, or the time of the first one
    that waits for a router. Events that no router could decide about so far do not count.

    Read before the matches that depend on it: what was routed up to then is seen by later reads.
    """
    first = tx.scalar(_FIRST_PENDING)
    return tx.now if first is None else min(first, tx.now)


def next_due(tx: Tx) -> datetime | None:
    """When the first bucket of an enabled trigger is due."""
    return tx.scalar(_NEXT_DUE)


def are_due(tx: Tx, routed_until: datetime) -> bool:
    """Whether :func:`take_due` would find any. A look that locks nothing."""
    return tx.scalar(_ANY_DUE, {"now": tx.now, "known": routed_until}) is not None


def lock_due(tx: Tx, routed_until: datetime, limit: int) -> list[dict[str, Any]]:
    """Lock up to ``limit`` buckets that are due, those that nobody else has; ``known`` is what :func:`known_to` said.

    Each with its trigger's ``name``, ``version``, ``state``, ``changed_to`` (its ``changed`` now) and ``armed_at``.
    """
    return tx.rows(_TAKE_DUE, {"now": tx.now, "known": routed_until, "limit": limit})


def lock_changed(tx: Tx, limit: int) -> list[dict[str, Any]]:
    """Lock up to ``limit`` buckets whose trigger has changed since they were decided about, or is deleted."""
    return tx.rows(_TAKE_CHANGED, {"limit": limit})


def lock_one(tx: Tx, place: BufferKey) -> list[dict[str, Any]]:
    """Lock one bucket if it is there and nobody else has it: a list of it, or an empty one."""
    return tx.rows(_TAKE_ONE, {"t": place[0], "k": place[1]})


def create_missing(tx: Tx, triggers: Sequence[Mapping[str, Any]]) -> None:
    """Make the buckets of triggers that wait by themselves, where they are missing; they are due at once."""
    rows = [
        {
            "trigger_id": row["id"],
            "key": "",
            "text": "",
            "kind": EVENT_TIME_KIND,
            "opened_at": tx.now,
            "due_at": tx.now,
            "memory": None,
            "changed": row["changed"],
        }
        for row in triggers
    ]
    tx.insert_missing(match_buffer, sorted(rows, key=lambda row: row["trigger_id"]))


def load_matches(tx: Tx, places: Sequence[BufferKey]) -> dict[BufferKey, list[dict[str, Any]]]:
    """The matches that wait in locked buckets, each with what a firing needs of its event."""
    found: dict[BufferKey, list[dict[str, Any]]] = {place: [] for place in places}
    for start in range(0, len(places), CHUNK):
        chunk = set(sorted(places)[start : start + CHUNK])
        # Not pairs: SQLite would read the whole table for them. What other buckets have is left out below.
        asked = {"ids": sorted({place[0] for place in chunk}), "keys": sorted({place[1] for place in chunk})}
        for row in tx.rows(_MATCHES, asked):
            place = (row["trigger_id"], row["key"])
            if place in chunk:
                found[place].append(row)
    return found


def load_events(tx: Tx, ids: Collection[str]) -> dict[str, dict[str, Any]]:
    """The events of these ids, with everything."""
    found: dict[str, dict[str, Any]] = {}
    wanted = sorted(set(ids))
    for start in range(0, len(wanted), CHUNK):
        found |= {row["id"]: row for row in tx.rows(_WHOLE, {"ids": wanted[start : start + CHUNK]})}
    return found


def write_decisions(
    tx: Tx, decided: Mapping[str, Collection[str]], updates: Mapping[BufferKey, BufferUpdate]
) -> None:
    """Delete the matches that are decided (event ids by trigger), and write what is ``left`` of locked buckets."""
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
    """Look at locked buckets again only then: nothing could be decided about them."""
    if places:
        tx.execute(_POSTPONED, [{"t": t, "k": k, "at": until} for t, k in sorted(places)])


_COLUMNS = (
    *match_buffer.c,
    trigger.c.name,
    trigger.c.version,
    trigger.c.state,
    trigger.c.changed.label("changed_to"),
    trigger.c.updated_at.label("armed_at"),
)


def _live(*what: Any) -> sa.Select[Any]:
    """Of the buckets whose trigger decides: not those of a paused one, which wait until it is resumed or deleted."""
    statement: Any = (
        sa.select(*what).select_from(match_buffer).join(trigger, trigger.c.id == match_buffer.c.trigger_id)
    )
    return statement.where(trigger.c.state.in_(("enabled", "deleted")))


# Asked in every turn of flow control, or for every batch of a router: built once.
_LIMIT = sa.bindparam("limit", type_=sa.Integer)
_IDS = sa.bindparam("ids", expanding=True, type_=Id)
_AT = sa.bindparam("at", type_=Instant)
_OF = buffered_match.c.trigger_id == sa.bindparam("t", type_=Id)
_PLACE = (match_buffer.c.trigger_id == sa.bindparam("t", type_=Id), match_buffer.c.key == sa.bindparam("k"))

_FIRST_PENDING = (
    sa.select(event.c.time)
    .where(event.c.state == "pending", event.c.route_attempts == 0)
    .order_by(event.c.id)
    .limit(1)
)
# Not min(): the index gives the first without reading the others.
_NEXT_DUE = (
    _live(match_buffer.c.due_at)
    .where(match_buffer.c.due_at.is_not(None))
    .order_by(match_buffer.c.due_at)
    .limit(1)
)

# The moment is said twice: with the first the index finds them, with the second it leaves out those too early.
_DUE = (
    match_buffer.c.due_at <= sa.bindparam("now", type_=Instant),
    sa.or_(
        match_buffer.c.kind != EVENT_TIME_KIND, match_buffer.c.due_at <= sa.bindparam("known", type_=Instant)
    ),
)
_ANY_DUE = _live(sa.literal(1)).where(*_DUE).limit(1)
_TAKE_DUE = (
    _live(*_COLUMNS)
    .where(*_DUE)
    .order_by(match_buffer.c.due_at, match_buffer.c.trigger_id, match_buffer.c.key)
    .limit(_LIMIT)
    .with_for_update(of=match_buffer, skip_locked=True)
)
_TAKE_CHANGED = (
    _live(*_COLUMNS)
    .where(match_buffer.c.changed < trigger.c.changed)
    .order_by(match_buffer.c.trigger_id, match_buffer.c.key)
    .limit(_LIMIT)
    .with_for_update(of=match_buffer)
)
_TAKE_ONE = _live(*_COLUMNS).where(*_PLACE).with_for_update(of=match_buffer, skip_locked=True)
_MATCHES = (
    sa.select(
        *(
            buffered_match.c[name]
            for name in ("trigger_id", "key", "trigger_version", "parts", "bytes", "round")
        ),
        buffered_match.c.event_time,
        buffered_match.c.time.label("since"),
        *(event.c[name] for name in _LIGHT),
    )
    .join(event, event.c.id == buffered_match.c.event_id)
    .where(
        buffered_match.c.trigger_id.in_(_IDS), buffered_match.c.key.in_(sa.bindparam("keys", expanding=True))
    )
    .order_by(buffered_match.c.event_id)
)
_WHOLE = sa.select(event).where(event.c.id.in_(_IDS))

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

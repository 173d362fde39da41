"""Lanes: of all executions with a key, so many run at a time, and the others stand in line.

An execution has a row of table ``slot`` for each lane that it needs, written in the transaction that starts it. It is
*held* until it has a place in all of them, which it takes together: one that has to wait for one lane does not block
another. It gives its places back in the transaction that ends it; one that waits for its next try gives back those of
concurrency limits (Inngest: what sleeps does not count) and keeps the one that says that its key is open. A lost or
released attempt keeps them all: it runs again at once. So the lease of a place is that of the execution itself.

In line stands first who has the earliest ``queue_at`` (the time of its event, moved by its priority), then who has the
smallest event id. Nobody is let in as long as an event with a smaller id than its own is not routed: with a capacity
of 1 the executions of a key start in the order of their events, with any number of routers. A lane of capacity 1 keeps
that order strictly; in a wider one those that cannot start yet (they need another lane that is full) are passed.

A lane's own row is what is locked to let anybody in. Each place keeps the capacity that its trigger gives it: triggers
that share a lane with different limits each stop at their own number.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import sqlalchemy as sa

from functory.engine.database import row_locks
from functory.engine.database.schema import Id, Instant, concurrency_group, execution, slot
from functory.engine.database.transaction import Tx
from functory.engine.events import routing_queue
from functory.engine.flow_control.controls import Controls, Key
from functory.engine.serialization import json_codec

# The rule of a slot: 0 and 1 are the trigger's concurrency limits, in their order.
OVERLAP_RULE = 2
# The capacity of what may run beside anything.
UNLIMITED = 2**31 - 1

# The latest moment that a datetime can be, as the milliseconds of a UUIDv7.
_LATEST = 253_402_300_799_000

_OPEN = execution.c.state.in_(("queued", "running"))
# What stands in line; as the partial index has it.
WAITING_FOR_SLOT = sa.text("execution.waiting_for_slot AND execution.state = 'queued'")


@dataclass(frozen=True)
class SlotRequest:
    """A place that an execution needs: in which lane, for which limit of its trigger, beside how many others."""

    group_key: str
    text: str
    rule: int
    capacity: int


def slot_requests(trigger: Mapping[str, Any], function: str, controls: Controls) -> list[SlotRequest]:
    """The places that a trigger's concurrency limits ask for; two limits that come to one lane are one place."""
    found: dict[str, SlotRequest] = {}
    for rule, limit in enumerate(controls.concurrency_limits):
        owner, name = {
            "trigger": (f"{trigger['id']}/{rule}", trigger["name"]),
            "function": (function, function),
            "global": ("", ""),
        }[limit.scope]
        text = " ".join(filter(None, (limit.scope, name, limit.key.text)))
        place = SlotRequest(_hash(limit.scope, owner, limit.key), text, rule, limit.capacity)
        other = found.get(place.group_key)
        if other is None or other.capacity > place.capacity:
            found[place.group_key] = place
    return list(found.values())


def overlap_slot_request(trigger: Mapping[str, Any], key: Key, capacity: int) -> SlotRequest:
    """The place that shows that an execution of this key is open."""
    text = " ".join(filter(None, ("overlap", trigger["name"], key.text)))
    return SlotRequest(_hash("overlap", trigger["id"], key), text, OVERLAP_RULE, capacity)


def queue_at(event_id: str, priority: float) -> datetime:
    """An event's place in a line: the milliseconds of its id (a UUIDv7), moved by ``priority`` seconds."""
    milliseconds = min(int(event_id.replace("-", "")[:12], 16), _LATEST)
    return (
        datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=milliseconds) - timedelta(seconds=priority)
    )


def lock_groups(tx: Tx, wanted: Iterable[SlotRequest], *, keep: bool = False) -> None:
    """Lock the rows of these lanes; with ``keep`` only against being swept away."""
    rows = {
        one.group_key: {"key": one.group_key, "text": one.text, "capacity": one.capacity} for one in wanted
    }
    found = row_locks.lock(tx, concurrency_group, list(rows.values()), key_share=keep)
    for key in sorted(rows):
        if found[key,]["capacity"] != rows[key]["capacity"]:
            tx.execute(
                sa.update(concurrency_group)
                .where(concurrency_group.c.key == key)
                .values(capacity=rows[key]["capacity"])
            )


def enqueue(tx: Tx, wanted: Iterable[tuple[Mapping[str, Any], SlotRequest, datetime, bool]]) -> None:
    """Put executions in line: (row, place, queue_at, whether it is in at once) each. The lanes must be made."""
    tx.insert(
        slot,
        [
            {
                "group_key": place.group_key,
                "execution_id": row["id"],
                "rule": place.rule,
                "capacity": place.capacity,
                "position": row["event_id"] or row["id"],
                "queue_at": moment,
                "taken_at": tx.now if taken else None,
            }
            for row, place, moment, taken in wanted
        ],
    )
    tx.wake("flow")


def release(tx: Tx, execution_id: str) -> None:
    """An execution has ended: give all its places back."""
    tx.execute(_RELEASE, {"id": execution_id})
    tx.wake("flow")


def release_for_retry(tx: Tx, execution_id: str) -> None:
    """An execution waits for its next try: what it holds by concurrency limits is free, and it stands in line again."""
    freed = tx.execute(
        sa.update(slot)
        .where(slot.c.execution_id == execution_id, slot.c.rule != OVERLAP_RULE)
        .values(taken_at=None)
    ).rowcount
    if freed:
        tx.execute(sa.update(execution).where(execution.c.id == execution_id).values(waiting_for_slot=True))
    tx.wake("flow")


def next_due(tx: Tx) -> datetime | None:
    """When the next one that is held may stand in line; None when no time has to pass."""
    return tx.scalar(_NEXT_DUE, {"now": tx.now})


@dataclass(frozen=True)
class _Candidate:
    """One that could start now, as the line stands: its places as (lane, how many are in, capacity)."""

    id: str
    groups: tuple[tuple[str, int, int], ...]


def can_assign_slots(tx: Tx) -> bool:
    """Whether somebody could be let in. A look that locks nothing."""
    return bool(_find_candidates(tx, routing_queue.first_unrouted(tx), 1))


def waiting_trigger_ids(tx: Tx) -> list[str]:
    """The ids of the triggers whose executions are held."""
    return list(tx.execute(_TRIGGERS).scalars())


def assign_slots(tx: Tx, limit: int) -> list[str]:
    """Let in up to ``limit`` of those that wait. Returns their ids."""
    # Before the line is read: who is routed in between is then seen in it.
    first = routing_queue.first_unrouted(tx)
    locked = None
    if tx.dialect == "postgresql":
        keys = sorted({key for one in _find_candidates(tx, first, limit) for key, _, _ in one.groups})
        locked = set(tx.execute(_LOCKED, {"keys": keys}).scalars()) if keys else set()
    # Read again under the locks: nobody else lets anybody in now.
    chosen = _fitting(_find_candidates(tx, first, limit), locked)
    return _assign_slots(tx, chosen)


def _fitting(waiters: Sequence[_Candidate], locked: set[str] | None) -> list[str]:
    """Those that fit in together, in their order. A pure function."""
    more: dict[str, int] = defaultdict(int)
    chosen: list[str] = []
    for one in waiters:
        if locked is not None and not all(key in locked for key, _, _ in one.groups):
            continue
        if all(taken + more[key] < capacity for key, taken, capacity in one.groups):
            chosen.append(one.id)
            for key, _, _ in one.groups:
                more[key] += 1
    return chosen


def _assign_slots(tx: Tx, ids: Sequence[str]) -> list[str]:
    if not ids:
        return []
    # Those that somebody else is changing (cancelling, expiring) are left for the next time. Executions before
    # slots, as everybody who ends one takes them.
    mine = list(tx.execute(_LOCK_WAITING, {"ids": ids}).scalars())
    if mine:
        tx.execute(_ASSIGN_SLOTS, {"ids": mine, "now": tx.now})
        tx.execute(_MARK_READY, {"ids": mine})
        tx.wake("executions")
    return mine


def _find_candidates(tx: Tx, first: str | None, limit: int) -> list[_Candidate]:
    """Those that are due and for whom every lane has room, in their order; the lanes are not locked by this.

    ``first`` is the first event that is not routed: who comes after it may not start yet.
    """
    given = {"now": tx.now, "limit": limit}
    rows = tx.rows(_FREE, given) if first is None else tx.rows(_FREE_BEFORE, {**given, "first": first})
    found: dict[str, list[tuple[str, int, int]]] = defaultdict(list)
    for row in rows:
        found[row["execution_id"]].append((row["group_key"], row["taken"], row["capacity"]))
    return [_Candidate(id_, tuple(lanes)) for id_, lanes in found.items()]


def _free(*, behind: bool) -> Any:
    """The statement of :func:`_waiters`; with ``behind`` some events are not routed."""
    load = (
        sa.select(slot.c.group_key, sa.func.count().label("taken"))
        .where(sa.text("slot.taken_at IS NOT NULL"))
        .group_by(slot.c.group_key)
        .cte("load")
        .prefix_with("MATERIALIZED", dialect="postgresql")
    )
    taken = sa.func.coalesce(load.c.taken, 0)
    # Most lanes are full most of the time: who stands in one of them need not be looked at.
    room = (
        sa.select(slot.c.group_key)
        .outerjoin(load, load.c.group_key == slot.c.group_key)
        .where(sa.text("slot.taken_at IS NULL"))
        .group_by(slot.c.group_key, load.c.taken)
        .having(sa.func.max(slot.c.capacity) > taken)
        .cte("room")
        .prefix_with("MATERIALIZED", dialect="postgresql")
    )
    needed = slot.alias("needed")
    due = [
        sa.text("slot.taken_at IS NULL"),
        slot.c.group_key.in_(sa.select(room.c.group_key)),
        WAITING_FOR_SLOT,
        execution.c.run_at <= _NOW,
        sa.or_(
            execution.c.expires_at.is_(None),
            execution.c.expires_at > _NOW,
            execution.c.started_at.is_not(None),
        ),
    ]
    if behind:
        due.append(slot.c.position <= sa.bindparam("first", type_=slot.c.position.type))
    line = (
        sa.select(
            slot.c.execution_id,
            slot.c.group_key,
            slot.c.queue_at,
            slot.c.position,
            slot.c.capacity,
            taken.label("taken"),
            sa.func.row_number()
            .over(partition_by=slot.c.group_key, order_by=(slot.c.queue_at, slot.c.position))
            .label("place"),
        )
        .join(execution, execution.c.id == slot.c.execution_id)
        .outerjoin(load, load.c.group_key == slot.c.group_key)
        .where(*due)
        .cte("line")
        .prefix_with("MATERIALIZED", dialect="postgresql")
    )
    blocked = sa.or_(line.c.taken >= line.c.capacity, sa.and_(line.c.capacity == 1, line.c.place > 1))
    free = (
        sa.select(line.c.execution_id)
        .group_by(line.c.execution_id, line.c.queue_at, line.c.position)
        .having(
            sa.func.max(sa.case((blocked, 1), else_=0)) == 0,
            # None of its lanes is missing in the line.
            sa.func.count()
            == sa.select(sa.func.count())
            .select_from(needed)
            .where(needed.c.execution_id == line.c.execution_id, needed.c.taken_at.is_(None))
            .scalar_subquery(),
        )
        .order_by(line.c.queue_at, line.c.position)
        .limit(sa.bindparam("limit", type_=sa.Integer))
        .cte("free")
        .prefix_with("MATERIALIZED", dialect="postgresql")
    )
    return (
        sa.select(line.c.execution_id, line.c.group_key, line.c.taken, line.c.capacity)
        .join(free, free.c.execution_id == line.c.execution_id)
        .order_by(line.c.queue_at, line.c.position, line.c.group_key)
    )


# Asked in every turn of flow control: built once.
_NOW = sa.bindparam("now", type_=Instant)
_IDS = sa.bindparam("ids", expanding=True, type_=Id)
_LIMIT = sa.bindparam("limit", type_=sa.Integer)
_FREE = _free(behind=False)
_FREE_BEFORE = _free(behind=True)
_RELEASE = sa.delete(slot).where(slot.c.execution_id == sa.bindparam("id", type_=Id))
_UPDATE_CAPACITY = (
    sa.update(slot)
    .where(
        slot.c.execution_id.in_(
            sa.select(execution.c.id).where(
                execution.c.trigger_id == sa.bindparam("trigger", type_=Id), WAITING_FOR_SLOT
            )
        ),
        slot.c.rule == sa.bindparam("of"),
        slot.c.taken_at.is_(None),
        slot.c.capacity != sa.bindparam("most"),
    )
    .values(capacity=sa.bindparam("most"))
)
_ENDED = sa.delete(slot).where(
    slot.c.execution_id.in_(
        sa.select(slot.c.execution_id)
        .join(execution, execution.c.id == slot.c.execution_id)
        .where(sa.not_(_OPEN))
        .limit(_LIMIT)
    )
)
_USED = sa.exists(sa.select(slot.c.group_key).where(slot.c.group_key == concurrency_group.c.key))
_EMPTY = (
    sa.select(concurrency_group.c.key)
    .where(sa.not_(_USED))
    .order_by(concurrency_group.c.key)
    .limit(_LIMIT)
    .with_for_update(skip_locked=True)
)
_NEXT_DUE = sa.select(sa.func.min(execution.c.run_at)).where(WAITING_FOR_SLOT, execution.c.run_at > _NOW)
_TRIGGERS = sa.select(execution.c.trigger_id).distinct().where(WAITING_FOR_SLOT)
_LOCKED = (
    sa.select(concurrency_group.c.key)
    .where(concurrency_group.c.key.in_(sa.bindparam("keys", expanding=True)))
    .order_by(concurrency_group.c.key)
    .with_for_update(key_share=True, skip_locked=True)
)
_LOCK_WAITING = (
    sa.select(execution.c.id)
    .where(execution.c.id.in_(_IDS), WAITING_FOR_SLOT)
    .order_by(execution.c.id)
    .with_for_update(skip_locked=True)
)
_ASSIGN_SLOTS = (
    sa.update(slot).where(slot.c.execution_id.in_(_IDS), slot.c.taken_at.is_(None)).values(taken_at=_NOW)
)
_MARK_READY = sa.update(execution).where(execution.c.id.in_(_IDS)).values(waiting_for_slot=False)


def update_capacities(tx: Tx, trigger_id: str, capacities: Mapping[int, int]) -> None:
    """A trigger's limits are now these, by rule: they hold for what waits already. A rule that is not there any more
    holds nobody back."""
    for rule in (0, 1, OVERLAP_RULE):
        given = {"trigger": trigger_id, "of": rule, "most": capacities.get(rule, UNLIMITED)}
        if tx.execute(_UPDATE_CAPACITY, given).rowcount:
            tx.wake("flow")


def sweep(tx: Tx, limit: int) -> int:
    """Give back the places of executions that have ended, whatever went wrong there, and delete lanes that nobody is
    in. Returns how many."""
    done = tx.execute(_ENDED, {"limit": limit}).rowcount
    if done:
        tx.wake("flow")
    keys = list(tx.execute(_EMPTY, {"limit": limit}).scalars())
    if keys:
        # Asked again under the locks: somebody may have come in before them.
        done += tx.execute(
            sa.delete(concurrency_group).where(concurrency_group.c.key.in_(keys), sa.not_(_USED))
        ).rowcount
    return done


def count_waiting(tx: Tx) -> dict[str, int]:
    """How many stand in line, for ``concurrency`` and for ``overlap``."""
    control = sa.case((slot.c.rule == OVERLAP_RULE, "overlap"), else_="concurrency")
    return tx.pairs(
        sa.select(control, sa.func.count()).where(sa.text("slot.taken_at IS NULL")).group_by(control)
    )


def slots_of_execution(tx: Tx, execution_id: str) -> list[dict[str, Any]]:
    """The places of an execution: ``lane`` as people read it, ``capacity``, ``taken_at``, and ``ahead``, the number of
    those that stand before it."""
    other = slot.alias()
    before = (
        sa.select(sa.func.count())
        .select_from(other)
        .where(
            other.c.group_key == slot.c.group_key,
            other.c.taken_at.is_(None),
            sa.tuple_(other.c.queue_at, other.c.position) < sa.tuple_(slot.c.queue_at, slot.c.position),
        )
        .scalar_subquery()
    )
    inside = (
        sa.select(sa.func.count())
        .select_from(other)
        .where(other.c.group_key == slot.c.group_key, other.c.taken_at.is_not(None))
        .scalar_subquery()
    )
    return tx.rows(
        sa.select(
            concurrency_group.c.text.label("group"),
            slot.c.capacity,
            slot.c.taken_at,
            before.label("ahead"),
            inside.label("running"),
        )
        .join(concurrency_group, concurrency_group.c.key == slot.c.group_key)
        .where(slot.c.execution_id == execution_id)
        .order_by(slot.c.rule)
    )


def _hash(scope: str, owner: str, key: Key) -> str:
    return json_codec.digest([scope, owner, key.hash])[:32]

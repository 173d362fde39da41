"""Slot assignment: which queued executions start next, now that their concurrency groups have room.

An execution gets the slots of all its groups together or none of them. Order is by ``queue_at``, then by event id.
A group of capacity 1 keeps that order strictly; in a wider group, executions that wait for another full group are
passed. An execution does not start while an earlier event is not routed yet.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa

from functory.engine.database.dialects import materialized
from functory.engine.database.schema import Id, Instant, backlog, concurrency_group, slot
from functory.engine.database.transaction import Tx
from functory.engine.events import routing_queue
from functory.engine.flow_control.concurrency import WAITING_FOR_SLOT


@dataclass(frozen=True)
class _Candidate:
    """An execution that could start now, with its groups as (key, slots taken, capacity)."""

    id: str
    groups: tuple[tuple[str, int, int], ...]


def can_assign_slots(tx: Tx) -> bool:
    """Return True when an execution could get its slots. Locks nothing."""
    return bool(_find_candidates(tx, routing_queue.first_unrouted(tx), 1))


def assign_slots(tx: Tx, limit: int) -> list[str]:
    """Give slots to up to ``limit`` waiting executions. Returns their ids."""
    # Read before the queue: matches of events that are routed in between are then part of it.
    first = routing_queue.first_unrouted(tx)
    locked = None
    if tx.writes_concurrently:
        keys = sorted({key for one in _find_candidates(tx, first, limit) for key, _, _ in one.groups})
        locked = set(tx.execute(_LOCK_GROUPS, {"keys": keys}).scalars()) if keys else set()
    # Read again under the locks: no other process assigns slots of these groups now.
    chosen = _fitting(_find_candidates(tx, first, limit), locked)
    return _assign_slots(tx, chosen)


def _fitting(candidates: Sequence[_Candidate], locked: set[str] | None) -> list[str]:
    """Return the candidates that fit in together, in their order. A pure function."""
    more: dict[str, int] = defaultdict(int)
    chosen: list[str] = []
    for one in candidates:
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
    # Executions that another transaction changes (cancels, expires) wait for the next round. Queue rows are locked
    # before slots, in the same order as when an execution ends.
    mine = list(tx.execute(_LOCK_WAITING, {"ids": ids}).scalars())
    if mine:
        tx.execute(_TAKE_SLOTS, {"ids": mine, "now": tx.now})
        tx.execute(_MARK_READY, {"ids": mine})
        tx.wake("executions")
    return mine


def _find_candidates(tx: Tx, first: str | None, limit: int) -> list[_Candidate]:
    """Due executions whose groups all have room, in their order. The groups are not locked.

    ``first`` is the first event that is not routed: executions of later events may not start yet.
    """
    given = {"now": tx.now, "limit": limit}
    rows = tx.rows(_FREE, given) if first is None else tx.rows(_FREE_BEFORE, {**given, "first": first})
    found: dict[str, list[tuple[str, int, int]]] = defaultdict(list)
    for row in rows:
        found[row["execution_id"]].append((row["group_key"], row["taken"], row["capacity"]))
    return [_Candidate(id_, tuple(groups)) for id_, groups in found.items()]


def _free(*, behind: bool) -> Any:
    """Return the statement of :func:`_find_candidates`; with ``behind`` some events are not routed."""
    load = materialized(
        sa.select(slot.c.group_key, sa.func.count().label("taken"))
        .where(sa.text("slot.taken_at IS NOT NULL"))
        .group_by(slot.c.group_key),
        "load",
    )
    taken = sa.func.coalesce(load.c.taken, 0)
    # Most groups are full most of the time: their executions need not be read.
    room = materialized(
        sa.select(slot.c.group_key)
        .outerjoin(load, load.c.group_key == slot.c.group_key)
        .where(sa.text("slot.taken_at IS NULL"))
        .group_by(slot.c.group_key, load.c.taken)
        .having(sa.func.max(slot.c.capacity) > taken),
        "room",
    )
    needed = slot.alias("needed")
    due = [
        sa.text("slot.taken_at IS NULL"),
        slot.c.group_key.in_(sa.select(room.c.group_key)),
        WAITING_FOR_SLOT,
        backlog.c.run_at <= _NOW,
        sa.or_(backlog.c.expires_at.is_(None), backlog.c.expires_at > _NOW),
    ]
    if behind:
        due.append(slot.c.position <= sa.bindparam("first", type_=slot.c.position.type))
    queue = materialized(
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
        .join(backlog, backlog.c.execution_id == slot.c.execution_id)
        .outerjoin(load, load.c.group_key == slot.c.group_key)
        .where(*due),
        "queue",
    )
    blocked = sa.or_(queue.c.taken >= queue.c.capacity, sa.and_(queue.c.capacity == 1, queue.c.place > 1))
    free = materialized(
        sa.select(queue.c.execution_id)
        .group_by(queue.c.execution_id, queue.c.queue_at, queue.c.position)
        .having(
            sa.func.max(sa.case((blocked, 1), else_=0)) == 0,
            # None of its groups is missing in the queue.
            sa.func.count()
            == sa.select(sa.func.count())
            .select_from(needed)
            .where(needed.c.execution_id == queue.c.execution_id, needed.c.taken_at.is_(None))
            .scalar_subquery(),
        )
        .order_by(queue.c.queue_at, queue.c.position)
        .limit(sa.bindparam("limit", type_=sa.Integer)),
        "free",
    )
    return (
        sa.select(queue.c.execution_id, queue.c.group_key, queue.c.taken, queue.c.capacity)
        .join(free, free.c.execution_id == queue.c.execution_id)
        .order_by(queue.c.queue_at, queue.c.position, queue.c.group_key)
    )


# Built once, because flow control runs them in every round.
_NOW = sa.bindparam("now", type_=Instant)
_IDS = sa.bindparam("ids", expanding=True, type_=Id)
_FREE = _free(behind=False)
_FREE_BEFORE = _free(behind=True)
_LOCK_GROUPS = (
    sa.select(concurrency_group.c.key)
    .where(concurrency_group.c.key.in_(sa.bindparam("keys", expanding=True)))
    .order_by(concurrency_group.c.key)
    .with_for_update(key_share=True, skip_locked=True)
)
_LOCK_WAITING = (
    sa.select(backlog.c.execution_id)
    .where(backlog.c.execution_id.in_(_IDS), WAITING_FOR_SLOT)
    .order_by(backlog.c.execution_id)
    .with_for_update(skip_locked=True)
)
_TAKE_SLOTS = (
    sa.update(slot).where(slot.c.execution_id.in_(_IDS), slot.c.taken_at.is_(None)).values(taken_at=_NOW)
)
_MARK_READY = sa.update(backlog).where(backlog.c.execution_id.in_(_IDS)).values(waiting_for_slot=False)

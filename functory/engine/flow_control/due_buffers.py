"""Due buffers: finds and locks the match buffers that need a decision.

Rows that another transaction has locked are skipped: it decides about them.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any

import sqlalchemy as sa

from functory.engine.database.schema import Id, Instant, event, match_buffer, routing_queue, trigger
from functory.engine.database.transaction import Tx
from functory.engine.flow_control.buffers import EVENT_TIME_KIND, BufferKey


def routed_until(tx: Tx) -> datetime:
    """Return the time up to which all events have been routed: now, or the time of the first event that waits for a
    router.

    Events that failed to be routed do not count. Read it before the matches that depend on it: later reads see all
    that was routed up to then.
    """
    first = tx.scalar(_FIRST_PENDING)
    return tx.now if first is None else min(first, tx.now)


def next_due(tx: Tx) -> datetime | None:
    """Return when the first buffer that can be decided is due; None when there is none."""
    return tx.scalar(_NEXT_DUE)


def are_due(tx: Tx, routed_until: datetime) -> bool:
    """Return True when :func:`lock_due` would find a buffer. Locks nothing."""
    return tx.scalar(_ANY_DUE, {"now": tx.now, "known": routed_until}) is not None


def lock_due(tx: Tx, routed_until: datetime, limit: int) -> list[dict[str, Any]]:
    """Lock up to ``limit`` due buffers that no other transaction has locked. See :func:`routed_until`.

    Each row has its trigger's ``name``, ``version``, ``state``, ``changed_to`` (its ``changed`` now) and ``armed_at``.
    """
    return tx.rows(_TAKE_DUE, {"now": tx.now, "known": routed_until, "limit": limit})


def lock_changed(tx: Tx, limit: int) -> list[dict[str, Any]]:
    """Lock up to ``limit`` buffers whose trigger was changed or deleted after their last decision."""
    return tx.rows(_TAKE_CHANGED, {"limit": limit})


def lock_one(tx: Tx, place: BufferKey) -> list[dict[str, Any]]:
    """Lock one buffer, unless it is missing or another transaction has locked it: a list of one row or none."""
    return tx.rows(_TAKE_ONE, {"t": place[0], "k": place[1]})


_COLUMNS = (
    *match_buffer.c,
    trigger.c.name,
    trigger.c.version,
    trigger.c.state,
    trigger.c.changed.label("changed_to"),
    trigger.c.updated_at.label("armed_at"),
)


def _live(*what: Any) -> sa.Select[Any]:
    """Select the buffers of triggers that decide, and of deleted ones. Those of a paused trigger wait until it is
    resumed or deleted.
    """
    statement: Any = (
        sa.select(*what).select_from(match_buffer).join(trigger, trigger.c.id == match_buffer.c.trigger_id)
    )
    return statement.where(trigger.c.state.in_(("enabled", "shadow", "deleted")))


# Built once, because flow control runs them in every round.
_LIMIT = sa.bindparam("limit", type_=sa.Integer)
_FIRST_PENDING = (
    sa.select(event.c.time)
    .join(routing_queue, routing_queue.c.event_id == event.c.id)
    .where(routing_queue.c.quarantined.is_(False), routing_queue.c.route_after.is_(None))
    .order_by(routing_queue.c.event_id)
    .limit(1)
)
# Not min(): the index gives the first row without reading the others.
_NEXT_DUE = (
    _live(match_buffer.c.due_at)
    .where(match_buffer.c.due_at.is_not(None))
    .order_by(match_buffer.c.due_at)
    .limit(1)
)

# Two conditions on the time: the first uses the index, the second leaves out composites that are too early.
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
_TAKE_ONE = (
    _live(*_COLUMNS)
    .where(match_buffer.c.trigger_id == sa.bindparam("t", type_=Id), match_buffer.c.key == sa.bindparam("k"))
    .with_for_update(of=match_buffer, skip_locked=True)
)

"""Due work: what an engine has to do at its present time, and the next time at which there will be more.

Work that waits for a later time is not due: a delayed execution, one that is retried later, a debounce, a schedule.
"""

from __future__ import annotations

from datetime import datetime

import sqlalchemy as sa

from functory.engine.database.schema import (
    Instant,
    approval,
    backlog,
    execution,
    in_flight,
    match_buffer,
    outbox,
    proposal,
    routing_queue,
    schedule,
    trigger,
)
from functory.engine.database.transaction import Tx
from functory.engine.executions.open_executions import CLAIMED
from functory.engine.executions.queue_rows import READY, UNCLAIMED

_NOW = sa.bindparam("now", type_=Instant)
_PENDING = routing_queue.c.quarantined.is_(False)
# The buffers of a paused trigger wait until it is resumed.
_DECIDES = sa.exists().where(
    trigger.c.id == match_buffer.c.trigger_id, trigger.c.state.in_(("enabled", "shadow", "deleted"))
)
# A parent that waits for a child which is due later does nothing until then.
_HAS_OPEN_CHILD = sa.exists().where(
    execution.c.parent_id == in_flight.c.execution_id, execution.c.state.in_(("queued", "running"))
)
_ASKS = approval.c.state == "pending", approval.c.run_id.is_not(None)


def _counted(table: sa.Table, *conditions: sa.ColumnElement[bool] | sa.TextClause) -> sa.ScalarSelect[int]:
    return sa.select(sa.func.count()).select_from(table).where(*conditions).scalar_subquery()


_DUE = {
    "pending events": _counted(
        routing_queue,
        _PENDING,
        sa.or_(routing_queue.c.route_after.is_(None), routing_queue.c.route_after <= _NOW),
    ),
    "unpublished events": sa.select(sa.func.coalesce(sa.func.sum(outbox.c.count), 0)).scalar_subquery(),
    "queued executions": _counted(backlog, READY, backlog.c.run_at <= _NOW),
    "dispatched executions": _counted(in_flight, UNCLAIMED),
    "running executions": _counted(in_flight, CLAIMED, ~_HAS_OPEN_CHILD),
    "due buffers": _counted(match_buffer, match_buffer.c.due_at <= _NOW, _DECIDES),
    "due schedules": _counted(schedule, schedule.c.next_at <= _NOW),
    "expired questions": _counted(approval, *_ASKS, approval.c.expires_at <= _NOW),
}
_COUNTS = sa.select(*(count.label(name) for name, count in _DUE.items()))
_TIMES = tuple(
    sa.select(sa.func.min(time)).where(time > _NOW, *conditions)
    for time, conditions in (
        (routing_queue.c.route_after, (_PENDING,)),
        (backlog.c.run_at, ()),
        (backlog.c.expires_at, ()),
        (match_buffer.c.due_at, (_DECIDES,)),
        (schedule.c.next_at, ()),
        (approval.c.expires_at, _ASKS),
        (proposal.c.expires_at, (proposal.c.ended_at.is_(None),)),
    )
)


def count(tx: Tx) -> dict[str, int]:
    """Return what is due now, by kind, without the kinds of which nothing is. One statement, so that work cannot move
    on between two counts.
    """
    row = tx.first(_COUNTS, {"now": tx.now})
    assert row is not None
    return {name: int(number) for name, number in row.items() if number}


def next_time(tx: Tx) -> datetime | None:
    """Return the next time after now at which something becomes due; None when nothing waits for a time."""
    found = [tx.scalar(statement, {"now": tx.now}) for statement in _TIMES]
    return min((time for time in found if time is not None), default=None)

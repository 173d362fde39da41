"""Open executions, read through their queue rows (:mod:`functory.engine.executions.queue_rows`): the cost follows what
is open, and not the history.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any

import sqlalchemy as sa

from functory.engine.access import scopes
from functory.engine.access.scopes import Scope
from functory.engine.database.schema import Id, Instant, backlog, execution, in_flight
from functory.engine.database.transaction import Tx
from functory.engine.executions.queue_rows import READY, UNCLAIMED

CLAIMED = sa.text("in_flight.claimed")
WAITING_FOR_SLOT = sa.text("backlog.waiting_for_slot")


def count(tx: Tx, scope: Scope = None) -> dict[str, int]:
    """Return the numbers of ``queued`` and ``running`` executions, of a scope only when given."""
    row = tx.first(_COUNTED if scope is None else _counted(scope))
    assert row is not None
    return {"queued": row["backlog"] + row["sent"], "running": row["running"]}


def count_by_place(tx: Tx) -> dict[str, int]:
    """Return the numbers of ``queued`` (due), ``delayed`` (due later), ``waiting`` (for a slot), ``retrying`` (due
    again later) and ``running`` executions. Those that are due later are counted one by one.
    """
    row = tx.first(_PLACES, {"now": tx.now})
    assert row is not None
    later = {row["again"]: row["number"] for row in tx.rows(_LATER, {"now": tx.now})}
    return {
        "queued": row["due"] + row["sent"],
        "delayed": later.get(False, 0),
        "waiting": row["waiting"],
        "retrying": later.get(True, 0),
        "running": row["running"],
    }


def oldest_due_at(tx: Tx) -> datetime | None:
    """Return the earliest time at which a queued execution is or was due; None when none is queued."""
    found = [tx.scalar(statement) for statement in _OLDEST]
    return min((at for at in found if at is not None), default=None)


def is_waiting_for_slot(tx: Tx, id_: str) -> bool:
    """Return True when an execution is queued for slots of its concurrency groups."""
    return bool(tx.scalar(_WAITS, {"id": id_}))


def places(trigger_id: str) -> sa.Subquery:
    """Return the queue rows of a trigger's open executions, as a table with ``execution_id``, ``queue_at``, ``run_at``
    (None in flight), ``waiting_for_slot`` and ``claimed``.
    """
    return sa.union_all(
        sa.select(
            backlog.c.execution_id,
            backlog.c.queue_at,
            backlog.c.run_at,
            backlog.c.waiting_for_slot,
            sa.false().label("claimed"),
        ).where(backlog.c.trigger_id == trigger_id),
        sa.select(
            in_flight.c.execution_id,
            in_flight.c.queue_at,
            sa.cast(sa.null(), Instant),
            sa.false(),
            in_flight.c.claimed,
        ).where(in_flight.c.trigger_id == trigger_id),
    ).subquery("queue")


def open_ids(*conditions: Any, queued: bool = True, running: bool = True) -> Any:
    """Return a select of the ids of open executions, for ``column.in_(...)``.

    Each condition is a function of a table's columns: both tables have ``execution_id``, ``function`` and
    ``trigger_id``.
    """
    parts = []
    if queued:
        parts.append(sa.select(backlog.c.execution_id).where(*(one(backlog.c) for one in conditions)))
    state = () if queued and running else (UNCLAIMED,) if queued else (CLAIMED,)
    parts.append(sa.select(in_flight.c.execution_id).where(*state, *(one(in_flight.c) for one in conditions)))
    return sa.union_all(*parts) if len(parts) > 1 else parts[0]


def _number(table: sa.Table, *conditions: Any) -> sa.ScalarSelect[int]:
    return sa.select(sa.func.count()).select_from(table).where(*conditions).scalar_subquery()


def _counted(scope: Scope) -> sa.Select[int, int, int]:
    queued, sent = (scopes.function_names(table.c.function, scope) for table in (backlog, in_flight))
    return sa.select(
        _number(backlog, *queued).label("backlog"),
        _number(in_flight, UNCLAIMED, *sent).label("sent"),
        _number(in_flight, CLAIMED, *sent).label("running"),
    )


# Built once, because they run often.
_NOW = sa.bindparam("now", type_=Instant)
_PLACES = sa.select(
    _number(backlog, READY, backlog.c.run_at <= _NOW).label("due"),
    _number(backlog, WAITING_FOR_SLOT).label("waiting"),
    _number(in_flight, UNCLAIMED).label("sent"),
    _number(in_flight, CLAIMED).label("running"),
)
_LATER = (
    sa.select((execution.c.attempt > 0).label("again"), sa.func.count().label("number"))
    .select_from(backlog)
    .join(execution, execution.c.id == backlog.c.execution_id)
    .where(READY, backlog.c.run_at > _NOW)
    .group_by("again")
)
_ID = sa.bindparam("id", type_=Id)
_COUNTED = _counted(None)
_OLDEST = (
    # One statement for each index.
    sa.select(sa.func.min(backlog.c.run_at)).where(READY),
    sa.select(sa.func.min(backlog.c.run_at)).where(WAITING_FOR_SLOT),
    sa.select(sa.func.min(execution.c.run_at))
    .join(in_flight, in_flight.c.execution_id == execution.c.id)
    .where(UNCLAIMED),
)
_WAITS = sa.select(sa.literal(1)).where(backlog.c.execution_id == _ID, WAITING_FOR_SLOT)

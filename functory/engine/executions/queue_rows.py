"""Queue rows: where an open execution is found, in the backlog or among what is in flight.

Each queued or running execution has exactly one row in ``backlog`` (queued and not sent) or ``in_flight`` (sent or
running), and no other execution has one. The functions of this module move the row, in the transaction that makes the
transition::

    start                       → backlog, or in flight when it is sent at once   (add, add_sent)
    send                        backlog → in flight                               (mark_sent)
    claim                       in flight, or backlog → in flight                 (mark_claimed)
    failed publish              in flight → backlog                               (recall)
    retry, release, lost lease  in flight → backlog                               (requeue)
    end                         a queued or a running one leaves                  (remove_queued, remove_running)

On PostgreSQL a transaction that changes the state of an execution locks the execution first and its queue row then, and
slots of concurrency groups last. The dispatcher and slot assignment lock queue rows alone, and wait for none of them.
"""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

import sqlalchemy as sa

from functory.engine.database.id_lists import one_of
from functory.engine.database.schema import Id, Instant, backlog, execution, in_flight
from functory.engine.database.transaction import Tx
from functory.engine.database.typed_rows import TypedRow, columns
from functory.engine.executions.execution_row import ExecutionRow
from functory.engine.telemetry import metrics

READY = sa.text("NOT backlog.waiting_for_slot")
UNCLAIMED = sa.text("NOT in_flight.claimed")

# Columns that a row keeps on its way between the two tables.
_KEPT = ("execution_id", "function", "trigger_id", "priority", "throttle_key", "throttle_place")


class InFlight(TypedRow, frozen=True):
    """The place of an execution that was sent, or that runs: its row of ``in_flight``, as a claim returns it."""

    execution_id: str
    function: str
    trigger_id: str | None
    priority: int
    throttle_key: str | None
    throttle_place: datetime | None
    queue_at: datetime
    expires_at: datetime | None
    dispatched_at: datetime | None
    dispatch_count: int


def backlog_row(
    row: Mapping[str, Any],
    *,
    queue_at: datetime | None = None,
    waiting_for_slot: bool = False,
    throttle_key: str | None = None,
    throttle_place: datetime | None = None,
) -> dict[str, Any]:
    """Return the backlog row of a new execution. Without ``queue_at`` its position is the time at which it is due."""
    return {
        "execution_id": row["id"],
        "function": row["function"],
        "trigger_id": row["trigger_id"],
        "priority": row["priority"],
        "run_at": row["run_at"],
        "queue_at": queue_at or row["run_at"],
        "expires_at": row["expires_at"],
        "waiting_for_slot": waiting_for_slot,
        "throttle_key": throttle_key,
        "throttle_place": throttle_place,
    }


def in_flight_row(row: Mapping[str, Any], now: datetime) -> dict[str, Any]:
    """Return the row of a new execution that is sent in the transaction of its start."""
    return {
        "execution_id": row["id"],
        "function": row["function"],
        "trigger_id": row["trigger_id"],
        "priority": row["priority"],
        "queue_at": row["run_at"],
        "expires_at": row["expires_at"],
        "throttle_key": None,
        "throttle_place": None,
        "dispatched_at": now,
        "dispatch_count": 1,
        "claimed": False,
    }


def add(tx: Tx, rows: Sequence[Mapping[str, Any]]) -> None:
    """Put new executions (rows of ``execution``) into the backlog."""
    tx.insert(backlog, [backlog_row(row) for row in rows])
    count_created(tx, rows)


def add_sent(tx: Tx, rows: Sequence[Mapping[str, Any]]) -> None:
    """Record new executions (rows of ``execution``) as sent: the caller sends or claims them after the commit.

    Only for executions that are due now, need no slot and have no throttle. When the sending fails, the caller recalls
    them; after a crash before the sending they are sent again when their message counts as lost.
    """
    tx.insert(in_flight, [in_flight_row(row, tx.now) for row in rows])
    count_created(tx, rows)


def count_created(tx: Tx, rows: Sequence[Mapping[str, Any]]) -> None:
    """Count new executions (rows of ``execution``) in the metrics, once they are committed."""
    created = Counter((row["function"], row["cause"]) for row in rows)

    def count(committed: bool) -> None:
        if committed:
            for (function, cause), number in created.items():
                metrics.executions_created.labels(metrics.function_label(function), cause).inc(number)

    tx.at_end(count)


def count_ended(tx: Tx, row: ExecutionRow, state: str) -> None:
    """Count an execution that ends without a result of a worker in the metrics, once this is committed."""

    def count(committed: bool) -> None:
        if committed:
            metrics.executions_finished.labels(metrics.function_label(row.function), state).inc()

    tx.at_end(count)


def mark_sent(tx: Tx, ids: Sequence[str]) -> None:
    """backlog → in flight. The rows are locked by this transaction."""
    if not ids:
        return
    given = {"ids": list(ids), "now": tx.now}
    if tx.dialect == "postgresql":
        tx.execute(_send_in_one(), given)
    else:
        tx.execute(_COPY_SENT, given)
        tx.execute(_DELETE_BACKLOG, given)


def mark_sent_again(tx: Tx, ids: Sequence[str]) -> None:
    """Count another sending. The wait is measured from the first one."""
    if ids:
        tx.execute(_SENT_AGAIN, {"ids": list(ids), "now": tx.now})


def mark_claimed(tx: Tx, ids: Sequence[str]) -> dict[str, InFlight]:
    """Record that a worker runs these executions, which this transaction has set to running.

    Returns their rows in flight, by id. Those that are not due after all have none: they were queued again by another
    transaction, and the caller gives them back.
    """
    found = _claim(tx, ids)
    missing = [id_ for id_ in ids if id_ not in found]
    if missing:
        # Never sent, or recalled: the worker takes them without a message.
        taken = tx.rows(_TAKE, {"ids": missing, "now": tx.now})
        rows = [
            {name: row[name] for name in (*_KEPT, "queue_at", "expires_at")}
            | {"dispatched_at": None, "dispatch_count": 0}
            for row in taken
        ]
        tx.insert(in_flight, [row | {"claimed": True} for row in rows])
        found |= {row["execution_id"]: InFlight(**row) for row in rows}
        if len(taken) < len(missing):
            # A dispatcher has sent the rest since: this transaction waited for its rows.
            found |= _claim(tx, [id_ for id_ in missing if id_ not in found])
    return found


def requeue(tx: Tx, id_: str, run_at: datetime, queue_at: datetime | None = None) -> None:
    """in flight → backlog, for an execution that this transaction has set from running to queued.

    It was started, so it does not expire any more.
    """
    tx.execute(_COPY_QUEUED, {"id": id_, "due": run_at, "at": queue_at or run_at})
    remove_running(tx, [id_])


def put_back(tx: Tx, places: Sequence[tuple[InFlight, datetime]]) -> None:
    """in flight → backlog, for executions that this transaction has claimed and does not start.

    Each place is what :func:`mark_claimed` returned, with ``queue_at`` and ``expires_at`` as they are now, and the time
    at which the execution is due.
    """
    tx.execute(_DELETE_IN_FLIGHT, {"ids": [place.execution_id for place, _ in places]})
    rows = [
        {name: getattr(place, name) for name in (*_KEPT, "queue_at", "expires_at")}
        | {"run_at": run_at, "waiting_for_slot": False}
        for place, run_at in places
    ]
    tx.insert(backlog, rows)


def recall(tx: Tx, ids: Sequence[str] | None) -> int:
    """in flight → backlog, for those of ``ids`` that no worker has claimed; None means all. Returns the number."""
    # Locked before the queue rows: a claim at the same time then sees where the row is.
    asked = _LOCK_UNCLAIMED if ids is None else _LOCK_UNCLAIMED.where(one_of(in_flight.c.execution_id))
    locked = list(tx.execute(asked, None if ids is None else {"ids": list(ids)}).scalars())
    if not locked:
        return 0
    tx.execute(_COPY_RECALLED, {"ids": locked})
    return tx.execute(_DELETE_UNCLAIMED, {"ids": locked}).rowcount


def remove_running(tx: Tx, ids: Sequence[str]) -> None:
    """Remove the rows of executions that this transaction has set from running to another state."""
    tx.execute(_DELETE_IN_FLIGHT, {"ids": list(ids)})


def remove_queued(tx: Tx, id_: str) -> None:
    """Remove the row of an execution that this transaction has ended while it was queued."""
    # In this order: a dispatcher moves rows from the first table to the second.
    if not tx.execute(_REMOVE_BACKLOG, {"id": id_}).rowcount:
        remove_running(tx, [id_])


def _claim(tx: Tx, ids: Sequence[str]) -> dict[str, InFlight]:
    return {row.execution_id: row for row in tx.all(InFlight, _CLAIMED, {"ids": list(ids)})} if ids else {}


# Built once, because they run with every transition.
_ID = sa.bindparam("id", type_=Id)
_NOW = sa.bindparam("now", type_=Instant)
_IN_FLIGHT_COLUMNS = [
    in_flight.c[name]
    for name in (*_KEPT, "queue_at", "expires_at", "dispatched_at", "dispatch_count", "claimed")
]
_BACKLOG_COLUMNS = [
    backlog.c[name] for name in (*_KEPT, "run_at", "queue_at", "expires_at", "waiting_for_slot")
]
_CLAIMED = (
    sa.update(in_flight)
    .where(one_of(in_flight.c.execution_id))
    .values(claimed=True)
    .returning(*columns(InFlight, in_flight))
)
_TAKE = (
    sa.delete(backlog)
    .where(one_of(backlog.c.execution_id), READY, backlog.c.run_at <= _NOW)
    .returning(backlog)
)
_SENT_AGAIN = (
    sa.update(in_flight)
    .where(one_of(in_flight.c.execution_id))
    .values(
        dispatched_at=sa.func.coalesce(in_flight.c.dispatched_at, _NOW),
        dispatch_count=in_flight.c.dispatch_count + 1,
    )
)
_DELETE_BACKLOG = sa.delete(backlog).where(one_of(backlog.c.execution_id))
_DELETE_IN_FLIGHT = sa.delete(in_flight).where(one_of(in_flight.c.execution_id))
_DELETE_UNCLAIMED = _DELETE_IN_FLIGHT.where(UNCLAIMED)
_REMOVE_BACKLOG = sa.delete(backlog).where(backlog.c.execution_id == _ID)
_LOCK_UNCLAIMED = (
    sa.select(execution.c.id)
    .join(in_flight, in_flight.c.execution_id == execution.c.id)
    .where(UNCLAIMED, execution.c.state == "queued")
    # By the smaller table's key, or SQLite reads all executions in the order of their ids.
    .order_by(in_flight.c.execution_id)
    .with_for_update(of=execution)
)
_COPY_QUEUED = sa.insert(backlog).from_select(
    _BACKLOG_COLUMNS,
    sa.select(
        *(in_flight.c[name] for name in _KEPT),
        sa.bindparam("due", type_=Instant),
        sa.bindparam("at", type_=Instant),
        sa.cast(sa.null(), Instant),
        sa.false(),
    ).where(in_flight.c.execution_id == _ID),
)
_COPY_RECALLED = sa.insert(backlog).from_select(
    _BACKLOG_COLUMNS,
    sa.select(
        *(in_flight.c[name] for name in _KEPT),
        execution.c.run_at,
        in_flight.c.queue_at,
        in_flight.c.expires_at,
        sa.false(),
    )
    .join(execution, execution.c.id == in_flight.c.execution_id)
    .where(one_of(in_flight.c.execution_id), UNCLAIMED),
)


def _sent(source: Any) -> Any:
    """Select the columns of what is sent now from rows of the backlog."""
    kept = [source.c[name] for name in (*_KEPT, "queue_at", "expires_at")]
    return sa.select(*kept, _NOW, sa.literal_column("1"), sa.false())


_COPY_SENT = sa.insert(in_flight).from_select(
    _IN_FLIGHT_COLUMNS, _sent(backlog).where(one_of(backlog.c.execution_id))
)


@functools.cache
def _send_in_one() -> sa.Insert:
    """One statement, which SQLite does not know: it has no DELETE inside another statement."""
    gone = _DELETE_BACKLOG.returning(backlog).cte("gone")
    return sa.insert(in_flight).from_select(_IN_FLIGHT_COLUMNS, _sent(gone))

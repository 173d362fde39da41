"""Requeues or ends attempts whose worker is lost; forces ignored cancels; expires executions that start late."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

import sqlalchemy as sa

from functory.engine.database import dialects
from functory.engine.database.clock import ServerClock
from functory.engine.database.connection import Database, Tx
from functory.engine.database.schema import Id, Instant, Json, attempt, execution, worker
from functory.engine.events import store as event_store
from functory.engine.executions import (
    bad_ends,
    cancel_row,
    execution_spans,
    open_cancels,
    open_executions,
    queue_rows,
)
from functory.engine.executions.compensation import plan
from functory.engine.executions.execution_events import event_data, execution_event
from functory.engine.executions.execution_row import LOCKED_COLUMNS, LockedExecution
from functory.engine.executions.retry_or_dead import retry_or_dead_after_lost_lease
from functory.engine.executions.runs import transitions
from functory.engine.flow_control import concurrency
from functory.engine.telemetry import metrics, traces

# Rows of one round, so that the transaction stays short.
BATCH = 200


def reap(
    database: Database,
    *,
    cancel_grace: float,
    leases_trusted: Callable[[], bool] = lambda: True,
    ended_workers: Sequence[str] = (),
) -> dict[str, int]:
    """Requeue or end executions that no worker owns any more. Returns the counts: lost, dead, cancelled, expired.

    What ran in the processes of ``ended_workers`` is lost whatever its lease says. ``cancel_grace`` is in seconds.
    ``leases_trusted`` is called once the transaction's time is known: False means that workers may have been unable to
    send heartbeats until then, and nothing else is changed.
    """
    done = {"lost": 0, "dead": 0, "cancelled": 0, "expired": 0}
    with metrics.transaction("reap"), database.write() as tx:
        if ended_workers:
            rows = tx.all(LockedExecution, _OF_ENDED, {"workers": list(ended_workers)})
            for row in rows:
                _recover(tx, row, f"the process of {row.worker_id} has ended", done)
            if len(rows) < BATCH:
                _remove_workers(tx, tx.rows(_ENDED_WORKERS, {"workers": list(ended_workers)}))
        if not leases_trusted():
            return done
        for row in _locked(tx, "lost", tx.now):
            _recover(tx, row, f"no heartbeat from {row.worker_id}", done)
        deadline = tx.now - timedelta(seconds=cancel_grace)
        for row in _locked(tx, "unstopped", deadline):
            done["cancelled"] += _end_cancelled(tx, row, "its worker did not stop it in time")
        for row in _locked(tx, "expired", tx.now):
            done["expired"] += _end(tx, row, "expired", "Expired", "it was not started in time")
    return done


def server_uptime(database: Database) -> float | None:
    """Return the seconds since the database server started; None for SQLite and for a clock that is not the server's.

    Raises :class:`~functory.engine.errors.Unavailable`.
    """
    with database.read() as tx:
        uptime = dialects.server_uptime(tx)
    return uptime if isinstance(database.clock, ServerClock) else None


def find_lost(database: Database, *, cancel_grace: float, unseen: float) -> tuple[bool, list[str]]:
    """Return whether :func:`reap` with this ``cancel_grace``, or :func:`remove_lost_workers` after ``unseen`` seconds,
    would find something, and the registered workers. One statement, no locks: it costs little while nothing is lost.
    """
    with database.read() as tx:
        given = {
            "now": tx.now,
            "stopped_by": tx.now - timedelta(seconds=cancel_grace),
            "seen_by": tx.now - timedelta(seconds=unseen),
        }
        rows = tx.rows(_lost_and_workers(), given)
    return bool(rows[0]["lost"]), [row["id"] for row in rows if row["id"] is not None]


def remove_lost_workers(database: Database, after: float) -> list[str]:
    """Remove workers that were not seen for ``after`` seconds, with a ``worker.lost`` event each. Returns their ids."""
    with database.write() as tx:
        return _remove_workers(tx, tx.rows(_UNSEEN, {"until": tx.now - timedelta(seconds=after)}))


def _remove_workers(tx: Tx, rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """Write the events of workers whose rows this transaction has deleted. Returns their ids."""
    event_store.append(
        tx,
        [
            event_store.record(
                tx,
                "worker.lost",
                row["id"],
                {"worker": row["id"], "slots": row["slots"], "seen_at": row["seen_at"].isoformat()},
                source="/functory/reaper",
            )
            for row in rows
        ],
    )
    return [row["id"] for row in rows]


# Built once, because the reaper runs them in every round, and most rounds find no row.
_CUTOFF = sa.bindparam("cutoff", type_=Instant)
_RUNNING = (
    execution.c.id.in_(open_executions.open_ids(queued=False)),
    execution.c.state == "running",
)


def _conditions(what: str, cutoff: sa.BindParameter[Any]) -> tuple[sa.ColumnElement[bool], ...]:
    if what == "lost":
        return (*_RUNNING, execution.c.lease_until < cutoff)
    if what == "unstopped":
        return (*_RUNNING, execution.c.cancel_requested_at < cutoff)
    return (
        # Queue rows of executions that wait for a retry do not expire: they were started in time.
        execution.c.id.in_(
            open_executions.open_ids(lambda columns: columns.expires_at <= cutoff, running=False)
        ),
        execution.c.state == "queued",
        execution.c.started_at.is_(None),
    )


_UNSEEN = sa.delete(worker).where(worker.c.seen_at < sa.bindparam("until", type_=Instant)).returning(worker)


_OF_ENDED = (
    sa.select(*LOCKED_COLUMNS)
    .where(*_RUNNING, execution.c.worker_id.in_(sa.bindparam("workers", expanding=True)))
    .order_by(execution.c.id)
    .limit(BATCH)
    .with_for_update(skip_locked=True)
)
_ENDED_WORKERS = (
    sa.delete(worker).where(worker.c.id.in_(sa.bindparam("workers", expanding=True))).returning(worker)
)
_REQUEUED = (
    sa.update(execution)
    .where(
        execution.c.id == sa.bindparam("own", type_=Id),
        execution.c.fence == sa.bindparam("of"),
        execution.c.state == "running",
    )
    .values(
        state="queued",
        fence=execution.c.fence + 1,
        run_at=sa.bindparam("now", type_=Instant),
        lease_until=None,
        worker_id=None,
    )
)
_ENDED = (
    sa.update(attempt)
    .where(attempt.c.execution_id == sa.bindparam("own", type_=Id), attempt.c.fence == sa.bindparam("of"))
    .values(
        ended_at=sa.bindparam("now", type_=Instant),
        outcome=sa.bindparam("how"),
        error=sa.bindparam("why", type_=Json),
    )
    .returning(attempt.c.started_at)
)


@functools.cache
def _lost_and_workers() -> Any:
    now, stopped_by, seen_by = (
        sa.bindparam(name, type_=Instant) for name in ("now", "stopped_by", "seen_by")
    )
    lost = sa.or_(
        sa.exists().where(*_conditions("lost", now)),
        sa.exists().where(*_conditions("unstopped", stopped_by)),
        sa.exists().where(*_conditions("expired", now)),
        sa.exists().where(worker.c.seen_at < seen_by),
    )
    # One row at least, also without workers.
    once, each = sa.select(sa.literal(1)).subquery(), worker.alias()
    return sa.select(lost.label("lost"), each.c.id).select_from(once.outerjoin(each, sa.true()))


@functools.cache
def _due(what: str) -> Any:
    statement = (
        sa.select(*LOCKED_COLUMNS).where(*_conditions(what, _CUTOFF)).order_by(execution.c.id).limit(BATCH)
    )
    return statement.with_for_update(skip_locked=True)


def _locked(tx: Tx, what: str, cutoff: datetime) -> list[LockedExecution]:
    return tx.all(LockedExecution, _due(what), {"cutoff": cutoff})


def _recover(tx: Tx, row: LockedExecution, why: str, done: dict[str, int]) -> None:
    """Requeue or end a running execution whose worker is gone, and count it in ``done``."""
    following = retry_or_dead_after_lost_lease(row)
    if following == "queued":
        done["lost"] += _requeue(tx, row, why)
    elif following == "dead":
        lost = f"attempt {row.attempt} of {row.max_attempts} was lost"
        done["dead"] += _end(tx, row, "dead", "Lost", f"{lost}: {why}")
    else:
        done["cancelled"] += _end_cancelled(tx, row, "its worker is gone")


def _requeue(tx: Tx, row: LockedExecution, why: str) -> int:
    changed = tx.execute(_REQUEUED, {"own": row.id, "of": row.fence, "now": tx.now}).rowcount
    if changed:
        queue_rows.requeue(tx, row.id, tx.now)
        error = {"type": "Lost", "message": why}
        _end_attempt(tx, row, "lost", error)
        data = event_data(row, "queued") | {"error": error, "next_attempt_in": 0}
        event_store.append(tx, [execution_event(tx, row, "execution.attempt_failed", data)])
        tx.wake("executions")
    return changed


def _end_cancelled(tx: Tx, row: LockedExecution, why: str) -> int:
    error = cancel_row.error_of(row.cancelled_by)
    return _end(tx, row, "cancelled", error["type"], f"{error['message']}; {why}")


def _end(tx: Tx, row: LockedExecution, state: str, type_: str, message: str) -> int:
    error = {"type": type_, "message": message}
    changed = tx.execute(
        sa.update(execution)
        .where(execution.c.id == row.id, execution.c.fence == row.fence, execution.c.state == row.state)
        .values(state=state, fence=execution.c.fence + 1, finished_at=tx.now, lease_until=None, error=error)
    ).rowcount
    if changed:
        if row.state == "running":
            queue_rows.remove_running(tx, [row.id])
        else:
            queue_rows.remove_queued(tx, row.id)
        queue_rows.count_ended(tx, row, state)
        bad_ends.record(tx, row.id, state)
        if row.has_concurrency:
            concurrency.release(tx, row.id)
        if row.state == "running":
            _end_attempt(tx, row, "cancelled" if state == "cancelled" else "lost", error)
        if traces.recorder is not None:
            traces.record_after_commit(tx.at_end, lambda: execution_spans.of_ended(row, state, error, tx.now))
        data = event_data(row, state) | {"error": error}
        if state == "cancelled":
            data |= {"author": row.cancelled_by}
        event_store.append(tx, [execution_event(tx, row, f"execution.{state}", data)])
        plan.begin_if_failed(tx, row, state)
        open_cancels.begin_if_failed(tx, row, state)
        transitions.after_end(tx, row, state, error)
        tx.wake("finished")
    return changed


def _end_attempt(tx: Tx, row: LockedExecution, outcome: str, error: Mapping[str, Any]) -> None:
    parameters = {"own": row.id, "of": row.fence, "now": tx.now, "how": outcome, "why": dict(error)}
    started_at = tx.scalar(_ENDED, parameters)
    if traces.recorder is not None and started_at is not None:
        traces.record_after_commit(
            tx.at_end,
            lambda: execution_spans.of_lost_attempt(
                row, outcome, error, started_at=started_at, ended_at=tx.now
            ),
        )

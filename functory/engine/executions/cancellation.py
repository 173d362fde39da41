"""Cancellation: a queued execution is cancelled at once, a running one through its worker.

The worker of a running execution sees the request with its next lease status, stops the attempt and finishes it as
``cancelled``. :mod:`functory.engine.maintenance.lost_workers` ends executions whose worker does not stop in time.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import sqlalchemy as sa

from functory.engine.database.connection import Database, Tx
from functory.engine.database.schema import execution
from functory.engine.errors import Conflict, NotFound
from functory.engine.events import store as event_store
from functory.engine.executions import queue_rows
from functory.engine.executions.compensation import plan
from functory.engine.executions.execution_events import event_data, execution_event
from functory.engine.flow_control import concurrency

OPEN = ("queued", "running")


def cancel(database: Database, id_: str, author: str) -> None:
    """queued → cancelled at once; for a running execution, request that its worker stops it.

    ``author`` appears in the event. Raises :class:`~functory.engine.errors.NotFound`, and
    :class:`~functory.engine.errors.Conflict` for a finished execution.
    """
    with database.write() as tx:
        if cancel_open(tx, id_, author) is not None:
            return
        state = tx.scalar(sa.select(execution.c.state).where(execution.c.id == id_))
    if state is None:
        raise NotFound(f"execution {id_} not found", try_="functory execution list")
    raise Conflict(f"execution {id_} is {state}", "a finished execution cannot be cancelled")


def cancel_open(tx: Tx, id_: str, author: str) -> str | None:
    """Cancel an execution if it is open. Returns its state before, None if it is finished or does not exist."""
    statement = sa.select(execution).where(execution.c.id == id_, execution.c.state.in_(OPEN))
    row = tx.first(statement.with_for_update())
    if row is None:
        return None
    if row["state"] == "queued":
        _cancel_queued(tx, row, author)
    else:
        _request_cancel(tx, row)
    return row["state"]


def _request_cancel(tx: Tx, row: Mapping[str, Any]) -> None:
    tx.execute(
        sa.update(execution)
        .where(execution.c.id == row["id"], execution.c.cancel_requested_at.is_(None))
        .values(cancel_requested_at=tx.now)
    )
    tx.wake("executions")


def _cancel_queued(tx: Tx, row: Mapping[str, Any], author: str) -> None:
    """queued → cancelled, with its one terminal event; the row is locked."""
    changed = tx.execute(
        sa.update(execution)
        .where(execution.c.id == row["id"], execution.c.state == "queued")
        .values(
            state="cancelled",
            finished_at=tx.now,
            error={"type": "Cancelled", "message": f"cancelled by {author or 'an operator'}"},
        )
    ).rowcount
    if changed:
        queue_rows.remove_queued(tx, row["id"])
        if row["has_concurrency"]:
            concurrency.release(tx, row["id"])
        data = event_data(row, "cancelled") | {"author": author}
        event_store.append(tx, [execution_event(tx, row, "execution.cancelled", data)])
        plan.begin_if_failed(tx, row, "cancelled")
        tx.wake("finished")

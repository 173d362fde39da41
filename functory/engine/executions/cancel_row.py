"""The cancellation of one execution's row: queued → cancelled at once; of a running one, a request to its worker."""

from __future__ import annotations

import sqlalchemy as sa

from functory.engine import names
from functory.engine.database.schema import execution
from functory.engine.database.transaction import Tx
from functory.engine.events import store as event_store
from functory.engine.executions import execution_spans, open_cancels, queue_rows
from functory.engine.executions.compensation import plan
from functory.engine.executions.execution_events import event_data, execution_event
from functory.engine.executions.execution_row import LOCKED_COLUMNS, LockedExecution
from functory.engine.flow_control import concurrency
from functory.engine.telemetry import traces

OPEN = ("queued", "running")


def cancel_row(tx: Tx, id_: str, author: str) -> LockedExecution | None:
    """Cancel an execution if it is open. Returns its row before, None if it is finished or does not exist."""
    statement = sa.select(*LOCKED_COLUMNS).where(execution.c.id == id_, execution.c.state.in_(OPEN))
    row = tx.one(LockedExecution, statement.with_for_update())
    if row is not None:
        cancel_locked(tx, row, author)
    return row


def cancel_locked(tx: Tx, row: LockedExecution, author: str) -> None:
    """Cancel an open execution, whose row this transaction has locked."""
    if row.state == "queued":
        _cancel_queued(tx, row, author)
    else:
        _request_cancel(tx, row, author)


def error_of(author: str | None) -> dict[str, str]:
    """Return the error of an execution that ``author`` has cancelled."""
    return {"type": "Cancelled", "message": f"cancelled by {names.author_in_words(author)}"}


def _request_cancel(tx: Tx, row: LockedExecution, author: str) -> None:
    tx.execute(
        sa.update(execution)
        .where(execution.c.id == row.id, execution.c.cancel_requested_at.is_(None))
        .values(cancel_requested_at=tx.now, cancelled_by=author or "an operator")
    )
    tx.wake("executions")


def _cancel_queued(tx: Tx, row: LockedExecution, author: str) -> None:
    """queued → cancelled, with its one terminal event; the row is locked."""
    # A request may have come while it ran; then it was queued again.
    author = row.cancelled_by or author
    changed = tx.execute(
        sa.update(execution)
        .where(execution.c.id == row.id, execution.c.state == "queued")
        .values(
            state="cancelled",
            finished_at=tx.now,
            cancelled_by=author or "an operator",
            error=error_of(author),
        )
    ).rowcount
    if changed:
        queue_rows.remove_queued(tx, row.id)
        queue_rows.count_ended(tx, row, "cancelled")
        if row.has_concurrency:
            concurrency.release(tx, row.id)
        data = event_data(row, "cancelled") | {"author": author}
        event_store.append(tx, [execution_event(tx, row, "execution.cancelled", data)])
        plan.begin_if_failed(tx, row, "cancelled")
        open_cancels.begin_if_failed(tx, row, "cancelled")
        if traces.recorder is not None:
            traces.record_after_commit(
                tx.at_end,
                lambda: execution_spans.of_ended(row, "cancelled", {"type": "Cancelled"}, tx.now),
            )
        tx.wake("finished")

"""Cancellation: a queued execution is cancelled at once, a running one through its worker.

The worker of a running execution sees the request with its next lease status, stops the attempt and finishes it as
``cancelled``. :mod:`functory.engine.maintenance.lost_workers` ends executions whose worker does not stop in time.

An execution that ends so takes its children along (:mod:`functory.engine.executions.open_cancels`). A cancel of its
tree also reaches what it has left alone, and what its events have started.
"""

from __future__ import annotations

import sqlalchemy as sa

from functory.engine.database import audit
from functory.engine.database.connection import Database, Tx
from functory.engine.database.schema import execution
from functory.engine.errors import Conflict, NotFound
from functory.engine.executions import open_cancels
from functory.engine.executions.cancel_row import OPEN as OPEN
from functory.engine.executions.cancel_row import cancel_row, error_of
from functory.engine.executions.runs import transitions


def cancel(database: Database, id_: str, author: str, *, batch: str | None = None) -> None:
    """queued → cancelled at once; for a running execution, request that its worker stops it.

    ``author`` appears in the event, and in the audit log unless a ``batch`` cancels it, which has an entry of its own.
    Raises :class:`~functory.engine.errors.NotFound`, and
    :class:`~functory.engine.errors.Conflict` for a finished execution.
    """
    with database.write() as tx:
        if cancel_open(tx, id_, author) is not None:
            if batch is None:
                audit.append(tx, author, "execution.cancel", id_)
            return
        state = _state(tx, id_)
    raise Conflict(
        f"execution {id_} is {state}",
        "a finished execution cannot be cancelled",
        f"functory execution cancel {id_} --tree, for what it has caused",
    )


def cancel_tree(database: Database, id_: str, author: str) -> None:
    """Cancel an execution, if it is open, and everything that it has caused: at once what can be reached now, the rest
    by :mod:`functory.engine.maintenance.canceller`.

    Raises :class:`~functory.engine.errors.NotFound`.
    """
    with database.write() as tx:
        cancel_open(tx, id_, author)
        _state(tx, id_)
        open_cancels.begin_of_tree(tx, id_, author)
        audit.append(tx, author, "execution.cancel_tree", id_)


def cancel_open(tx: Tx, id_: str, author: str) -> str | None:
    """Cancel an execution if it is open. Returns its state before, None if it is finished or does not exist."""
    row = cancel_row(tx, id_, author)
    if row is None:
        return None
    if row.state == "queued":
        transitions.after_end(tx, row, "cancelled", error_of(author))
    return row.state


def _state(tx: Tx, id_: str) -> str:
    state = tx.scalar(sa.select(execution.c.state).where(execution.c.id == id_))
    if state is None:
        raise NotFound(f"execution {id_} not found", try_="functory execution list")
    return str(state)

"""Sagas: what is to be undone because an execution failed for good, decided as it fails.

A function may name another one that undoes it (``compensate``). When an execution ends as failed, timed out, dead or,
once started, cancelled, everything that it had already brought about with such functions is to be undone, the newest
first: it is a *saga* then, and :func:`begin` writes its plan (rows of ``compensation``) in the transaction of its end.
What is still open waits in the plan until it has ended. ``engine.maintenance.compensator`` carries the plan out.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from functory.engine.database.schema import compensation
from functory.engine.database.transaction import Tx
from functory.engine.events import store as event_store
from functory.engine.events.causation import Cause
from functory.engine.executions.compensation import steps
from functory.engine.executions.compensation.steps import Step


def begin_if_failed(tx: Tx, row: Mapping[str, Any], state: str) -> None:
    """An execution has just ended as ``state``, in this transaction: plan what is to be undone.

    ``row`` is what it was before. One statement when there is nothing, none when it has not failed.
    """
    if state not in steps.COMPENSATED_STATES or row["started_at"] is None or row["cause"] == "compensation":
        return
    if add_steps(tx, row["id"], steps.find(tx, row["id"]), 1):
        emit_event(tx, row, "saga.started", {"state": state})


def add_steps(tx: Tx, saga_id: str, found: Sequence[Step], position: int) -> bool:
    """Add steps to a plan, the first at this free ``position``. True when one of them is to be undone by something.

    A step that another plan has already is left out.
    """
    rows = [
        {
            "saga_id": saga_id,
            "position": place,
            "step_id": step.step_id,
            "step_fence": step.fence,
            "step_seq": step.seq,
            "function": step.function,
            "compensate": step.compensate,
            "state": "waiting" if step.ended_at is None else "pending",
            "created_at": tx.now,
            "updated_at": tx.now,
        }
        for place, step in enumerate(found, position)
    ]
    written = tx.insert_returning(compensation, rows, compensation.c.position)
    return any(row["compensate"] for row in rows if row["position"] in written)


def emit_event(tx: Tx, saga: Mapping[str, Any], type_: str, data: Mapping[str, Any]) -> None:
    """Write an event about a saga: caused by the execution that failed."""
    known = {
        "execution_id": saga["id"],
        "function": saga["function"],
        "version": saga["version"],
        "parent_id": saga["parent_id"],
    }
    source = f"/functory/executions/{saga['id']}"
    cause = Cause.from_row(saga)
    event_store.append(
        tx, [event_store.record(tx, type_, saga["function"], {**known, **data}, source=source, cause=cause)]
    )

"""Compensation plans: the steps to undo after an execution failed for good (a *saga*), written as it fails.

A function may name another one that undoes it (``compensate``). When an execution ends as failed, timed out, dead or,
once started, cancelled, its successful steps with such functions are undone, the newest first.
:func:`begin_if_failed` writes that plan (rows of ``compensation``) in the transaction of the failure. Open steps wait
in the plan until they end. :mod:`functory.engine.executions.compensation.saga` advances the plan, and
:mod:`functory.engine.maintenance.compensator` finds the plans that can go on.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from functory.engine.database.schema import compensation
from functory.engine.database.transaction import Tx
from functory.engine.events import store as event_store
from functory.engine.events.causation import Cause
from functory.engine.executions.compensation import compensable_steps
from functory.engine.executions.compensation.compensable_steps import Step
from functory.engine.executions.execution_row import ExecutionRow


def begin_if_failed(tx: Tx, row: ExecutionRow, state: str) -> None:
    """Write the plan of an execution that ends as ``state`` in this transaction, if that is a failure.

    ``row`` is the execution before its end. One statement if it has no steps, none if it did not fail. Wakes the
    compensator when a plan may wait for this end.
    """
    wake_compensator(tx, row)
    if (
        state not in compensable_steps.COMPENSATED_STATES
        or row.started_at is None
        or row.cause == "compensation"
    ):
        return
    found = compensable_steps.find(tx, row.id)
    if found:
        tx.wake("sagas")
    if add_steps(tx, row.id, found, 1):
        emit_event(tx, row, "saga.started", {"state": state})


def wake_compensator(tx: Tx, row: ExecutionRow) -> None:
    """Wake the compensator after the end of an execution that a plan may wait for: a child or a compensation."""
    if row.parent_id is not None or row.cause == "compensation":
        tx.wake("sagas")


def add_steps(tx: Tx, saga_id: str, found: Sequence[Step], position: int) -> bool:
    """Add steps to a plan, from this free ``position`` on. True when one of them has a compensation.

    A step of another plan is skipped.
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


def emit_event(tx: Tx, saga: ExecutionRow, type_: str, data: Mapping[str, Any]) -> None:
    """Write an event about a saga; its cause is the failed execution."""
    known = {
        "execution_id": saga.id,
        "function": saga.function,
        "version": saga.version,
        "parent_id": saga.parent_id,
    }
    source = f"/functory/executions/{saga.id}"
    cause = Cause.from_row(saga)
    event_store.append(
        tx, [event_store.record(tx, type_, saga.function, {**known, **data}, source=source, cause=cause)]
    )

"""Operator commands on a compensation plan: show it, retry or skip the step that stopped it."""

from __future__ import annotations

from collections import Counter
from typing import Any

from functory.engine.database import audit
from functory.engine.database.connection import Database
from functory.engine.database.transaction import Tx
from functory.engine.errors import Conflict, NotFound
from functory.engine.events.store import as_id
from functory.engine.executions.compensation import compensable_steps, saga
from functory.engine.executions.compensation.saga import SagaProgress
from functory.engine.executions.execution_row import LockedExecution


class Compensations:
    """An operator's commands on compensation plans."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def plan(self, id_: str) -> list[dict[str, Any]]:
        """Return the plan of an execution that failed, in the order of compensation; empty when there is none."""
        with self._database.read() as tx:
            return saga.plan_rows(tx, as_id(id_, "execution"))

    def retry(self, id_: str, *, author: str = "") -> dict[str, Any]:
        """Retry the step that stopped a saga, as a new execution. Return the step's row.

        Raises :class:`NotFound`, and :class:`Conflict` when no step has stopped.
        """
        return self._decide(id_, "pending", author, "")

    def skip(self, id_: str, *, author: str = "", reason: str = "") -> dict[str, Any]:
        """Skip the step that stopped a saga, and go on with the next. Return the step's row.

        Raises as :meth:`retry`.
        """
        return self._decide(id_, "skipped", author, reason)

    def _decide(self, id_: str, state: str, author: str, reason: str) -> dict[str, Any]:
        id_ = as_id(id_, "execution")
        progress = SagaProgress()
        with self._database.write() as tx:
            failed = saga.lock(tx, id_)
            if failed is None:
                raise NotFound(f"execution {id_} not found", try_="functory execution list")
            row = next((one for one in saga.plan_rows(tx, id_) if one["state"] == "failed"), None)
            if row is None:
                raise _not_stuck(tx, failed)
            why = row["problem"] if state == "pending" else f"skipped by {author or 'an operator'}"
            problem = f"{why}: {reason}" if reason else why
            saga.change_state(tx, row, progress, state, problem=problem)
            action = "execution.compensate" if state == "pending" else "execution.compensate.skip"
            data = {"step": row["step_id"], "function": row["function"], "position": row["position"]}
            audit.append(tx, author, action, id_, data | ({"reason": reason} if reason else {}))
            saga.advance(tx, failed, progress)
            (row,) = (one for one in saga.plan_rows(tx, id_) if one["position"] == row["position"])
        progress.record_metrics()
        return row


def _not_stuck(tx: Tx, failed: LockedExecution) -> Conflict:
    """Return the error for a saga in which no step has stopped."""
    what = f"no compensation of execution {failed.id} has stopped"
    plan = saga.plan_rows(tx, failed.id)
    if plan:
        counts = Counter(row["state"] for row in plan)
        listed = ", ".join(f"{count} {state}" for state, count in sorted(counts.items()))
        return Conflict(what, f"its compensations: {listed}", f"functory execution show {failed.id}")
    if failed.cause == "compensation":
        return Conflict(
            what, "it is a compensation itself", f"functory execution compensate {failed.parent_id}"
        )
    why = (
        "it has no step that must be undone"
        if failed.state in compensable_steps.COMPENSATED_STATES
        else f"it is {failed.state}"
    )
    return Conflict(what, why)

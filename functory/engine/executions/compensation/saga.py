"""A saga: an execution that failed, and its compensation plan, advanced step by step, the newest first.

A row's states; every arrow is one transaction, under the lock of the execution that failed (the *saga*)::

    waiting → pending             the step, which was still open, has succeeded after all
    waiting → skipped             it has not, or nothing undoes it (then its own steps follow it in the plan)
    pending → running             the execution that undoes it is queued
    running → done, failed        that execution has ended
    pending → failed              it cannot be started: its compensation, or an argument of that, is missing
    failed → pending, skipped     an operator

A failed row stops its saga until an operator decides.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import sqlalchemy as sa

from functory.engine.database.schema import Id, compensation, execution
from functory.engine.database.transaction import Tx
from functory.engine.errors import FunctoryError
from functory.engine.executions import cancellation
from functory.engine.executions import store as execution_store
from functory.engine.executions.compensation import compensable_steps, compensating_execution
from functory.engine.executions.compensation import plan as compensation_plan
from functory.engine.executions.execution_row import LOCKED_COLUMNS, LockedExecution
from functory.engine.telemetry import metrics

# Built once, because every scheduler runs it in every round.
_PLAN_ROWS = (
    sa.select(compensation)
    .where(compensation.c.saga_id == sa.bindparam("saga", type_=Id))
    .order_by(compensation.c.position)
)


@dataclass
class SagaProgress:
    """What one round changed: rows by their new state, and how the saga ended or stopped."""

    states: Counter[str] = field(default_factory=Counter)
    result: str | None = None

    def record_metrics(self) -> None:
        """Count the changes, once they are committed."""
        for state, count in self.states.items():
            metrics.compensations.labels(state).inc(count)
        if self.result is not None:
            metrics.sagas.labels(self.result).inc()


def lock(tx: Tx, saga_id: str, *, skip: bool = False) -> LockedExecution | None:
    """Lock the execution that failed, so that one process at a time works on its plan.

    ``skip``: None when another process holds it. The lock is weak enough for compensations to refer to the row.
    """
    statement = sa.select(*LOCKED_COLUMNS).where(execution.c.id == saga_id)
    statement = statement.with_for_update(key_share=True, skip_locked=skip)
    return tx.one(LockedExecution, statement)


def plan_rows(tx: Tx, saga_id: str) -> list[dict[str, Any]]:
    """Return the plan of a saga, in the order of compensation."""
    return tx.rows(_PLAN_ROWS, {"saga": saga_id})


def next_step(plan: Sequence[Mapping[str, Any]]) -> tuple[Mapping[str, Any] | None, str | None]:
    """Return the next step of a plan: the row to start, or the state of the saga ("stuck", "compensated").

    Strictly in order: nothing is started while a step is still open, or another one is being undone.
    """
    states = {row["state"] for row in plan}
    if "failed" in states:
        return None, "stuck"
    if states & {"waiting", "running"}:
        return None, None
    pending = next((row for row in plan if row["state"] == "pending"), None)
    return pending, None if pending is not None else "compensated"


def advance(tx: Tx, saga: LockedExecution, progress: SagaProgress) -> None:
    """Advance one locked saga by one round."""
    _record_finished(tx, saga, progress)
    plan = plan_rows(tx, saga.id)
    if any(row["compensate"] for row in plan):
        because = f"the failure of {saga.function}, execution {saga.id}"
        for row in plan:
            if row["state"] == "waiting":
                cancellation.cancel_open(tx, row["step_id"], because)
    following, result = next_step(plan)
    if following is not None:
        try:
            started = compensating_execution.start(tx, saga, following)
            change_state(tx, following, progress, "running", execution_id=started, problem=None)
        except FunctoryError as error:
            _stop(tx, saga, following, progress, str(error).replace("\n", "; "))
    elif result == "compensated" and progress.states and any(row["compensate"] for row in plan):
        counted = Counter(row["state"] for row in plan if row["compensate"])
        compensation_plan.emit_event(
            tx, saga, "saga.compensated", {"done": counted["done"], "skipped": counted["skipped"]}
        )
        progress.result = result
    if progress.states:
        # The next step is due at once.
        tx.wake("sagas")


def _record_finished(tx: Tx, saga: LockedExecution, progress: SagaProgress) -> None:
    """Update the rows that wait for an execution's end once it has ended."""
    plan = plan_rows(tx, saga.id)
    watched = {
        row["position"]: row["step_id"] if row["state"] == "waiting" else row["execution_id"]
        for row in plan
        if row["state"] in ("waiting", "running")
    }
    if not watched:
        return
    ended = {
        row["id"]: row
        for row in tx.rows(
            sa.select(execution).where(
                execution.c.id.in_(sorted(set(watched.values()))),
                execution.c.state.in_(execution_store.TERMINAL),
            )
        )
    }
    moved = 0
    for row in plan:
        other = ended.get(watched.get(row["position"], ""))
        if other is None:
            continue
        here = dict(row) | {"position": row["position"] + moved}
        if row["state"] == "running":
            if other["state"] == "succeeded":
                change_state(tx, here, progress, "done")
            else:
                error = other["error"] or {}
                why = f"{error.get('type', '')}: {error.get('message', '')}".strip(": ")
                _stop(tx, saga, here, progress, f"{other['function']} {_words(other['state'])}: {why}")
        elif other["state"] != "succeeded":
            change_state(
                tx, here, progress, "skipped", problem=f"it {_words(other['state'])}; nothing is left to undo"
            )
        elif row["compensate"]:
            change_state(tx, here, progress, "pending")
        else:
            change_state(tx, here, progress, "skipped", problem="nothing undoes it; its own steps follow")
            moved += _insert_below(tx, saga, here)


def _insert_below(tx: Tx, saga: LockedExecution, row: Mapping[str, Any]) -> int:
    """Insert the steps below a step that has no compensation behind it. Return the number of places that they take."""
    found = compensable_steps.find(tx, row["step_id"])
    if not found:
        return 0
    behind = (compensation.c.saga_id == saga.id, compensation.c.position > row["position"])
    # In two statements: each position is unique, also while one statement moves several rows.
    tx.execute(sa.update(compensation).where(*behind).values(position=-compensation.c.position - len(found)))
    tx.execute(
        sa.update(compensation)
        .where(compensation.c.saga_id == saga.id, compensation.c.position < 0)
        .values(position=-compensation.c.position)
    )
    known = any(one["compensate"] for one in plan_rows(tx, saga.id))
    if compensation_plan.add_steps(tx, saga.id, found, row["position"] + 1) and not known:
        compensation_plan.emit_event(tx, saga, "saga.started", {"state": saga.state})
    return len(found)


def _stop(
    tx: Tx, saga: LockedExecution, row: Mapping[str, Any], progress: SagaProgress, problem: str
) -> None:
    """Record that a step could not be undone: the saga stops until an operator decides."""
    change_state(tx, row, progress, "failed", problem=problem)
    data = {
        "position": row["position"],
        "step_id": row["step_id"],
        "step_function": row["function"],
        "compensate": row["compensate"],
        "problem": problem,
    }
    compensation_plan.emit_event(tx, saga, "saga.stuck", data)
    progress.result = "stuck"


def change_state(tx: Tx, row: Mapping[str, Any], progress: SagaProgress, state: str, **values: Any) -> None:
    """Set the state of a plan's row, and count it in ``progress``."""
    tx.execute(
        sa.update(compensation)
        .where(compensation.c.saga_id == row["saga_id"], compensation.c.position == row["position"])
        .values(state=state, updated_at=tx.now, **values)
    )
    progress.states[state] += 1


def _words(state: str) -> str:
    """Return the words for a state, for the end of a sentence."""
    return {"failed": "failed", "timed_out": "timed out"}.get(state, f"is {state}")

"""Rows of runs: found, locked, changed, ended. The other modules of this room decide when.

Each change of a run locks its row first.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import sqlalchemy as sa

from functory.engine.agents import calls
from functory.engine.database.id_lists import one_of
from functory.engine.database.schema import Id, approval, execution, llm_call, meter, run, run_step, run_wait
from functory.engine.database.transaction import Tx
from functory.engine.events import store as event_store
from functory.engine.events.causation import CAUSE_COLUMNS, Cause, CausingExecution
from functory.engine.executions.runs import metric_counts

_ID = sa.bindparam("id", type_=Id)
_LOCKED = sa.select(run).where(run.c.id == _ID).with_for_update()
_STEP = sa.select(run_step).where(run_step.c.execution_id == _ID)
_NEWEST = sa.select(run_step).where(run_step.c.run_id == _ID, run_step.c.number == sa.bindparam("number"))
_LAST = sa.select(run_step).where(run_step.c.run_id == _ID, run_step.c.number > sa.bindparam("after"))
_WAITERS = sa.select(run_wait).where(one_of(run_wait.c.target_id)).order_by(run_wait.c.run_id)
_FIRST = sa.select(execution.c.depth, execution.c.chain, execution.c.priority).where(execution.c.id == _ID)
_CAUSE = (
    sa.select(*CAUSE_COLUMNS)
    .join(run_step, run_step.c.execution_id == execution.c.id)
    .where(run_step.c.run_id == _ID, run_step.c.number == sa.bindparam("number"))
)
_SPENT = sa.select(meter).where(meter.c.root_id == _ID)


def lock(tx: Tx, id_: str) -> dict[str, Any]:
    """Return a run, locked until the commit."""
    found = tx.first(_LOCKED, {"id": id_})
    assert found is not None
    return found


def lock_if_run(tx: Tx, id_: str) -> dict[str, Any] | None:
    """Return a run, locked until the commit; None when there is none with this id."""
    return tx.first(_LOCKED, {"id": id_})


def newest_step(tx: Tx, own: Mapping[str, Any]) -> dict[str, Any]:
    """Return the newest step of a run."""
    found = tx.first(_NEWEST, {"id": own["id"], "number": own["step"]})
    assert found is not None
    return found


def step_of(tx: Tx, execution_id: str) -> dict[str, Any] | None:
    """Return the step that an execution is."""
    return tx.first(_STEP, {"id": execution_id})


def waiters(tx: Tx, targets: Sequence[str]) -> list[dict[str, Any]]:
    """Return the waits for any of ``targets``, in the order of their runs."""
    return tx.rows(_WAITERS, {"ids": list(targets)}) if targets else []


def last_steps(tx: Tx, own: Mapping[str, Any], count: int) -> list[dict[str, Any]]:
    """Return the newest steps of a run, oldest first."""
    found = tx.rows(_LAST, {"id": own["id"], "after": own["step"] - count})
    return sorted(found, key=lambda row: row["number"])


def step_execution(tx: Tx, own: Mapping[str, Any]) -> CausingExecution:
    """Return the execution that a run's newest step is."""
    found = tx.one(CausingExecution, _CAUSE, {"id": own["id"], "number": own["step"]})
    assert found is not None
    return found


def first_execution(tx: Tx, run_id: str) -> dict[str, Any]:
    """Return depth, chain and priority of a run's first execution."""
    found = tx.first(_FIRST, {"id": run_id})
    assert found is not None
    return found


def meter_of(tx: Tx, root_id: str) -> dict[str, Any]:
    """Return the meter of a run's tree, which has one since the run began."""
    found = tx.first(_SPENT, {"id": root_id})
    assert found is not None
    return found


def wait_for(tx: Tx, own: Mapping[str, Any], kind: str, targets: Sequence[str]) -> None:
    """Let a run wait for rows."""
    rows = [{"run_id": own["id"], "target_id": target, "kind": kind} for target in targets]
    tx.insert(run_wait, rows)


def stop_waiting(tx: Tx, own: Mapping[str, Any], target: str | None = None) -> int:
    """End the wait for one target, or every wait. Returns how many are left."""
    condition = run_wait.c.run_id == own["id"]
    if target is not None:
        tx.execute(sa.delete(run_wait).where(condition, run_wait.c.target_id == target))
        return int(tx.scalar(sa.select(sa.func.count()).select_from(run_wait).where(condition)))
    tx.execute(sa.delete(run_wait).where(condition))
    return 0


def waits_of(tx: Tx, run_id: str) -> list[dict[str, Any]]:
    """Return what a run waits for."""
    return tx.rows(sa.select(run_wait).where(run_wait.c.run_id == run_id).order_by(run_wait.c.target_id))


def change(tx: Tx, own: dict[str, Any], **values: Any) -> None:
    """Change a run, in the database and in ``own``."""
    values["updated_at"] = tx.now
    tx.execute(sa.update(run).where(run.c.id == own["id"]).values(**values))
    own.update(values)


def change_step(tx: Tx, own: Mapping[str, Any], **values: Any) -> None:
    """Change the newest step of a run."""
    newest = run_step.c.run_id == own["id"], run_step.c.number == own["step"]
    tx.execute(sa.update(run_step).where(*newest).values(**values))


def emit(tx: Tx, own: Mapping[str, Any], verb: str, data: Mapping[str, Any], cause: Cause | None) -> None:
    """Write an event about a run; its subject is the agent, or the function of a run without one.

    Without a ``cause`` its newest step is one: the event of an answer or a decision belongs to the run's tree, and
    guards count what its triggers start.
    """
    if cause is None:
        cause = Cause.from_row(step_execution(tx, own))
    known = {
        "run_id": own["id"],
        "root_id": own["root_id"],
        "agent": own["agent"],
        "function": own["function"],
        "step": own["step"],
    }
    subject = own["agent"] or own["function"]
    record = event_store.record(
        tx, f"run.{verb}", subject, {**known, **data}, source=f"/functory/runs/{own['id']}", cause=cause
    )
    event_store.append(tx, [record])


def withdraw_questions(tx: Tx, of: sa.ColumnElement[bool], state: str = "withdrawn") -> None:
    """End the open questions of a run or a proposal without a decision."""
    statement = (
        sa.update(approval)
        .where(of, approval.c.state == "pending")
        .values(state=state, decided_at=tx.now)
        .returning(approval.c.kind, approval.c.requested_at)
    )
    for question in tx.rows(statement):
        metric_counts.decided(tx, question, state)


def close(tx: Tx, own: dict[str, Any]) -> list[str]:
    """End all that a run waits for but executions: calls that are not sent, and open questions. Returns the ids of the
    executions and runs that it waited for.
    """
    waits = waits_of(tx, own["id"])
    asked = [row["target_id"] for row in waits if row["kind"] == "call"]
    stop_waiting(tx, own)
    if asked:
        calls.cancel_queued(tx, llm_call.c.id.in_(asked))
    withdraw_questions(tx, approval.c.run_id == own["id"])
    return [row["target_id"] for row in waits if row["kind"] in ("execution", "run")]

"""Invariants of runs of agents: I24, I25."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import sqlalchemy as sa

from functory.engine.database.schema import approval, execution, llm_call, run, run_step, run_wait
from functory.engine.database.schema.agents import RUN_OPEN
from functory.engine.maintenance.invariants.query import QueryScope, Violations, message_for, violations

_OPEN = ("queued", "running")
_OPEN_CALLS = ("queued", "sent")


def unfinished(scope: QueryScope) -> Sequence[Violations]:
    """I24: an open run that nothing will take on, or that two things will."""
    recent = scope.ids_since(run.c.id)
    newest = sa.and_(run_step.c.run_id == run.c.id, run_step.c.number == run.c.step)
    steps = (
        sa.select(sa.func.count())
        .select_from(run_step.join(execution, execution.c.id == run_step.c.execution_id))
        .where(newest, execution.c.state.in_(_OPEN))
        .scalar_subquery()
    )
    waits = (
        sa.select(sa.func.count())
        .select_from(run_wait)
        .where(run_wait.c.run_id == run.c.id)
        .scalar_subquery()
    )
    is_open = run.c.state.in_(RUN_OPEN)
    wrong = (
        (
            is_open != run.c.ended_at.is_(None),
            "run {id} of {name} has ended without a time, or has a time and is open",
        ),
        (
            sa.and_(run.c.state == "running", steps == 0),
            "run {id} of {name} is running, and has no open step",
        ),
        (
            sa.and_(run.c.state == "running", waits > 0),
            "run {id} of {name} is running, and waits",
        ),
        (
            sa.and_(run.c.state.like("waiting%"), waits == 0),
            "run {id} of {name} waits for nothing",
        ),
        (
            sa.and_(run.c.state.like("waiting%"), steps > 0),
            "run {id} of {name} waits, and has an open step",
        ),
        (
            sa.and_(run.c.state == "paused", sa.or_(steps > 0, waits > 0, run.c.pending.is_(None))),
            "run {id} of {name} is paused, and goes on, or has nothing to go on with",
        ),
        (
            sa.and_(sa.not_(is_open), waits > 0),
            "run {id} of {name} has ended, and waits",
        ),
    )
    return [
        violations(message_for(*wrong), run.c.id, run.c.function)
        .select_from(run)
        .where(sa.or_(*(condition for condition, _ in wrong)), *recent),
        *(_vain(scope, kind, table, ended) for kind, table, ended in _TARGETS),
    ]


_TARGETS: tuple[tuple[str, Any, Any], ...] = (
    ("call", llm_call, llm_call.c.state.not_in(_OPEN_CALLS)),
    ("execution", execution, execution.c.state.not_in(_OPEN)),
    ("approval", approval, approval.c.state != "pending"),
)


def _vain(scope: QueryScope, kind: str, table: Any, ended: Any) -> Violations:
    """A wait whose target has ended, or is not there."""
    joined = run_wait.outerjoin(table, table.c.id == run_wait.c.target_id)
    return (
        violations(f"a run waits for {kind} {{id}}, which has ended", run_wait.c.target_id)
        .select_from(joined)
        .where(
            run_wait.c.kind == kind, sa.or_(table.c.id.is_(None), ended), *scope.ids_since(run_wait.c.run_id)
        )
    )


def wrong_steps(scope: QueryScope) -> Sequence[Violations]:
    """I25: a run whose steps have a gap, and a step that is no execution of its tree."""
    steps = (
        sa.select(sa.func.count())
        .select_from(run_step)
        .where(run_step.c.run_id == run.c.id, run_step.c.number.between(1, run.c.step))
        .scalar_subquery()
    )
    every = (
        sa.select(sa.func.count())
        .select_from(run_step)
        .where(run_step.c.run_id == run.c.id)
        .scalar_subquery()
    )
    wrong = sa.or_(
        execution.c.id.is_(None), execution.c.root_id != run.c.root_id, execution.c.cause != "step"
    )
    return [
        violations("run {id} of {name} has gaps in its {number} steps", run.c.id, run.c.function, run.c.step)
        .select_from(run)
        .where(sa.or_(steps != run.c.step, every != run.c.step), *scope.ids_since(run.c.id)),
        violations(
            "step {number} of run {id} is no execution of its tree",
            run_step.c.run_id,
            number=run_step.c.number,
        )
        .select_from(
            run_step.join(run, run.c.id == run_step.c.run_id).outerjoin(
                execution, execution.c.id == run_step.c.execution_id
            )
        )
        .where(wrong, *scope.ids_since(run_step.c.run_id)),
        violations("execution {id} of {name} is a step of no run", execution.c.id, execution.c.function)
        .select_from(execution.outerjoin(run_step, run_step.c.execution_id == execution.c.id))
        .where(
            execution.c.cause == "step",
            run_step.c.run_id.is_(None),
            *scope.ids_since(execution.c.id, execution.c.root_id),
        ),
    ]

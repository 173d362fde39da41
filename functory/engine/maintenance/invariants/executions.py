"""Invariants of executions and their attempts: I5, I6, I7, I8, I10, I15."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import sqlalchemy as sa

from functory.engine.database.schema import (
    attempt,
    backlog,
    cancellation,
    compensation,
    event,
    execution,
    in_flight,
    log,
    match_buffer,
    slot,
    source,
    span,
    trigger,
    worker,
)
from functory.engine.executions import open_executions, queue_rows
from functory.engine.executions.dispatch import MAX_REDISPATCH_SECONDS
from functory.engine.maintenance.invariants.query import QueryScope, Violations, message_for, violations
from functory.engine.maintenance.invariants.routing import NOT_HALTED
from functory.engine.maintenance.invariants.state_events import TERMINAL

# How far a lease may end beyond its length: it may be renewed after we read the clock and before we read the rows.
LEASE_SLACK = 5.0

# Open executions are found by their queue rows, so that history costs nothing; I17 checks these rows.
_QUEUED = sa.and_(execution.c.state == "queued", execution.c.id.in_(open_executions.open_ids(running=False)))
_RUNNING = sa.and_(execution.c.state == "running", execution.c.id.in_(open_executions.open_ids(queued=False)))
_WAITS_FOR_SLOT = execution.c.id.in_(
    sa.select(backlog.c.execution_id).where(open_executions.WAITING_FOR_SLOT)
)
_COMPENSATING = compensation.c.state.in_(("waiting", "pending", "running"))
_RESTS = "execution {id} of {name} "


def stalled(scope: QueryScope) -> Sequence[Violations]:
    """I5: open rows without progress: executions, matches, cancellations, compensations."""
    if scope.drained:
        return [*_left_open(scope), _blocked(scope)]
    late = scope.overdue_cutoff()
    return [
        _execution(scope, "runs without a lease", _RUNNING, execution.c.lease_until.is_(None)),
        _execution(
            scope, "has lost its lease, and no reaper takes it", _RUNNING, execution.c.lease_until < late
        ),
        _execution(
            scope,
            "was to be cancelled and still runs",
            _RUNNING,
            execution.c.cancel_requested_at < scope.overdue_cutoff(scope.lease),
        ),
        _execution(
            scope,
            "is past its time and has not expired",
            _QUEUED,
            execution.c.expires_at < late,
            execution.c.started_at.is_(None),
        ),
        _execution(
            scope,
            "is due, and no worker claims anything",
            _QUEUED,
            sa.not_(_WAITS_FOR_SLOT),
            execution.c.run_at < late,
            sa.not_(_workers_progress(scope)),
        ),
        _execution(
            scope,
            "was sent, is not claimed, and is not sent again",
            execution.c.state == "queued",
            execution.c.id.in_(
                sa.select(in_flight.c.execution_id).where(
                    queue_rows.UNCLAIMED,
                    in_flight.c.dispatched_at
                    < scope.overdue_cutoff(timedelta(seconds=MAX_REDISPATCH_SECONDS)),
                )
            ),
        ),
        _blocked(scope),
        violations("matches of trigger {name} are due and not decided about", None, trigger.c.name)
        .select_from(match_buffer)
        .join(trigger, trigger.c.id == match_buffer.c.trigger_id)
        .where(
            match_buffer.c.due_at < late,
            trigger.c.state.in_(("enabled", "deleted")),
            NOT_HALTED,
            _all_routed(scope),
        ),
        violations("event {id} should cancel something and has not", cancellation.c.event_id)
        .select_from(cancellation)
        .where(cancellation.c.time < late, NOT_HALTED, _all_routed(scope)),
        violations(
            "step {number} of the saga {id} is not undone: {name}",
            compensation.c.saga_id,
            compensation.c.state,
            compensation.c.position,
        ).where(
            _COMPENSATING,
            sa.not_(_stuck()),
            compensation.c.updated_at < late,
            sa.not_(_worked_on()),
        ),
    ]


def too_many_attempts(scope: QueryScope) -> Sequence[Violations]:
    """I6: more attempts than the limit."""
    return [
        violations(
            "execution {id} of {name} has made {number} attempts",
            execution.c.id,
            execution.c.function,
            execution.c.attempt,
        ).where(
            sa.or_(execution.c.attempt > execution.c.max_attempts, execution.c.attempt < 0),
            *scope.ids_since(execution.c.id),
        )
    ]


def miscounted(scope: QueryScope) -> Sequence[Violations]:
    """I7: each claim is a row and adds one to the counter, and a release takes it back. A running execution has one
    open attempt, any other has none. A finished execution is in no concurrency group.
    """
    rows = (
        sa.select(
            attempt.c.execution_id,
            sa.func.sum(sa.case((attempt.c.outcome == "released", 0), else_=1)).label("counted"),
            sa.func.sum(sa.case((attempt.c.ended_at.is_(None), 1), else_=0)).label("open"),
            sa.func.sum(sa.case((attempt.c.outcome == "released", 1), else_=0)).label("released"),
        )
        .where(*scope.ids_since(attempt.c.execution_id))
        .group_by(attempt.c.execution_id)
        .subquery()
    )
    number = sa.func.coalesce(rows.c.counted, 0)
    open_ = sa.func.coalesce(rows.c.open, 0)
    wrong = number != execution.c.attempt
    unclosed = open_ != sa.case((execution.c.state == "running", 1), else_=0)
    released = sa.func.coalesce(rows.c.released, 0) < execution.c.released
    return [
        violations(
            message_for(
                (wrong, "execution {id} ({name}) has made {number} attempts and counts another number"),
                (unclosed, "execution {id} is {name} and has a wrong number of open attempts"),
                (sa.true(), "execution {id} ({name}) counts more releases than it had"),
            ),
            execution.c.id,
            execution.c.state,
            number,
        )
        .select_from(execution)
        .outerjoin(rows, rows.c.execution_id == execution.c.id)
        .where(sa.or_(wrong, unclosed, released), *scope.ids_since(execution.c.id)),
        violations("execution {id} is {name} and has a concurrency slot", execution.c.id, execution.c.state)
        .select_from(slot)
        .join(execution, execution.c.id == slot.c.execution_id)
        .where(execution.c.state.in_(TERMINAL), *scope.ids_since(execution.c.id)),
    ]


def unfenced(scope: QueryScope) -> Sequence[Violations]:
    """I8: no attempt has a fence above its execution's. A running execution, and one that a worker finished, has an
    attempt with exactly that fence.
    """
    by_worker = execution.c.state.in_(("succeeded", "failed", "timed_out"))
    return [
        violations(
            "execution {id} ({name}) has an attempt with a fence above its own",
            execution.c.id,
            execution.c.state,
        )
        .select_from(attempt)
        .join(execution, execution.c.id == attempt.c.execution_id)
        .where(attempt.c.fence > execution.c.fence, *scope.ids_since(attempt.c.execution_id)),
        violations(
            "execution {id} is {name}, but its newest attempt is not", execution.c.id, execution.c.state
        )
        .select_from(execution)
        .outerjoin(
            attempt,
            sa.and_(attempt.c.execution_id == execution.c.id, attempt.c.fence == execution.c.fence),
        )
        .where(
            sa.or_(
                sa.and_(execution.c.state == "running", attempt.c.fence.is_(None)),
                sa.and_(by_worker, attempt.c.outcome.is_distinct_from(execution.c.state)),
            ),
            *scope.ids_since(execution.c.id),
        ),
    ]


def repeated(scope: QueryScope) -> Sequence[Violations]:
    """I10: two attempts that succeeded; a success that the execution does not have; spans or log lines of an attempt
    that did not finish; matched output of an execution that did not succeed.
    """
    won = attempt.c.outcome == "succeeded"
    undo = execution.alias("undo")
    zombie = sa.or_(attempt.c.outcome.is_(None), attempt.c.outcome.in_(("lost", "released")))
    return [
        violations(
            "{number} attempts of execution {id} have succeeded",
            attempt.c.execution_id,
            number=sa.func.count(),
        )
        .where(won, *scope.ids_since(attempt.c.execution_id))
        .group_by(attempt.c.execution_id)
        .having(sa.func.count() > 1),
        violations(
            "an attempt of execution {id} has succeeded, and the execution is {name}",
            execution.c.id,
            execution.c.state,
        )
        .select_from(attempt)
        .join(execution, execution.c.id == attempt.c.execution_id)
        .where(won, execution.c.state != "succeeded", *scope.ids_since(attempt.c.execution_id)),
        *(
            violations(
                "attempt {number} of execution {id} did not finish and has left a " + table.name,
                attempt.c.execution_id,
                number=attempt.c.number,
            ).where(
                zombie,
                sa.exists().where(
                    table.c.execution_id == attempt.c.execution_id, table.c.fence == attempt.c.fence
                ),
                *scope.ids_since(attempt.c.execution_id),
            )
            for table in (span, log)
        ),
        # A compensation takes effect once as well: an execution that succeeded undoes a step of one that failed.
        violations(
            "step {number} of the saga {id} counts as undone, and what undid it is {name}",
            compensation.c.saga_id,
            sa.func.coalesce(undo.c.state, "missing"),
            compensation.c.position,
        )
        .select_from(compensation)
        .outerjoin(
            undo,
            sa.and_(
                undo.c.id == compensation.c.execution_id,
                undo.c.parent_id == compensation.c.saga_id,
                undo.c.cause == "compensation",
            ),
        )
        .where(
            compensation.c.state == "done",
            undo.c.state.is_distinct_from("succeeded"),
            *scope.ids_since(compensation.c.saga_id),
        ),
        violations(
            "the saga {id} is {name}, but its steps have a compensation plan",
            execution.c.id,
            execution.c.state,
        )
        .select_from(compensation)
        .join(execution, execution.c.id == compensation.c.saga_id)
        .where(
            execution.c.state.in_(("queued", "running", "succeeded")),
            *scope.ids_since(compensation.c.saga_id),
        ),
        violations(
            "event {id} reports the output of an execution that is {name}", event.c.id, execution.c.state
        )
        .select_from(event)
        .join(execution, execution.c.id == event.c.cause_execution_id)
        .where(
            event.c.type == "output.matched", execution.c.state != "succeeded", *scope.ids_since(event.c.id)
        ),
    ]


def invalid_leases(scope: QueryScope) -> Sequence[Violations]:
    """I15: a lease that ends later than one lease length from now, or that belongs to an execution that does not
    run.
    """
    longest = scope.now(scope.lease + timedelta(seconds=LEASE_SLACK))
    return [
        _execution(scope, "has a lease that is too long", _RUNNING, execution.c.lease_until > longest),
        violations("execution {id} is {name} and has a lease", execution.c.id, execution.c.state).where(
            execution.c.lease_until.is_not(None),
            execution.c.state != "running",
            *scope.ids_since(execution.c.id),
        ),
        violations("the source {name} has a lease that is too long", source.c.id, source.c.name).where(
            source.c.lease_until > longest
        ),
    ]


def _execution(scope: QueryScope, words: str, *conditions: Any) -> Violations:
    return violations(_RESTS + words, execution.c.id, execution.c.function).where(
        *conditions, *scope.ids_since(execution.c.id)
    )


def _left_open(scope: QueryScope) -> list[Violations]:
    return [
        _execution(scope, "is still queued", execution.c.state == "queued"),
        _execution(scope, "is still running", execution.c.state == "running"),
        violations("event {id} should cancel something and has not", cancellation.c.event_id).where(
            NOT_HALTED
        ),
        violations(
            "step {number} of the saga {id} is not undone: {name}",
            compensation.c.saga_id,
            compensation.c.state,
            compensation.c.position,
        ).where(_COMPENSATING, sa.not_(_stuck())),
    ]


def _blocked(scope: QueryScope) -> Violations:
    """Select executions that wait for a slot without a slot request that could let them in."""
    waits = sa.exists().where(slot.c.execution_id == execution.c.id, slot.c.taken_at.is_(None))
    return _execution(
        scope,
        "waits for a slot without a slot request",
        _WAITS_FOR_SLOT,
        sa.not_(waits),
    )


def _workers_progress(scope: QueryScope) -> Any:
    """Return the condition that workers do what they can: one claimed an execution lately, or all live workers are
    full.
    """
    claimed = sa.exists(
        sa.select(event.c.id).where(
            event.c.type == "execution.started", event.c.id >= scope.overdue_cutoff_id()
        )
    )
    alive = worker.c.seen_at > scope.now(-scope.lease)
    slots = sa.select(sa.func.coalesce(sa.func.sum(worker.c.slots), 0)).where(alive).scalar_subquery()
    claimed_now = sa.select(sa.func.count()).select_from(in_flight).where(open_executions.CLAIMED)
    running = claimed_now.scalar_subquery()
    return sa.or_(claimed, sa.and_(slots > 0, running >= slots))


def _all_routed(scope: QueryScope) -> Any:
    """Return the condition that no earlier event waits for its routing: flow control goes by the order of events."""
    waiting = event.alias("waiting")
    return sa.not_(
        sa.exists(sa.select(waiting.c.id).where(waiting.c.state == "pending", waiting.c.time < scope.now()))
    )


def _worked_on() -> Any:
    """Return the condition that a saga makes progress: its step is open, or an execution that undoes one of its steps
    is.
    """
    doing = execution.alias("doing")
    other = compensation.alias("other")
    return sa.exists(
        sa.select(doing.c.id)
        .select_from(other)
        .join(doing, sa.or_(doing.c.id == other.c.execution_id, doing.c.id == other.c.step_id))
        .where(other.c.saga_id == compensation.c.saga_id, doing.c.state.in_(("queued", "running")))
    )


def _stuck() -> Any:
    """Return the condition that a step of the saga could not be undone: the others wait for an operator; an event
    reports it.
    """
    other = compensation.alias("other")
    return sa.exists().where(other.c.saga_id == compensation.c.saga_id, other.c.state == "failed")

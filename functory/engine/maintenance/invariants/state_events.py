"""Invariants of changes and their events: I4 and I9.

An event and its change are one transaction, so they have the same time. An execution has as many events as it had
changes. Data of events is not checked.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import sqlalchemy as sa

from functory.engine.database.dialects import materialized
from functory.engine.database.schema import (
    attempt,
    event,
    execution,
    function,
    function_version,
    source,
    trigger,
    trigger_version,
)
from functory.engine.events.event_types import SOURCE_CHANGES
from functory.engine.maintenance.invariants.query import QueryScope, Violations, violations

FINAL_EVENT_TYPES = tuple(
    f"execution.{state}" for state in ("succeeded", "failed", "timed_out", "cancelled", "dead", "expired")
)
TERMINAL = tuple(type_.split(".")[1] for type_ in FINAL_EVENT_TYPES)
# Outcomes after which an execution is tried again or ends badly.
FAILING = ("failed", "timed_out", "crashed", "lost")


def missing_events(scope: QueryScope) -> Sequence[Violations]:
    """I4: a version or a state without its event, an attempt without the events of its start and its failure."""
    saved = ("function.created", "function.updated")
    defined = ("trigger.created", "trigger.updated")
    return [
        _without_event(
            scope,
            "version {number} of function {name} has no event",
            function_version.join(function, function.c.id == function_version.c.function_id),
            function.c.name,
            function_version.c.created_at,
            saved,
            function_version.c.number,
        ),
        _without_event(
            scope,
            "the last change of function {name} has no event",
            function,
            function.c.name,
            function.c.updated_at,
            (*saved, "function.activated", "function.disabled", "function.deleted"),
        ),
        _without_event(
            scope,
            "version {number} of trigger {name} has no event",
            trigger_version.join(trigger, trigger.c.id == trigger_version.c.trigger_id),
            trigger.c.name,
            trigger_version.c.created_at,
            defined,
            trigger_version.c.number,
        ),
        _without_event(
            scope,
            "the last change of trigger {name} has no event",
            trigger,
            trigger.c.name,
            trigger.c.updated_at,
            (*defined, *(f"trigger.{word}" for word in ("paused", "resumed", "promoted", "deleted"))),
        ),
        _without_event(
            scope,
            "the last change of source {name} has no event",
            source,
            source.c.name,
            source.c.updated_at,
            SOURCE_CHANGES,
        ),
        _starts(scope),
        _failures(scope),
    ]


def wrong_final_events(scope: QueryScope) -> Sequence[Violations]:
    """I9: an execution that ended without its event, or with two; one that did not end and has one."""
    said = (
        sa.select(
            execution.c.id.label("id"), (sa.literal("execution.") + execution.c.state).label("type"), _one(1)
        )
        .where(execution.c.state.in_(TERMINAL), *scope.ids_since(execution.c.id))
        .union_all(
            sa.select(event.c.cause_execution_id, event.c.type, _one(-1)).where(
                event.c.type.in_(FINAL_EVENT_TYPES), *scope.ids_since(event.c.cause_execution_id)
            )
        )
        .subquery()
    )
    left = sa.func.sum(said.c.one)
    return [
        violations(
            sa.case(
                (left > 0, sa.literal("execution {id} has ended without the event {name}")),
                else_=sa.literal("execution {id} has an event {name} too many"),
            ),
            said.c.id,
            said.c.type,
        )
        .group_by(said.c.id, said.c.type)
        .having(left != 0)
    ]


def _without_event(
    scope: QueryScope, words: str, rows: Any, name: Any, moment: Any, types: Sequence[str], number: Any = None
) -> Violations:
    reported = materialized(
        sa.select(event.c.subject, event.c.time)
        .where(event.c.type.in_(types), *scope.times_since(event.c.time))
        .distinct()
    )
    return (
        violations(words, None, name, number)
        .select_from(rows)
        .outerjoin(reported, sa.and_(reported.c.subject == name, reported.c.time == moment))
        .where(reported.c.subject.is_(None), *scope.times_since(moment), scope.unpruned(moment))
    )


def _starts(scope: QueryScope) -> Violations:
    counted = (
        sa.select(attempt.c.execution_id.label("id"), _one(1))
        .where(*scope.ids_since(attempt.c.execution_id))
        .union_all(
            sa.select(event.c.cause_execution_id, _one(-1)).where(
                event.c.type == "execution.started", *scope.ids_since(event.c.cause_execution_id)
            )
        )
        .subquery()
    )
    left = sa.func.sum(counted.c.one)
    return (
        violations(
            "execution {id} has attempts without events of their start, or such events without attempts",
            counted.c.id,
        )
        .group_by(counted.c.id)
        .having(left != 0)
    )


def _failures(scope: QueryScope) -> Violations:
    """Select executions whose failed attempts do not match their events: each one but the last has an event. The last
    one of a cancelled execution may have one.
    """
    counted = (
        sa.select(attempt.c.execution_id.label("id"), _one(1))
        .where(attempt.c.outcome.in_(FAILING), *scope.ids_since(attempt.c.execution_id))
        .union_all(
            sa.select(event.c.cause_execution_id, _one(-1)).where(
                event.c.type == "execution.attempt_failed", *scope.ids_since(event.c.cause_execution_id)
            ),
            sa.select(execution.c.id, _one(-1)).where(
                execution.c.state.in_(("failed", "timed_out", "dead")), *scope.ids_since(execution.c.id)
            ),
        )
        .subquery()
    )
    left = sa.select(counted.c.id).group_by(counted.c.id).having(sa.func.sum(counted.c.one) != 0).subquery()
    return (
        violations(
            "execution {id} ({name}) has failed attempts without events, or such events without failed attempts",
            left.c.id,
            execution.c.state,
        )
        .select_from(left)
        .join(execution, execution.c.id == left.c.id)
        .where(execution.c.state != "cancelled")
    )


def _one(number: int) -> Any:
    return sa.literal(number, sa.Integer).label("one")

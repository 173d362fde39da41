"""Invariants of canaries: I26, I27."""

from __future__ import annotations

from collections.abc import Sequence

import sqlalchemy as sa

from functory.engine.database.schema import canary, canary_execution, execution, function
from functory.engine.database.schema.canaries import CANARY_OPEN
from functory.engine.maintenance.invariants.query import QueryScope, Violations, violations


def wrong_canaries(scope: QueryScope) -> Sequence[Violations]:
    """I26: a function that shares its executions with a canary that is not open, an open canary that its function does
    not have, and one whose base is not active.

    That a function has one open canary is a unique index.
    """
    is_open = canary.c.state.in_(CANARY_OPEN)
    return [
        violations("function {name} has a canary that is not open", function.c.canary_id, function.c.name)
        .select_from(function)
        .outerjoin(
            canary,
            sa.and_(canary.c.id == function.c.canary_id, canary.c.function_id == function.c.id, is_open),
        )
        .where(function.c.canary_id.is_not(None), canary.c.id.is_(None)),
        violations(
            "canary {id} of {name} is open, and its function does not have it",
            canary.c.id,
            canary.c.function,
        )
        .select_from(canary)
        .join(function, function.c.id == canary.c.function_id)
        .where(is_open, function.c.canary_id.is_distinct_from(canary.c.id)),
        violations(
            "canary {id} of {name} compares with v{number}, which is not active",
            canary.c.id,
            canary.c.function,
            canary.c.base,
        )
        .select_from(canary)
        .join(function, function.c.id == canary.c.function_id)
        .where(is_open, function.c.active.is_distinct_from(canary.c.base)),
    ]


def wrong_versions(scope: QueryScope) -> Sequence[Violations]:
    """I27: an execution with another version than its canary has chosen, and a choice without an execution."""
    chosen = sa.case(
        (
            sa.and_(canary_execution.c.is_canary, canary_execution.c.outcome.is_distinct_from("moved")),
            canary.c.version,
        ),
        else_=canary.c.base,
    )
    recent = scope.ids_since(canary_execution.c.execution_id)
    return [
        violations(
            "execution {id} of {name} has v{number}, its canary has chosen another version",
            execution.c.id,
            execution.c.function,
            execution.c.version,
        )
        .select_from(canary_execution)
        .join(canary, canary.c.id == canary_execution.c.canary_id)
        .join(execution, execution.c.id == canary_execution.c.execution_id)
        .where(execution.c.version != chosen, *recent),
        violations(
            "execution {id} is not there, and a canary has chosen its version",
            canary_execution.c.execution_id,
        )
        .select_from(canary_execution)
        .outerjoin(execution, execution.c.id == canary_execution.c.execution_id)
        .where(execution.c.id.is_(None), *recent),
    ]

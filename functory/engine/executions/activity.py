"""The executions that run now."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa

from functory.engine.access import scopes
from functory.engine.access.scopes import Scope
from functory.engine.database.schema import attempt, execution, in_flight
from functory.engine.database.transaction import Tx
from functory.engine.executions import open_executions


def running(tx: Tx, limit: int, scope: Scope = None) -> list[dict[str, Any]]:
    """Return executions that run: those whose attempt has run longest come first. ``started_at`` is that of the
    attempt.
    """
    shown = ("id", "function", "version", "attempt", "cause", "worker_id", "root_id")
    own = sa.and_(attempt.c.execution_id == execution.c.id, attempt.c.fence == execution.c.fence)
    statement = (
        sa.select(*(execution.c[name] for name in shown), attempt.c.started_at)
        .join(attempt, own)
        .where(
            execution.c.id.in_(open_executions.open_ids(queued=False)),
            execution.c.state == "running",
            *scopes.executions(scope),
        )
        .order_by(attempt.c.started_at, execution.c.id)
        .limit(limit)
    )
    return tx.rows(statement)


def running_by_function(tx: Tx, scope: Scope = None) -> dict[str, int]:
    """Return how many executions of each function run."""
    statement = (
        sa.select(in_flight.c.function, sa.func.count())
        .where(open_executions.CLAIMED, *scopes.function_names(in_flight.c.function, scope))
        .group_by(in_flight.c.function)
    )
    return tx.pairs(statement)

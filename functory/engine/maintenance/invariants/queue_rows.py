"""Invariants of what no key of the database holds: I17, the queue rows of open executions; I18, references between
tables that are written with every execution.
"""

from __future__ import annotations

from collections.abc import Sequence

import sqlalchemy as sa

from functory.engine.database.schema import attempt, backlog, execution, function_version, in_flight
from functory.engine.maintenance.invariants.query import QueryScope, Violations, message_for, violations

_STATE = sa.func.coalesce(execution.c.state, "missing")


def misplaced(scope: QueryScope) -> Sequence[Violations]:
    """I17: a queued execution has exactly one row in backlog or in_flight, a running one in in_flight, as claimed, and
    no other execution has one.
    """
    in_backlog = backlog.c.execution_id.is_not(None)
    sent = in_flight.c.execution_id.is_not(None)
    nowhere = sa.and_(sa.not_(in_backlog), sa.not_(sent))
    twice = sa.and_(in_backlog, sent)
    is_claimed = sa.func.coalesce(in_flight.c.claimed, sa.false())
    wrong_kind = is_claimed != sa.case((execution.c.state == "running", sa.true()), else_=sa.false())
    return [
        violations(
            message_for(
                (nowhere, "execution {id} is {name}, and is neither in the backlog nor in flight"),
                (twice, "execution {id} is {name}, and is both in the backlog and in flight"),
                (sa.true(), "execution {id} is {name}, and its row in flight says otherwise"),
            ),
            execution.c.id,
            execution.c.state,
        )
        .select_from(execution)
        .outerjoin(backlog, backlog.c.execution_id == execution.c.id)
        .outerjoin(in_flight, in_flight.c.execution_id == execution.c.id)
        .where(
            execution.c.state.in_(("queued", "running")),
            sa.or_(nowhere, twice, wrong_kind),
            *scope.ids_since(execution.c.id),
        ),
        *(
            violations(f"execution {{id}} is {{name}} and is still {where}", table.c.execution_id, _STATE)
            .select_from(table)
            .outerjoin(execution, execution.c.id == table.c.execution_id)
            .where(_STATE.not_in(("queued", "running")), *scope.ids_since(table.c.execution_id))
            for table, where in ((backlog, "in the backlog"), (in_flight, "in flight"))
        ),
    ]


def unreferenced(scope: QueryScope) -> Sequence[Violations]:
    """I18: each attempt has its execution, and each execution its version."""
    return [
        violations(
            "attempt {number} of execution {id} has no execution",
            attempt.c.execution_id,
            None,
            attempt.c.number,
        )
        .select_from(attempt)
        .outerjoin(execution, execution.c.id == attempt.c.execution_id)
        .where(execution.c.id.is_(None), *scope.ids_since(attempt.c.execution_id)),
        violations("execution {id} of {name} has no version", execution.c.id, execution.c.function)
        .select_from(execution)
        .outerjoin(function_version, function_version.c.id == execution.c.version_id)
        .where(function_version.c.id.is_(None), *scope.ids_since(execution.c.id)),
    ]

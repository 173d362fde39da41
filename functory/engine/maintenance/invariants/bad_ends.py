"""I19: the table of bad ends has exactly the executions that failed, timed out or are dead."""

from __future__ import annotations

from collections.abc import Sequence

import sqlalchemy as sa

from functory.engine.database.schema import bad_end, execution
from functory.engine.database.schema.executions import BAD_ENDS
from functory.engine.maintenance.invariants.query import QueryScope, Violations, violations


def mislisted(scope: QueryScope) -> Sequence[Violations]:
    """I19."""
    listed = sa.and_(bad_end.c.execution_id == execution.c.id, bad_end.c.state == execution.c.state)
    return [
        violations(
            "execution {id} is {name}, and bad_end does not list it", execution.c.id, execution.c.state
        )
        .select_from(execution)
        .outerjoin(bad_end, listed)
        .where(
            execution.c.state.in_(BAD_ENDS),
            bad_end.c.execution_id.is_(None),
            *scope.ids_since(execution.c.id),
        ),
        violations("bad_end says that execution {id} is {name}", bad_end.c.execution_id, bad_end.c.state)
        .select_from(bad_end)
        .outerjoin(execution, listed)
        .where(execution.c.id.is_(None), *scope.ids_since(bad_end.c.execution_id)),
    ]

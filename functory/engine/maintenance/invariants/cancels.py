"""The invariant of cancels: I30."""

from __future__ import annotations

from collections.abc import Sequence

import sqlalchemy as sa

from functory.engine.database.schema import execution, open_cancel
from functory.engine.executions import open_executions
from functory.engine.executions.open_cancels import CANCELLABLE
from functory.engine.maintenance.invariants.query import QueryScope, Violations, violations

_ENDED = ("failed", "timed_out", "dead", "cancelled")


def left_behind(scope: QueryScope) -> Sequence[Violations]:
    """I30: a child that goes on although its parent has ended without success, and no open cancel will reach it."""
    parent = execution.alias("its_parent")
    reached = sa.exists().where(
        open_cancel.c.execution_id == execution.c.parent_id,
        open_cancel.c.whole_tree.is_(False),
        open_cancel.c.requested_at >= scope.overdue_cutoff(),
    )
    return [
        violations(
            "execution {id} of {name} goes on, and its parent has ended without success",
            execution.c.id,
            execution.c.function,
        )
        .join(parent, parent.c.id == execution.c.parent_id)
        .where(
            execution.c.id.in_(open_executions.open_ids()),
            execution.c.ends_with_parent,
            CANCELLABLE,
            parent.c.state.in_(_ENDED),
            sa.not_(reached),
            *scope.ids_since(execution.c.id),
        )
    ]

"""Bad ends that a role of an earlier release did not record.

In a rolling upgrade, roles of before schema 0009 still end executions, and do not know table ``bad_end``.
The tallier records them when it counts the interval of the end, so that lists of failures leave none out for longer
than it takes to count. The invariant I19 waits as long.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import sqlalchemy as sa

from functory.engine.database.schema import Id, bad_end, event, execution
from functory.engine.database.schema.executions import BAD_ENDS
from functory.engine.database.transaction import Tx

_MISSED = (
    sa.select(execution.c.id, execution.c.state)
    .select_from(event)
    .join(execution, execution.c.id == event.c.cause_execution_id)
    .where(
        event.c.id >= sa.bindparam("first", type_=Id),
        event.c.id < sa.bindparam("last", type_=Id),
        event.c.type.in_([f"execution.{state}" for state in BAD_ENDS]),
        execution.c.state.in_(BAD_ENDS),
        ~sa.exists().where(bad_end.c.state == execution.c.state, bad_end.c.execution_id == execution.c.id),
    )
)


def record(tx: Tx, interval: Mapping[str, Any]) -> int:
    """Record those whose end has an id from ``first`` on and before ``last``. Returns their number."""
    # Held, so that retention does not delete an execution before its row is there.
    held = _MISSED.with_for_update(read=True, of=execution, skip_locked=True)
    rows = [{"state": row["state"], "execution_id": row["id"]} for row in tx.rows(held, interval)]
    return sum(tx.insert_new(bad_end, row) for row in rows)

"""Executions that failed, timed out or are dead, in a narrow table: lists of them cost what is listed.

No index of table ``execution`` has the state, which changes (see :mod:`functory.engine.database.schema.executions`).
The row is written in the transaction that ends the execution, and deleted with the execution.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

import sqlalchemy as sa

from functory.engine.database.schema import bad_end
from functory.engine.database.schema.executions import BAD_ENDS
from functory.engine.database.transaction import Tx


def record(tx: Tx, execution_id: str, state: str) -> None:
    """Record the end of an execution, if it is a bad one."""
    if state in BAD_ENDS:
        tx.insert(bad_end, [{"state": state, "execution_id": execution_id}])


def of_executions(ids: Sequence[str]) -> sa.ColumnElement[bool]:
    """Return the condition on the rows of these executions."""
    return sa.and_(bad_end.c.state.in_(BAD_ENDS), bad_end.c.execution_id.in_(ids))


def are_bad(states: Collection[str]) -> bool:
    """Return True when the table has all executions in these states."""
    return bool(states) and set(states) <= set(BAD_ENDS)

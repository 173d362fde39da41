"""What executions of some versions of a function have touched: the blast radius of a wrong version."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

import sqlalchemy as sa

from functory.engine.access import scopes
from functory.engine.access.scopes import Scope
from functory.engine.database.connection import Database
from functory.engine.database.schema import event, execution, firing
from functory.engine.database.schema.executions import BAD_ENDS
from functory.engine.database.transaction import Tx

# Executions of the function that are looked at, newest first, and of its versions that are counted.
LOOKED_AT = 50_000
MOST = 5_000
# Executions that are named.
NAMED = 50
_PART = 500


def of_versions(
    database: Database, function: str, first: int, last: int, *, scope: Scope = None
) -> dict[str, Any]:
    """Return the number of executions of versions ``first`` to ``last``, the newest of them, and what they touched:
    roots, events, and the functions that ran because of them. ``more`` says that there are more executions.
    """
    newest = (
        sa.select(
            execution.c.id,
            execution.c.version,
            execution.c.state,
            execution.c.root_id,
            execution.c.created_at,
        )
        .where(execution.c.function == function)
        .order_by(execution.c.id.desc())
        .limit(LOOKED_AT)
        .subquery("newest")
    )
    chosen = (
        sa.select(newest)
        .where(newest.c.version >= first, newest.c.version <= last)
        .order_by(newest.c.id.desc())
        .limit(MOST + 1)
    )
    functions: Counter[str] = Counter()
    events = 0
    with database.read(snapshot=True) as tx:
        rows = tx.rows(chosen)
        looked_at = tx.scalar(sa.select(sa.func.count()).select_from(newest))
        more = len(rows) > MOST or looked_at == LOOKED_AT
        rows = rows[:MOST]
        for ids in _parts([row["id"] for row in rows]):
            events += _count(tx, event, event.c.cause_execution_id.in_(ids))
            functions.update(_started(tx, ids, scope))
    return {
        "first": first,
        "last": last,
        "executions": len(rows),
        "more": more,
        "failed": sum(row["state"] in BAD_ENDS for row in rows),
        "roots": len({row["root_id"] for row in rows}),
        "events": events,
        "functions": dict(functions.most_common()),
        "first_at": rows[-1]["created_at"] if rows else None,
        "last_at": rows[0]["created_at"] if rows else None,
        "execution_ids": [row["id"] for row in rows[:NAMED]],
    }


def _started(tx: Tx, ids: Sequence[str], scope: Scope) -> Counter[str]:
    """Count the executions that these have called or caused by their events, by function."""
    called = (
        sa.select(execution.c.function, sa.func.count().label("count"))
        .where(execution.c.parent_id.in_(ids), *scopes.executions(scope))
        .group_by(execution.c.function)
    )
    caused = (
        sa.select(execution.c.function, sa.func.count(execution.c.id.distinct()).label("count"))
        .select_from(event)
        .join(firing, firing.c.event_id == event.c.id)
        .join(execution, execution.c.id == firing.c.execution_id)
        .where(event.c.cause_execution_id.in_(ids), *scopes.executions(scope))
        .group_by(execution.c.function)
    )
    found: Counter[str] = Counter()
    for statement in (called, caused):
        for row in tx.rows(statement):
            found[row["function"]] += row["count"]
    return found


def _count(tx: Tx, table: sa.Table, condition: sa.ColumnElement[bool]) -> int:
    return int(tx.scalar(sa.select(sa.func.count()).select_from(table).where(condition)) or 0)


def _parts(ids: Sequence[str]) -> Iterator[Sequence[str]]:
    for start in range(0, len(ids), _PART):
        yield ids[start : start + _PART]

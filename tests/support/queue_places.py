"""Where open executions stand in the queues, for tests that look at it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import sqlalchemy as sa

from functory.engine.database import schema
from functory.engine.database.connection import Database

# Of an execution without a row in a table.
_NOWHERE = {
    "queue": None,
    "queue_at": None,
    "waiting_for_slot": False,
    "dispatched_at": None,
    "dispatch_count": 0,
}


def with_places(database: Database, rows: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Rows of executions, each with what its queue row says. ``queue`` is the name of the table, or None."""
    with database.read() as tx:
        found = {
            row["execution_id"]: {name: row[name] for name in _NOWHERE if name in row} | {"queue": table.name}
            for table in (schema.backlog, schema.in_flight)
            for row in tx.rows(sa.select(table))
        }
    return [dict(row) | _NOWHERE | found.get(row["id"], {}) for row in rows]


def place_of(database: Database, id_: str) -> dict[str, Any]:
    """What the queue row of one execution says."""
    (row,) = with_places(database, [{"id": id_}])
    return row

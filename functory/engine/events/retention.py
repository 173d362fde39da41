"""What sources have taken in is remembered for a while only: a busy one would fill the database with it.

Afterwards the same arrival would be a new one. So the time has to be longer than any sender goes on repeating itself,
and longer than the range of a backfill that is not to repeat what was fired.
"""

from __future__ import annotations

import functools
from datetime import timedelta
from typing import Any

import sqlalchemy as sa

from functory.engine.database.connection import Database
from functory.engine.database.schema import Instant, delivery_receipt, schedule_tick

# Rows of one transaction, which stays short whatever has piled up.
BATCH = 1000


@functools.cache
def _any_before(table: sa.Table) -> sa.Select[Any]:
    return sa.select(sa.literal(1)).where(table.c.time < sa.bindparam("moment", type_=Instant)).limit(1)


def delete_expired(database: Database, older_than: timedelta, batch: int = BATCH) -> dict[str, int]:
    """Delete up to ``batch`` receipts and as many ticks that are ``older``. Returns how many of each."""
    done: dict[str, int] = {}
    for table in (delivery_receipt, schedule_tick):
        keys = list(table.primary_key.columns)
        with database.read() as tx:
            # Most rounds find nothing: they should not take the one writer of SQLite.
            if tx.scalar(_any_before(table), {"moment": tx.now - older_than}) is None:
                done[table.name] = 0
                continue
        with database.write() as tx:
            old = (
                sa.select(*keys).where(table.c.time < tx.now - older_than).order_by(table.c.time).limit(batch)
            )
            old = old.with_for_update(skip_locked=True)
            rows = [tuple(row.values()) for row in tx.rows(old)]
            if rows:
                tx.execute(sa.delete(table).where(sa.tuple_(*keys).in_(rows)))
            done[table.name] = len(rows)
    return done

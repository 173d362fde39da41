"""Rows that are locked to decide something by them, and made when they are not there yet.

What does not exist cannot be locked, and what is no longer needed may be swept away between the look and the lock; so
both are asked for until they are there. Rows are locked in the order of their keys: two who want the same ones wait
for each other in a line, never in a circle.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

import sqlalchemy as sa

from functory.engine.database.transaction import Tx
from functory.engine.errors import Unavailable

# The moment of a row that was made only to be locked: over by everybody's clock.
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
# A sweep may take a row away once or twice; after that something is wrong.
TRIES = 5


def lock(
    tx: Tx, table: sa.Table, rows: Sequence[dict[str, Any]], *, key_share: bool = False
) -> dict[tuple[Any, ...], dict[str, Any]]:
    """The rows of ``table`` with the primary keys of ``rows`` by their keys, locked until the commit.

    Those that are missing are made as ``rows`` has them. With ``keep`` they are only kept from being deleted, beside
    others that lock them. Raises :class:`Unavailable` when they vanish again and again.
    """
    columns = list(table.primary_key.columns)
    wanted = {tuple(row[column.name] for column in columns): row for row in rows}
    if not wanted:
        return {}
    keys = sorted(wanted)
    asked = {"keys": keys if len(columns) > 1 else [key[0] for key in keys]}
    for _ in range(TRIES):
        tx.insert_missing(table, [wanted[key] for key in keys])
        rows = tx.rows(_locking(table, key_share), asked)
        found = {tuple(row[column.name] for column in columns): row for row in rows}
        if len(found) == len(wanted):
            return found
    raise Unavailable(f"rows of {table.name} vanish while they are being locked", try_="it is tried again")


@functools.cache
def _locking(table: sa.Table, key_share: bool) -> sa.Select[Any]:
    columns = list(table.primary_key.columns)
    one = columns[0] if len(columns) == 1 else sa.tuple_(*columns)
    mine = one.in_(sa.bindparam("keys", expanding=True))
    return sa.select(table).where(mine).order_by(*columns).with_for_update(read=key_share, key_share=True)

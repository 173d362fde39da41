"""Row locks: rows that are locked until the commit, and inserted first when they are missing.

A row that does not exist cannot be locked, and a sweep may delete a row between the insert and the lock. Insert and
lock are repeated until all rows are there. Rows are locked in the order of their keys, which rules out deadlocks
between transactions that lock the same rows.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

import sqlalchemy as sa

from functory.engine.database.id_lists import one_of_keys
from functory.engine.database.transaction import Tx
from functory.engine.errors import Unavailable

# Timestamp of a row that was inserted only to be locked: in the past by every clock.
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
# A sweep may delete a row once or twice; after that something is wrong.
TRIES = 5


def lock(
    tx: Tx, table: sa.Table, rows: Sequence[dict[str, Any]], *, key_share: bool = False
) -> dict[tuple[Any, ...], dict[str, Any]]:
    """Lock the rows of ``table`` with the primary keys of ``rows`` until the commit. Returns them by key.

    Missing rows are inserted as ``rows`` has them, with all columns. With ``key_share`` other transactions may lock
    them as well, and only deletion waits. Raises :class:`Unavailable` when rows keep vanishing.
    """
    columns = list(table.primary_key.columns)
    wanted = {tuple(row[column.name] for column in columns): row for row in rows}
    if not wanted:
        return {}
    keys = sorted(wanted)
    asked = {"keys": keys if len(columns) > 1 else [key[0] for key in keys]}
    if tx.dialect == "sqlite":
        # SQLite has one writer at a time: no other transaction inserts or deletes rows meanwhile.
        found = _by_key(columns, tx.rows(_locking(table, key_share), asked))
        missing = {key: dict(wanted[key]) for key in keys if key not in found}
        tx.insert(table, list(missing.values()))
        return found | missing
    for _ in range(TRIES):
        tx.insert_missing(table, [wanted[key] for key in keys])
        found = _by_key(columns, tx.rows(_locking(table, key_share), asked))
        if len(found) == len(wanted):
            return found
    raise Unavailable(f"rows of {table.name} vanish while they are being locked", try_="it is tried again")


def _by_key(
    columns: Sequence[sa.Column[Any]], rows: Sequence[dict[str, Any]]
) -> dict[tuple[Any, ...], dict[str, Any]]:
    return {tuple(row[column.name] for column in columns): row for row in rows}


@functools.cache
def _locking(table: sa.Table, key_share: bool) -> sa.Select[Any]:
    columns = list(table.primary_key.columns)
    mine = columns[0].in_(sa.bindparam("keys", expanding=True)) if len(columns) == 1 else one_of_keys(columns)
    return sa.select(table).where(mine).order_by(*columns).with_for_update(read=key_share, key_share=True)

"""Retention of jobs: deletes batches and backtests that ended longer ago than the limit of trees, in small steps.

What they were about is deleted after the same time. An open one is never deleted.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from datetime import datetime

import sqlalchemy as sa

from functory.engine.database import prune_watermarks
from functory.engine.database.clock import lowest_id
from functory.engine.database.connection import Database, Tx
from functory.engine.database.schema import backtest, batch

# Rows of one transaction: a backtest holds its result, which may be large.
CHUNK = 100
_OPEN = ("waiting", "running")
_TABLES = (batch, backtest)


def prune(database: Database, cutoff: datetime) -> Iterator[Counter[str]]:
    """Delete what ended before ``cutoff``; yield the rows that each transaction deleted, by table."""
    for table in _TABLES:
        ended = sa.select(table.c.id).where(*_ended(table, cutoff)).order_by(table.c.id).limit(CHUNK)
        while True:
            with database.read() as tx:
                if tx.scalar(ended.limit(1)) is None:
                    break
            with database.write() as tx:
                ids = list(tx.execute(ended.with_for_update(skip_locked=True)).scalars())
                if not ids:
                    # Another scheduler deletes them.
                    break
                prune_watermarks.advance(tx, prune_watermarks.TREES, cutoff)
                tx.execute(sa.delete(table).where(table.c.id.in_(ids)))
            yield Counter({table.name: len(ids)})


def counted(tx: Tx, cutoff: datetime) -> Counter[str]:
    """Return the rows that :func:`prune` would delete, by table."""
    return +Counter(
        {
            table.name: tx.scalar(sa.select(sa.func.count()).select_from(table).where(*_ended(table, cutoff)))
            for table in _TABLES
        }
    )


def _ended(table: sa.Table, cutoff: datetime) -> tuple[sa.ColumnElement[bool], ...]:
    # An id is older than the end: the condition on it reads the primary key, and young jobs are not looked at.
    return table.c.id < lowest_id(cutoff), table.c.state.not_in(_OPEN), table.c.finished_at < cutoff

"""Weekly partitions of spans and log lines on PostgreSQL: pruning drops a table instead of deleting rows.

Tables ``span`` and ``log`` are partitioned by the execution's id, a UUIDv7, which begins with its time. A week is a
partition (``log_20260302``, named by its Monday). ``log_before`` has the rows from before the first week, and
``log_rest`` takes rows that fit no other partition, so that an insert never fails. The scheduler creates the coming
weeks ahead. SQLite has no partitions; the functions of this module do nothing there.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import sqlalchemy as sa

from functory.engine.database.clock import lowest_id
from functory.engine.database.connection import Database, Tx

PARTITIONED_TABLES = ("span", "log")
WEEK = timedelta(days=7)
# Weeks created ahead. A scheduler that is away for longer only makes ``rest`` larger.
AHEAD = 4
# Creating and dropping a partition takes a lock that all writers wait for, so the wait for that lock is short.
LOCK_MILLISECONDS = 2000
# The most rows that are moved from ``rest`` into their own week; if there are more, all of them stay.
MAX_MOVED_ROWS = 50_000


@dataclass(frozen=True)
class Partition:
    """One partition: ``first`` is its lowest id and ``end`` the lowest id above it, None for no bound."""

    table: str
    name: str
    first: str | None
    end: str | None
    is_default: bool = False


def week(at: datetime) -> datetime:
    """Return the start of the week of ``at``: Monday, midnight in UTC."""
    day = at.astimezone(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
    return day - timedelta(days=day.weekday())


def list_partitions(tx: Tx) -> list[Partition]:
    """Return the partitions of this database, the oldest first; none on SQLite."""
    if tx.dialect != "postgresql":
        return []
    rows = tx.rows(
        sa.text(
            "SELECT parent.relname AS table, part.relname AS name, pg_get_expr(part.relpartbound, part.oid) AS bound"
            " FROM pg_inherits JOIN pg_class parent ON parent.oid = inhparent JOIN pg_class part ON part.oid = inhrelid"
            " WHERE parent.oid IN (to_regclass('span'), to_regclass('log'))"
        )
    )
    parts = [_parsed(row) for row in rows]
    return sorted(parts, key=lambda part: (part.table, part.is_default, part.first or ""))


def create_missing(database: Database, ahead: int = AHEAD) -> list[str]:
    """Create missing partitions of this week and the next ``ahead`` weeks. Returns their names."""
    if database.dialect != "postgresql":
        return []
    made: list[str] = []
    with database.read() as tx:
        known = list_partitions(tx)
        starts = [week(tx.now) + WEEK * number for number in range(ahead + 1)]
    for table in PARTITIONED_TABLES:
        mine = [part for part in known if part.table == table]
        if not mine:
            continue
        for start in starts:
            if not any(_overlaps(part, lowest_id(start), lowest_id(start + WEEK)) for part in mine):
                made += _create(database, table, start)
    return made


def drop(tx: Tx, part: Partition) -> None:
    """Drop a partition with all its rows."""
    _set_lock_timeout(tx)
    tx.execute(sa.text(f'DROP TABLE "{part.name}"'))


def _create(database: Database, table: str, start: datetime) -> list[str]:
    name = f"{table}_{start:%Y%m%d}"
    first, end = lowest_id(start), lowest_id(start + WEEK)
    with database.write() as tx:
        _set_lock_timeout(tx)
        # One scheduler at a time: a second one finds that the partition exists.
        tx.execute(sa.text(f"LOCK TABLE {table} IN SHARE UPDATE EXCLUSIVE MODE"))
        if tx.scalar(sa.text("SELECT to_regclass(:name)"), {"name": name}) is not None:
            return []
        range_ = f"execution_id >= '{first}' AND execution_id < '{end}'"
        few = f"SELECT 1 FROM {table}_rest WHERE {range_} LIMIT {MAX_MOVED_ROWS + 1}"  # noqa: S608  (our own words)
        inside = sa.select(sa.func.count()).select_from(sa.text(f"({few}) AS few"))
        count = int(tx.scalar(inside) or 0)
        if count > MAX_MOVED_ROWS:
            return []
        bounds = f"FOR VALUES FROM ('{first}') TO ('{end}')"
        if not count:
            tx.execute(sa.text(f"CREATE TABLE {name} PARTITION OF {table} {bounds}"))
            return [name]
        tx.execute(sa.text(f"CREATE TABLE {name} (LIKE {table} INCLUDING ALL)"))
        tx.execute(
            sa.text(
                f"WITH moved AS (DELETE FROM {table}_rest WHERE {range_} RETURNING *)"  # noqa: S608
                f" INSERT INTO {name} SELECT * FROM moved"
            )
        )
        tx.execute(sa.text(f"ALTER TABLE {table} ATTACH PARTITION {name} {bounds}"))
    return [name]


def _set_lock_timeout(tx: Tx) -> None:
    tx.execute(sa.text(f"SET LOCAL lock_timeout = {LOCK_MILLISECONDS}"))


def _overlaps(part: Partition, first: str, end: str) -> bool:
    return (
        not part.is_default
        and (part.first is None or part.first < end)
        and (part.end is None or part.end > first)
    )


def _parsed(row: Mapping[str, Any]) -> Partition:
    """Parse the bounds of a partition: ``FOR VALUES FROM ('…') TO ('…')``, or ``DEFAULT``. MINVALUE means no lower
    bound.
    """
    if row["bound"] == "DEFAULT":
        return Partition(row["table"], row["name"], None, None, is_default=True)
    first, _, end = row["bound"].removeprefix("FOR VALUES FROM (").removesuffix(")").partition(") TO (")
    return Partition(row["table"], row["name"], _bound(first), _bound(end))


def _bound(text: str) -> str | None:
    return text.strip("'") if text.startswith("'") else None

"""What only one SQL dialect can do or needs, as named functions for the engine's other rooms."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.expression import HasCTE
from sqlalchemy.sql.functions import FunctionElement

from functory.engine.database.transaction import Tx

_UPTIME = sa.select(sa.extract("epoch", sa.func.clock_timestamp() - sa.func.pg_postmaster_start_time()))
_ANYTHING = sa.select(sa.literal(1))
# The rows are an estimate of the last ANALYZE, with those of the partitions.
_SIZE = sa.text(
    "SELECT sum(greatest(reltuples, 0))::bigint AS rows, sum(pg_total_relation_size(oid)) AS bytes"
    " FROM pg_class WHERE oid = to_regclass(:name)"
    " OR oid IN (SELECT inhrelid FROM pg_inherits WHERE inhparent = to_regclass(:name))"
)


class utc_day(FunctionElement[str]):
    """The day of a timestamp in UTC, as the text ``2026-01-31``, whatever the time zone of the server."""

    type = sa.String()
    inherit_cache = True
    name = "utc_day"


@compiles(utc_day, "postgresql")
def _utc_day_on_postgresql(element: utc_day, compiler: Any, **options: Any) -> str:
    return f"to_char({compiler.process(element.clauses, **options)} AT TIME ZONE 'UTC', 'YYYY-MM-DD')"


@compiles(utc_day, "sqlite")
def _utc_day_on_sqlite(element: utc_day, compiler: Any, **options: Any) -> str:
    # Stored as text, in UTC.
    return f"substr({compiler.process(element.clauses, **options)}, 1, 10)"


def materialized(query: HasCTE, name: str | None = None) -> sa.CTE:
    """Return ``query`` as a CTE that PostgreSQL computes once. SQLite decides by itself."""
    return query.cte(name).prefix_with("MATERIALIZED", dialect="postgresql")


def json_member(tx: Tx, column: sa.Column[Any], name: str) -> sa.ColumnElement[str]:
    """Return the text member ``name`` of a JSON object that a column stores as text."""
    stored = sa.type_coerce(column, sa.Text)
    found = sa.cast(stored, sa.JSON) if tx.dialect == "postgresql" else sa.type_coerce(stored, sa.JSON)
    return found[name].as_string()


def server_uptime(tx: Tx) -> float | None:
    """Return the seconds since the database server started; None for SQLite, which has none. Asks in either case, so
    that an answer shows that the database can be used.
    """
    if tx.dialect == "postgresql":
        return float(tx.scalar(_UPTIME))
    tx.scalar(_ANYTHING)
    return None


def table_size(tx: Tx, table: sa.Table) -> tuple[int, int | None]:
    """Return the rows of a table (PostgreSQL: an estimate) and its bytes with indexes (None on SQLite)."""
    if tx.dialect == "postgresql":
        row = tx.first(_SIZE, {"name": table.name}) or {"rows": 0, "bytes": 0}
        return int(row["rows"]), int(row["bytes"])
    return int(tx.scalar(sa.select(sa.func.count()).select_from(table)) or 0), None


def set_timeouts(tx: Tx, *, statement_milliseconds: int, lock_milliseconds: int) -> None:
    """Limit the statements of this transaction and their waits for locks. SQLite has one limit for all connections."""
    if tx.dialect == "postgresql":
        tx.execute(sa.text(f"SET LOCAL statement_timeout = {statement_milliseconds}"))
        tx.execute(sa.text(f"SET LOCAL lock_timeout = {lock_milliseconds}"))


def lock_table(tx: Tx, table: sa.Table) -> None:
    """Wait for every transaction that writes a table, and hold back new ones until the commit. A writing transaction of
    SQLite is alone in any case."""
    if tx.dialect == "postgresql":
        tx.execute(sa.text(f'LOCK TABLE "{table.name}" IN EXCLUSIVE MODE'))


def database_files(tx: Tx) -> list[str]:
    """Return the files of the database itself: SQLite's, with those that come and go; none on a server.

    They must not be watched: each event would cause another.
    """
    file = tx.connection.engine.url.database if tx.dialect == "sqlite" else None
    return [file + suffix for suffix in ("", "-wal", "-shm", "-journal")] if file else []

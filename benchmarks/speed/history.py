"""Rows of the past: copies of the rows that a real load has made, moved back in time.

So they are what this version of the engine writes, in the proportions in which it writes them, whatever tables and
columns it has. Copy number ``k`` moves each id and each time of the load back by ``k`` times the load's length. A
UUIDv7 begins with its time, so that ids which belong together still do, and rows are written in the order of their ids.
"""

from __future__ import annotations

import sqlite3
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

import sqlalchemy as sa

from functory.engine.database.schema.column_types import Instant, Key
from functory.engine.database.schema.metadata import metadata

# A statement makes this number of copies. SQLite has one writer, and the engine writes meanwhile.
COPIES_A_STATEMENT = {"postgresql": 200, "sqlite": 10}


@dataclass(frozen=True)
class Load:
    """A load whose rows are copied: the ids between which all of its rows lie, and when it began."""

    since: str
    until: str
    began: datetime

    @property
    def step_ms(self) -> int:
        """Its length."""
        return int(self.until.replace("-", "")[:12], 16) - int(self.since.replace("-", "")[:12], 16)


def extend(url: str, load: Load, first: int, copies: int) -> dict[str, int]:
    """Copy the load's rows ``copies`` times, beginning with number ``first``, then let the database clean up.

    Returns the number of new rows by table.
    """
    engine = sa.create_engine(url, isolation_level="AUTOCOMMIT")
    made: dict[str, int] = {}
    with engine.connect() as connection:
        copier = (_Postgres if engine.dialect.name == "postgresql" else _SQLite)(connection, load)
        copier.prepare()
        tables = [table for table in metadata.sorted_tables if copier.belongs(table)]
        for table in tables:
            copier.keep(table)
        # The oldest first: a table grows at its end, as it would have.
        at_once = COPIES_A_STATEMENT[engine.dialect.name]
        for last in range(first + copies - 1, first - 1, -at_once):
            lowest = max(first, last - at_once + 1)
            for table in tables:
                made[table.name] = made.get(table.name, 0) + copier.copy(table, lowest, last)
        copier.finish()
    engine.dispose()
    return {name: count for name, count in made.items() if count}


class _Copier:
    """Writes the statements; the two databases differ in how they move an id and a time."""

    def __init__(self, connection: sa.Connection, load: Load) -> None:
        self.connection, self.load = connection, load

    def prepare(self) -> None:
        """Before the first row."""

    def finish(self) -> None:
        """After the last row."""

    def belongs(self, table: sa.Table) -> bool:
        """True for a table whose key holds an id of the load."""
        return any(
            self.connection.execute(sa.select(key).where(self._of_load(key)).limit(1)).first()
            for key in _keys(table)
        )

    def keep(self, table: sa.Table) -> None:
        """Set the load's rows aside, so that copies are not copied."""
        chosen = sa.select(table).where(sa.or_(*map(self._of_load, _keys(table))))
        text = chosen.compile(self.connection, compile_kwargs={"literal_binds": True})
        self.connection.exec_driver_sql(f"CREATE TEMPORARY TABLE kept_{table.name} AS {text}")

    def copy(self, table: sa.Table, lowest: int, highest: int) -> int:
        """Insert the copies ``lowest`` to ``highest`` of a table's rows; return their number."""
        names = [column.name for column in table.columns if column.computed is None]
        values = ", ".join(self._value(table.columns[name]) for name in names)
        quoted = ", ".join(f'"{name}"' for name in names)
        done = self.connection.exec_driver_sql(
            f'INSERT INTO "{table.name}" ({quoted}) SELECT {values} '
            f"FROM {self.numbers(lowest, highest)} CROSS JOIN kept_{table.name} ORDER BY k DESC"
        )
        return done.rowcount

    def _of_load(self, key: sa.Column[Any]) -> Any:
        return sa.and_(key > self.load.since, key < self.load.until)

    def _value(self, column: sa.Column[Any]) -> str:
        name = f'kept_{column.table.name}."{column.name}"'
        if isinstance(column.type, Key):
            return self.moved_id(name)
        return self.moved_time(name) if isinstance(column.type, Instant) else name

    def numbers(self, lowest: int, highest: int) -> str:
        raise NotImplementedError

    def moved_id(self, name: str) -> str:
        raise NotImplementedError

    def moved_time(self, name: str) -> str:
        raise NotImplementedError


def _keys(table: sa.Table) -> list[sa.Column[Any]]:
    return [column for column in table.primary_key if isinstance(column.type, Key)]


class _Postgres(_Copier):
    def prepare(self) -> None:
        # The rows fit together: that they are all there need not be asked a million times.
        self.connection.exec_driver_sql("SET session_replication_role = replica")
        self.connection.exec_driver_sql("SET synchronous_commit = off")

    def finish(self) -> None:
        self.connection.exec_driver_sql("VACUUM (ANALYZE)")
        self.connection.exec_driver_sql("CHECKPOINT")

    def numbers(self, lowest: int, highest: int) -> str:
        return f"generate_series({lowest}::bigint, {highest}) AS numbers(k)"

    def moved_id(self, name: str) -> str:
        digits = f"replace({name}::text, '-', '')"
        at = f"('x' || left({digits}, 12))::bit(48)::bigint - k * {self.load.step_ms}"
        moved = f"(lpad(to_hex({at}), 12, '0') || substr({digits}, 13))::uuid"
        return f"CASE WHEN {name} > '{self.load.since}'::uuid THEN {moved} ELSE {name} END"

    def moved_time(self, name: str) -> str:
        moved = f"{name} - k * interval '{self.load.step_ms} milliseconds'"
        return f"CASE WHEN {name} >= '{self.load.began.isoformat()}' THEN {moved} ELSE {name} END"


class _SQLite(_Copier):
    def prepare(self) -> None:
        driver: Any = self.connection.connection.driver_connection
        assert isinstance(driver, sqlite3.Connection)
        since, began = self.load.since.replace("-", ""), self.load.began.replace(tzinfo=None)

        def moved_id(value: str | None, k: int) -> str | None:
            if value is None or value <= since:
                return value
            return f"{int(value[:12], 16) - k * self.load.step_ms:012x}{value[12:]}"

        def moved_time(value: str | None, k: int) -> str | None:
            if value is None or (time := datetime.fromisoformat(value)) < began:
                return value
            return (time - timedelta(milliseconds=k * self.load.step_ms)).strftime("%Y-%m-%d %H:%M:%S.%f")

        driver.create_function("moved_id", 2, moved_id, deterministic=True)
        driver.create_function("moved_time", 2, moved_time, deterministic=True)
        self.connection.exec_driver_sql("PRAGMA busy_timeout = 60000")

    def finish(self) -> None:
        self.connection.exec_driver_sql("ANALYZE")
        self.connection.exec_driver_sql("PRAGMA wal_checkpoint(TRUNCATE)")

    def numbers(self, lowest: int, highest: int) -> str:
        recursive = f"SELECT {lowest} AS k UNION ALL SELECT k + 1 FROM numbers WHERE k < {highest}"
        return f"(WITH RECURSIVE numbers AS ({recursive}) SELECT k FROM numbers)"

    def moved_id(self, name: str) -> str:
        return f"moved_id({name}, k)"

    def moved_time(self, name: str) -> str:
        return f"moved_time({name}, k)"

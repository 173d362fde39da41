"""One open transaction: what every service of the engine writes and reads through."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection, CursorResult

# From this number of rows on, COPY takes PostgreSQL and its client less time than INSERT.
COPY_ROWS = 4


class Tx:
    """One open transaction: ``execute`` statements, ``wake`` roles after the commit."""

    def __init__(
        self, connection: Connection, now: datetime, new_id: Callable[[], str], dialect: str
    ) -> None:
        self.connection = connection
        self.now = now
        self.new_id = new_id
        self.dialect = dialect
        # Transactions write side by side, so rows that must not change meanwhile have to be locked. SQLite has one
        # writer at a time.
        self.writes_concurrently = dialect == "postgresql"
        self.topics: set[str] = set()

    def execute(self, statement: sa.Executable, rows: Any = None) -> CursorResult[Any]:
        """Run one statement; ``rows`` is a mapping or a sequence of them (then in one batch)."""
        return self.connection.execute(statement, rows)

    def rows(self, statement: sa.Executable, values: Any = None) -> list[dict[str, Any]]:
        """Return all rows of a statement as dictionaries."""
        return [dict(row) for row in self.connection.execute(statement, values).mappings()]

    def first(self, statement: sa.Executable, values: Any = None) -> dict[str, Any] | None:
        """Return the first row of a statement, or None."""
        row = self.connection.execute(statement, values).mappings().first()
        return dict(row) if row is not None else None

    def pairs(self, statement: sa.Executable) -> dict[Any, Any]:
        """Return the first two columns of every row, as a dictionary."""
        return {row[0]: row[1] for row in self.connection.execute(statement)}

    def scalar(self, statement: sa.Executable, values: Any = None) -> Any:
        """Return the first column of the first row, or None."""
        return self.connection.execute(statement, values).scalar()

    def insert(self, table: sa.Table, rows: Sequence[dict[str, Any]]) -> None:
        """Insert ``rows`` (all with the same keys) in one batch; nothing for none."""
        if self.dialect == "postgresql" and len(rows) >= COPY_ROWS:
            from functory.engine.database.row_copy import copy_rows

            copy_rows(self.connection, table, rows)
        elif rows:
            self.connection.execute(_insert(table), list(rows))

    def insert_new(self, table: sa.Table, row: dict[str, Any]) -> bool:
        """Insert ``row`` unless a unique key has it already. True when it was inserted."""
        # The row is passed beside the statement and not built into it: an expression for each value costs more than the
        # insert.
        statement = _insert_missing(self.dialect, table)
        # Without this option SQLAlchemy does not keep the row count of an INSERT.
        result = self.connection.execute(statement, row, execution_options={"preserve_rowcount": True})
        return result.rowcount == 1

    def insert_missing(self, table: sa.Table, rows: Sequence[dict[str, Any]]) -> None:
        """Insert those of ``rows`` (all with the same keys) that no unique key has already, in one batch."""
        if rows:
            self.connection.execute(_insert_missing(self.dialect, table), list(rows))

    def insert_returning(self, table: sa.Table, rows: Sequence[dict[str, Any]], column: Any) -> set[Any]:
        """Insert those of ``rows`` (all with the same keys) that no unique key has already. Returns the ``column`` of
        the inserted rows.
        """
        if not rows:
            return set()
        # The rows are passed beside the statement: it is compiled once for any number of rows, which are sent in
        # pieces.
        return set(
            self.connection.execute(_insert_returning(self.dialect, table, column), list(rows)).scalars()
        )

    def upsert(
        self, table: sa.Table, rows: Sequence[dict[str, Any]], changes: Callable[[Any], Mapping[str, Any]]
    ) -> list[dict[str, Any]]:
        """Insert ``rows`` (all with the same keys), in place of rows with their primary keys. Returns the rows as they
        are now, locked until the commit.

        ``changes`` gets the columns of the new row and returns what changes in the one that is there.
        """
        if not rows:
            return []
        # The rows are passed beside the statement: it is compiled once for any number of rows.
        return self.rows(_upsert(self.dialect, table, changes), list(rows))

    def wake(self, *topics: str) -> None:
        """Signal ``topics`` after the commit."""
        self.topics.update(topics)


@functools.cache
def _insert(table: sa.Table) -> sa.Insert:
    return sa.insert(table)


@functools.cache
def _insert_missing(dialect: str, table: sa.Table) -> Any:
    return _insert_of(dialect)(table).on_conflict_do_nothing()


@functools.cache
def _insert_returning(dialect: str, table: sa.Table, column: Any) -> Any:
    return _insert_missing(dialect, table).returning(column)


@functools.cache
def _upsert(dialect: str, table: sa.Table, changes: Callable[[Any], Mapping[str, Any]]) -> Any:
    statement = _insert_of(dialect)(table)
    statement = statement.on_conflict_do_update(
        index_elements=list(table.primary_key.columns), set_=dict(changes(statement.excluded))
    )
    return statement.returning(table)


def _insert_of(dialect: str) -> Any:
    """Return the dialect's ``insert``, whose statements know ``on_conflict_do_update`` and ``excluded``."""
    if dialect == "postgresql":
        from sqlalchemy.dialects.postgresql import insert
    else:
        from sqlalchemy.dialects.sqlite import insert
    return insert

"""New rows of one table on PostgreSQL, past SQLAlchemy: many in one COPY, few in an INSERT that needs no round trip.

COPY costs PostgreSQL and the client half of what an INSERT of many rows costs:
https://www.postgresql.org/docs/15/sql-copy.html. A conflict with a unique key is an error: COPY cannot pass a row over.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection, Dialect

from functory.engine.database import copy_lines
from functory.engine.database.driver_rows import sqlalchemy_errors

Convert = Callable[[Any], Any]

# Rows whose text is in memory at a time.
PIECE = 500


def copy_rows(connection: Connection, table: sa.Table, rows: Sequence[Mapping[str, Any]]) -> None:
    """Insert ``rows`` (all with the same keys) in the connection's transaction. Raises SQLAlchemy's errors."""
    plan = _plan(connection.dialect, table, tuple(rows[0]))
    statement = plan.copy
    raw: Any = connection.connection
    cursor = raw.cursor()
    try:
        with sqlalchemy_errors(connection, cursor, statement), cursor.copy(statement) as copy:
            for start in range(0, len(rows), PIECE):
                copy.write(plan.lines(rows[start : start + PIECE]))
    finally:
        cursor.close()


def insert_later(connection: Connection, table: sa.Table, rows: Sequence[Mapping[str, Any]]) -> None:
    """Insert ``rows`` (all with the same keys) with the next statement of the connection's transaction, or with its
    commit, which raises the errors.
    """
    plan = _plan(connection.dialect, table, tuple(rows[0]))
    driver: Any = connection.connection.driver_connection
    driver.later(plan.insert(len(rows)), [value for row in rows for value in plan.values(row)])


class _Plan:
    """The statements for one table and set of columns, and how the value of each column is converted.

    Columns with a default of the table's definition that are not among ``names`` come last.
    """

    def __init__(self, dialect: Dialect, table: sa.Table, names: tuple[str, ...]) -> None:
        quote = dialect.identifier_preparer.quote
        defaults = {
            column.name: column.default.arg  # type: ignore[union-attr]
            for column in table.columns
            if column.name not in names and column.default is not None and column.default.is_scalar
        }
        self._defaults = [*defaults.values()]
        converters = [table.c[name].type.dialect_impl(dialect).bind_processor(dialect) for name in names]
        self._columns: list[tuple[str, Convert | None]] = [*zip(names, converters, strict=True)]
        self._writers = [(name, copy_lines.writer(table.c[name], dialect)) for name in names]
        self._default_texts = [copy_lines.write_value(value) for value in defaults.values()]
        self._into = f"{quote(table.name)} ({', '.join(quote(name) for name in (*names, *defaults))})"
        self._row = f"({', '.join(['%s'] * (len(names) + len(defaults)))})"
        self.copy = f"COPY {self._into} FROM STDIN"

    def insert(self, rows: int) -> str:
        """Return the INSERT of this number of rows."""
        return f"INSERT INTO {self._into} VALUES {', '.join([self._row] * rows)}"  # noqa: S608

    def lines(self, rows: Sequence[Mapping[str, Any]]) -> bytes:
        """Return rows as COPY takes them."""
        return copy_lines.lines(rows, self._writers, self._default_texts).encode()

    def values(self, row: Mapping[str, Any]) -> list[Any]:
        """Return the values of a row as the driver takes them."""
        values = [row[name] if convert is None else convert(row[name]) for name, convert in self._columns]
        return [*values, *self._defaults]


@functools.cache
def _plan(dialect: Dialect, table: sa.Table, names: tuple[str, ...]) -> _Plan:
    return _Plan(dialect, table, names)

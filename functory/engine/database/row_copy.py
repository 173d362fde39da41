"""Many new rows of one table in one COPY, which costs PostgreSQL and the client half of what an INSERT costs.

https://www.postgresql.org/docs/15/sql-copy.html. A conflict with a unique key is an error: COPY cannot pass a row over.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import psycopg
import sqlalchemy as sa
from sqlalchemy.engine import Connection, Dialect
from sqlalchemy.exc import DBAPIError

from functory.engine.database.driver_errors import ends_connection

Convert = Callable[[Any], Any]


def copy_rows(connection: Connection, table: sa.Table, rows: Sequence[Mapping[str, Any]]) -> None:
    """Insert ``rows`` (all with the same keys) in the connection's transaction. Raises SQLAlchemy's errors."""
    names = tuple(rows[0])
    statement, converters, defaults = _plan(connection.dialect, table, names)
    columns = [*zip(names, converters, strict=True)]
    raw: Any = connection.connection
    cursor = raw.cursor()
    try:
        with cursor.copy(statement) as copy:
            for row in rows:
                values = [row[name] if convert is None else convert(row[name]) for name, convert in columns]
                copy.write_row([*values, *defaults])
    except psycopg.Error as error:
        dialect: Any = connection.dialect
        lost = ends_connection(error) or dialect.is_disconnect(error, raw, cursor)
        if lost:
            connection.invalidate(error)
        # The server's further lines quote the row.
        error.args = (str(error).split("\n")[0],)
        raise DBAPIError.instance(
            statement,
            None,
            error,
            psycopg.Error,
            hide_parameters=True,
            connection_invalidated=lost,
            dialect=dialect,
        ) from error
    finally:
        cursor.close()


@functools.cache
def _plan(
    dialect: Dialect, table: sa.Table, names: tuple[str, ...]
) -> tuple[str, Sequence[Convert | None], Sequence[Any]]:
    """Return the statement, how the value of each column is converted, and the values of columns with a default of the
    table's definition (they come last).
    """
    quote = dialect.identifier_preparer.quote
    defaults = {
        column.name: column.default.arg  # type: ignore[union-attr]
        for column in table.columns
        if column.name not in names and column.default is not None and column.default.is_scalar
    }
    columns = ", ".join(quote(name) for name in (*names, *defaults))
    converters = [table.c[name].type.dialect_impl(dialect).bind_processor(dialect) for name in names]
    return f"COPY {quote(table.name)} ({columns}) FROM STDIN", converters, [*defaults.values()]

"""Statements that go to PostgreSQL's driver past SQLAlchemy: for results of many rows with many columns.

SQLAlchemy's result objects convert and wrap each row by itself, which takes three times as long as the statement's own
values.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import psycopg
import sqlalchemy as sa
from sqlalchemy.engine import Connection, Dialect
from sqlalchemy.exc import DBAPIError

from functory.engine.database.driver_errors import ends_connection


def fetch_all(
    connection: Connection, text: str, parameters: Mapping[str, Any], columns: Sequence[sa.ColumnElement[Any]]
) -> list[tuple[Any, ...]]:
    """Run one statement, as the driver takes it, and return its rows with the values that ``columns`` have in Python.

    Raises SQLAlchemy's errors.
    """
    raw: Any = connection.connection
    cursor = raw.cursor()
    try:
        with sqlalchemy_errors(connection, cursor, text):
            run(cursor, text, parameters)
            return read_all(cursor, connection.dialect, tuple(columns))
    finally:
        cursor.close()


def read_all(
    cursor: Any, dialect: Dialect, columns: tuple[sa.ColumnElement[Any], ...]
) -> list[tuple[Any, ...]]:
    """Return the rows of a statement that has run, with the values that ``columns`` have in Python."""
    rows = cursor.fetchall()
    result = cursor.pgresult
    converters = _converters(dialect, columns, tuple(map(result.ftype, range(result.nfields))))
    if not rows or not converters:
        return rows
    values: list[Any] = [*zip(*rows, strict=True)]
    for position, convert in converters:
        values[position] = [*map(convert, values[position])]
    return [*zip(*values, strict=True)]


def run(cursor: Any, text: str, parameters: Mapping[str, Any]) -> None:
    """Run a statement on the driver's cursor. Raises the driver's errors."""
    cursor.execute(text, parameters)


@contextlib.contextmanager
def sqlalchemy_errors(connection: Connection, cursor: Any, statement: str) -> Iterator[None]:
    """Turn the driver's errors into SQLAlchemy's, and drop a connection that is lost."""
    try:
        yield
    except psycopg.Error as error:
        dialect: Any = connection.dialect
        lost = ends_connection(error) or dialect.is_disconnect(error, connection.connection, cursor)
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


@functools.cache
def _converters(
    dialect: Dialect, columns: tuple[sa.ColumnElement[Any], ...], kinds: tuple[int, ...]
) -> list[tuple[int, Callable[[Any], Any]]]:
    """Return what converts the values of those columns for which the driver's own are not the right ones. ``kinds`` are
    PostgreSQL's numbers of their types.
    """
    found: list[tuple[int, Callable[[Any], Any]]] = []
    for position, (column, kind) in enumerate(zip(columns, kinds, strict=True)):
        convert = column.type.dialect_impl(dialect).result_processor(dialect, kind)
        if convert is not None:
            found.append((position, convert))
    return found

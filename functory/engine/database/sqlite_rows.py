"""New rows of one table on SQLite, past SQLAlchemy's conversion of each value.

The values are converted column by column: rows of one batch have most values in common, and a common value is converted
once. It takes half the time of SQLAlchemy's own way.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import repeat
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection, Dialect

Convert = Callable[[Any], Any]


def insert_rows(connection: Connection, table: sa.Table, rows: Sequence[Mapping[str, Any]]) -> None:
    """Insert ``rows`` (all with the same keys) in the connection's transaction. Raises SQLAlchemy's errors."""
    plan = _plan(connection.dialect, table, tuple(rows[0]))
    connection.exec_driver_sql(plan.insert, plan.values(rows))


class _Plan:
    """The statement for one table and set of columns, and how the value of each column is converted.

    Columns with a default of the table's definition that are not among ``names`` come last.
    """

    def __init__(self, dialect: Dialect, table: sa.Table, names: tuple[str, ...]) -> None:
        quote = dialect.identifier_preparer.quote
        defaults = {
            column.name: column.default.arg  # type: ignore[union-attr]
            for column in table.columns
            if column.name not in names and column.default is not None and column.default.is_scalar
        }
        self._columns: list[tuple[str, Convert | None]] = [
            (name, _converter(dialect, table, name)) for name in names
        ]
        converters = [_converter(dialect, table, name) for name in defaults]
        self._defaults = [
            value if convert is None else convert(value)
            for convert, value in zip(converters, defaults.values(), strict=True)
        ]
        all_names = (*names, *defaults)
        columns, places = ", ".join(map(quote, all_names)), ", ".join("?" * len(all_names))
        self.insert = f"INSERT INTO {quote(table.name)} ({columns}) VALUES ({places})"  # noqa: S608

    def values(self, rows: Sequence[Mapping[str, Any]]) -> list[tuple[Any, ...]]:
        """Return the values of rows as the driver takes them."""
        cells: list[Iterable[Any]] = []
        for name, convert in self._columns:
            values = [row[name] for row in rows]
            if convert is None:
                cells.append(values)
            elif len(set(map(id, values))) == 1:
                # The same object, and not an equal one: 1 and True are equal, and their JSON texts differ.
                cells.append(repeat(convert(values[0]), len(values)))
            else:
                cells.append(map(convert, values))
        cells += [repeat(value, len(rows)) for value in self._defaults]
        return list(zip(*cells, strict=True))


def _converter(dialect: Dialect, table: sa.Table, name: str) -> Convert | None:
    return table.c[name].type.dialect_impl(dialect).bind_processor(dialect)


@functools.cache
def _plan(dialect: Dialect, table: sa.Table, names: tuple[str, ...]) -> _Plan:
    return _Plan(dialect, table, names)

"""Many rows in one statement of PostgreSQL: they are one parameter, a JSON text that the server reads as a table.

Without it the driver sends one statement for each row, or one text with a parameter for each value, which both sides
would have to read again for every number of rows. SQLite works in this process, where a statement costs little.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Callable, Mapping, Sequence
from datetime import date
from typing import Any

import orjson
import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.engine import Dialect

# Returns what changes in a row that is there; it gets the columns of the new row.
Changes = Callable[[Any], Mapping[str, Any]]


def parameters(dialect: Dialect, table: sa.Table, rows: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    """Return the parameters of a statement of this module: ``rows`` (all with the same keys) as one JSON text."""
    converters = _converters(dialect, table, tuple(rows[0]))
    converted = [
        {name: row[name] if convert is None else convert(row[name]) for name, convert in converters}
        for row in rows
    ]
    try:
        return {"rows": orjson.dumps(converted, default=_text_of).decode()}
    except (TypeError, ValueError):
        return {"rows": json.dumps(converted, default=_text_of)}


@functools.cache
def insert_text(dialect: Dialect, table: sa.Table, names: tuple[str, ...]) -> tuple[str, dict[str, Any]]:
    """Return the statement that inserts rows with these columns, as the driver takes it, and its parameters beside the
    rows: the defaults of other columns.
    """
    given = _given(table, names)
    rows = sa.select(*(given.c[name] for name in names))
    compiled = sa.insert(table).from_select(list(names), rows).compile(dialect=dialect)
    return str(compiled), dict(compiled.params)


@functools.cache
def insert_missing(table: sa.Table, names: tuple[str, ...]) -> Any:
    """Return the statement that inserts rows with these columns unless a unique key has them already."""
    return _insert(table, names).on_conflict_do_nothing()


@functools.cache
def upsert(table: sa.Table, names: tuple[str, ...], changes: Changes) -> Any:
    """Return the statement that inserts rows, in place of rows with their primary keys. It returns the rows as they are
    now, and locks them in the order of their keys.
    """
    statement = _insert(table, names)
    statement = statement.on_conflict_do_update(
        index_elements=list(table.primary_key.columns), set_=dict(changes(statement.excluded))
    )
    return statement.returning(table)


@functools.cache
def update(table: sa.Table, names: tuple[str, ...]) -> Any:
    """Return the statement that changes the rows with the primary keys of the given ones."""
    keys = {column.name for column in table.primary_key.columns}
    given = _given(table, names)
    return (
        sa.update(table)
        .where(*(table.c[name] == given.c[name] for name in names if name in keys))
        .values({name: given.c[name] for name in names if name not in keys})
    )


def _insert(table: sa.Table, names: tuple[str, ...]) -> Any:
    given = _given(table, names)
    order = [given.c[column.name] for column in table.primary_key.columns if column.name in names]
    rows = sa.select(*(given.c[name] for name in names)).order_by(*order)
    return insert(table).from_select(list(names), rows)


def _given(table: sa.Table, names: tuple[str, ...]) -> Any:
    """Return the rows of the parameter as a table."""
    text = sa.cast(sa.bindparam("rows", type_=sa.Text), sa.JSON)
    columns = [sa.column(name, table.c[name].type) for name in names]
    return (
        sa.func.json_to_recordset(text).table_valued(*columns, name="given").render_derived(with_types=True)
    )


@functools.cache
def _converters(
    dialect: Dialect, table: sa.Table, names: tuple[str, ...]
) -> list[tuple[str, Callable[[Any], Any] | None]]:
    return [(name, table.c[name].type.dialect_impl(dialect).bind_processor(dialect)) for name in names]


def _text_of(value: Any) -> str:
    if isinstance(value, date):  # also a datetime, which is one
        return value.isoformat()
    raise TypeError(f"a {type(value).__name__} has no place among rows")

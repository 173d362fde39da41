"""Id lists: conditions on any number of ids, or of keys of several columns, that an index can answer.

With a parameter for each id, the driver, SQLAlchemy and PostgreSQL read another statement for each number of ids, which
costs more than the update of the rows. For two or more keys of several columns SQLite would read the whole table: it
uses an index for rows of a SELECT, and for rows of VALUES only if there is one.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, cast

import sqlalchemy as sa
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.functions import FunctionElement
from sqlalchemy.types import TypeDecorator


class _IdList(TypeDecorator[Sequence[str]]):
    """Ids as one text: an array of PostgreSQL, a JSON array of stored ids on SQLite."""

    # Not Text: PostgreSQL would get a text that it converts while it runs, and could not plan for the ids.
    impl = sa.types.NullType
    cache_ok = True

    def process_bind_param(self, value: Sequence[str] | None, dialect: Any) -> str | None:
        if value is None:
            return None
        if dialect.name == "postgresql":
            return "{" + ",".join(value) + "}"
        return json.dumps([id_.replace("-", "") for id_ in value])


class _OneOf(FunctionElement[Any]):
    """An id is one of a list."""

    # Not Boolean: SQLAlchemy would write "= 1" behind it on SQLite, which then uses no index.
    type = sa.types.NullType()
    inherit_cache = True


def one_of(column: Any, name: str = "ids") -> Any:
    """Return the condition that ``column`` is one of the ids in the parameter ``name``, a sequence of texts."""
    return _OneOf(column, sa.bindparam(name, type_=_IdList))


def among(column: Any, ids: Any) -> Any:
    """Return the condition that ``column`` is one of the ids that the subquery ``ids`` finds, on PostgreSQL only.

    The subquery runs once, before the rows are looked for by their index. In a join PostgreSQL compares each row with
    each, where it believes that a table is empty: it does so about a queue that was empty when it was last counted.
    """
    return column == sa.func.any(sa.func.array(ids.scalar_subquery()))


@compiles(_OneOf, "postgresql")
def _on_postgresql(element: _OneOf, compiler: Any, **options: Any) -> str:
    id_, ids = (compiler.process(clause, **options) for clause in element.clauses)
    return f"{id_} = ANY(CAST({ids} AS uuid[]))"


@compiles(_OneOf, "sqlite")
def _on_sqlite(element: _OneOf, compiler: Any, **options: Any) -> str:
    id_, ids = (compiler.process(clause, **options) for clause in element.clauses)
    return f"{id_} IN (SELECT value FROM json_each({ids}))"  # noqa: S608  (SQL of SQLAlchemy)


def _is_text(type_: sa.types.TypeEngine[Any]) -> bool:
    return isinstance(type_.impl_instance if isinstance(type_, TypeDecorator) else type_, sa.String)


# SQLite reads a text of JSON only up to its first NUL. So a NUL travels as two characters; the first of them is escaped
# where a text has it itself.
def _escaped(part: Any) -> Any:
    return part.replace("\x01", "\x01b").replace("\x00", "\x01a") if isinstance(part, str) else part


_WITHOUT_ESCAPES = "replace(replace({}, char(1, 97), char(0)), char(1, 98), char(1))"


class _KeyList(TypeDecorator[Sequence[tuple[Any, ...]]]):
    """Keys of several columns as one text: a JSON array of stored keys, NULs escaped. Only for SQLite."""

    impl = sa.types.NullType
    cache_ok = True

    def __init__(self, types: tuple[sa.types.TypeEngine[Any], ...]) -> None:
        super().__init__()
        self._types = types

    def process_bind_param(self, value: Sequence[tuple[Any, ...]] | None, dialect: Any) -> str | None:
        if value is None:
            return None
        stored = [one.dialect_impl(dialect).bind_processor(dialect) for one in self._types]
        return json.dumps(
            [
                [
                    _escaped(part if convert is None else convert(part))
                    for part, convert in zip(key, stored, strict=True)
                ]
                for key in value
            ]
        )


class _OneOfKeys(FunctionElement[Any]):
    """The values of several columns are one of the keys of a list."""

    type = sa.types.NullType()
    inherit_cache = True


def one_of_keys(columns: Sequence[Any], keys: str | Sequence[tuple[Any, ...]] = "keys") -> Any:
    """Return the condition that the values of ``columns``, two or more, are one of ``keys``: a sequence of tuples, or
    the name of the parameter that has it.
    """
    asked = (
        sa.bindparam(keys, expanding=True)
        if isinstance(keys, str)
        else sa.bindparam(None, [*keys], expanding=True, unique=True)
    )
    return _OneOfKeys(asked, *columns)


@compiles(_OneOfKeys, "postgresql")
def _keys_on_postgresql(element: _OneOfKeys, compiler: Any, **options: Any) -> str:
    asked, *columns = element.clauses
    return compiler.process(sa.tuple_(*columns).in_(cast("sa.BindParameter[Any]", asked)), **options)


@compiles(_OneOfKeys, "sqlite")
def _keys_on_sqlite(element: _OneOfKeys, compiler: Any, **options: Any) -> str:
    asked, *columns = element.clauses
    given = cast("sa.BindParameter[Any]", asked)
    # Of the same name, so that it gets the same value.
    type_ = _KeyList(tuple(column.type for column in columns))
    one = (
        sa.bindparam(given.key, type_=type_)
        if given.required
        else sa.bindparam(given.key, given.value, type_)
    )
    keys = compiler.process(one, **options)
    left = ", ".join(compiler.process(column, **options) for column in columns)
    parts = [f"json_extract(value, '$[{number}]')" for number in range(len(columns))]
    right = ", ".join(
        _WITHOUT_ESCAPES.format(part) if _is_text(column.type) else part
        for part, column in zip(parts, columns, strict=True)
    )
    return f"({left}) IN (SELECT {right} FROM json_each({keys}))"  # noqa: S608  (SQL of SQLAlchemy)

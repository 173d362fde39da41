"""Id lists: conditions on any number of ids, with one parameter for all of them.

With a parameter for each id, the driver, SQLAlchemy and PostgreSQL read another statement for each number of ids, which
costs more than the update of the rows.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

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

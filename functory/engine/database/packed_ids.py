"""Packed ids: a column of bytes that holds many ids, 16 bytes each, and the SQL that reads them one by one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from uuid import UUID

import sqlalchemy as sa
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.functions import FunctionElement

from functory.engine.database.schema.column_types import Id

ID_BYTES = 16


def pack(ids: Sequence[str]) -> bytes:
    """Return the ids as bytes, in their order."""
    return bytes.fromhex("".join(ids).replace("-", ""))


def unpack(packed: bytes) -> list[str]:
    """Return the ids of :func:`pack`."""
    return [str(UUID(bytes=packed[at : at + ID_BYTES])) for at in range(0, len(packed), ID_BYTES)]


class packed_id(FunctionElement[str]):
    """The id at a place, counted from 0, of a packed column."""

    type = Id
    inherit_cache = True


@compiles(packed_id, "postgresql")
def _on_postgresql(element: packed_id, compiler: Any, **options: Any) -> str:
    packed, place = (compiler.process(clause, **options) for clause in element.clauses)
    return f"CAST(encode(substring({packed} FROM {place} * {ID_BYTES} + 1 FOR {ID_BYTES}), 'hex') AS uuid)"


@compiles(packed_id, "sqlite")
def _on_sqlite(element: packed_id, compiler: Any, **options: Any) -> str:
    packed, place = (compiler.process(clause, **options) for clause in element.clauses)
    return f"lower(hex(substr({packed}, {place} * {ID_BYTES} + 1, {ID_BYTES})))"


def places(most: int) -> sa.CTE:
    """Return a table with a column ``place``: the numbers from 0 to ``most`` - 1."""
    first = sa.select(sa.literal(0).label("place")).cte("places", recursive=True)
    return first.union_all(sa.select(first.c.place + 1).where(first.c.place < most - 1))

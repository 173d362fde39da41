"""Typed rows: one class with named fields for the rows of one concept.

    class CausingExecution(TypedRow):
        id: str
        fence: int

    _FOUND = sa.select(*columns(CausingExecution, execution)).where(...)
    rows = tx.all(CausingExecution, _FOUND, {...})

The fields have the names of the columns. A statement selects them in the order of the fields, so a row is made of its
values without a lookup of names.
"""

from __future__ import annotations

from typing import Any

import msgspec
import sqlalchemy as sa


class TypedRow(msgspec.Struct, frozen=True):
    """The base of all typed rows."""


def columns(type_: type[TypedRow], source: Any) -> list[sa.ColumnElement[Any]]:
    """Return the columns of a table, or of another selectable, that are the fields of ``type_``, in their order.

    Raises KeyError for a field that is no column.
    """
    return [source.c[name] for name in type_.__struct_fields__]

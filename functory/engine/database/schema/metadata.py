"""The metadata of all tables, and the naming convention of keys and indexes."""

from __future__ import annotations

from typing import Any

from sqlalchemy import Index, MetaData, Table, text

metadata = MetaData(
    naming_convention={
        "ix": "ix_%(table_name)s_%(column_0_N_name)s",
        "uq": "uq_%(table_name)s_%(column_0_N_name)s",
        "fk": "fk_%(table_name)s_%(column_0_N_name)s_%(referred_table_name)s",
        "pk": "pk_%(table_name)s",
    }
)


def partial(name: str, table: Table, columns: list[Any], where: str, *, unique: bool = False) -> Index:
    """Return a partial index over the rows that match ``where``."""
    return Index(name, *columns, unique=unique, postgresql_where=text(where), sqlite_where=text(where))

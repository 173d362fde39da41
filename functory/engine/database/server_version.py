"""The version of what stores the rows, for people."""

from __future__ import annotations

import sqlite3

import sqlalchemy as sa

from functory.engine.database.connection import Database


def describe(database: Database) -> str:
    """Return ``SQLite 3.45.1`` or ``PostgreSQL 16.2``. PostgreSQL is asked."""
    if database.file is not None:
        return f"SQLite {sqlite3.sqlite_version}"
    with database.read() as tx:
        return f"PostgreSQL {str(tx.scalar(sa.text('SHOW server_version'))).split(' ', maxsplit=1)[0]}"

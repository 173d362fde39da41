"""Bring a database to the schema of this code, with Alembic."""

from __future__ import annotations

import contextlib
from importlib.resources import as_file, files

import sqlalchemy as sa

from engine.database import Database
from engine.errors import Conflict

# The newest revision; looked at before Alembic is imported, which costs more than the check.
HEAD = "0003"

# PostgreSQL: one migration at a time, whoever else starts (an arbitrary, fixed number).
_LOCK = 7_402_026


def current(database: Database) -> str | None:
    """The revision of the database; None for an empty one."""
    with database.connection() as connection:
        if not sa.inspect(connection).has_table("alembic_version"):
            return None
        return connection.execute(sa.text("SELECT version_num FROM alembic_version")).scalar()


def upgrade(database: Database, revision: str = "head") -> str:
    """Migrate up to ``revision``. Returns the revision that is reached. Safe to run from many processes."""
    if revision == "head" and current(database) == HEAD:
        return HEAD
    _run(database, "upgrade", revision)
    return current(database) or ""


def downgrade(database: Database, revision: str) -> str:
    """Migrate down to ``revision`` (``base`` for nothing)."""
    _run(database, "downgrade", revision)
    return current(database) or ""


def check(database: Database) -> None:
    """Refuse a database that is not at this code's schema. Raises :class:`Conflict`."""
    found = current(database)
    if found != HEAD:
        raise Conflict(
            f"the database {database.name} has schema {found or 'none'}",
            f"this version needs {HEAD}",
            "functory db upgrade",
        )


def _run(database: Database, verb: str, revision: str) -> None:
    from alembic import command
    from alembic.config import Config

    with (
        as_file(files("migrations")) as folder,
        database.connection(write=True) as connection,
        contextlib.ExitStack() as stack,
    ):
        config = Config()
        config.set_main_option("script_location", str(folder))
        config.attributes["connection"] = connection
        if database.dialect == "postgresql":
            connection.execute(sa.select(sa.func.pg_advisory_lock(_LOCK)))
            stack.callback(
                lambda: (
                    connection.execute(sa.select(sa.func.pg_advisory_unlock(_LOCK))) and connection.commit()
                )
            )
            connection.commit()
        # On SQLite the writing transaction itself is the lock: whoever comes second finds it done.
        try:
            getattr(command, verb)(config, revision)
            connection.commit()
        except BaseException:
            connection.rollback()
            raise

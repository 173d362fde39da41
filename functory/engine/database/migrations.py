"""Bring a database to the schema of this code, with Alembic; and say which code may work on which schema.

A schema is first extended, and made smaller only in a later release (expand, then contract): code of the release before
goes on working on it, so that a deployment is upgraded while it runs. Written down with the schema is the oldest code
that can. Code that is older than its schema asks for that; code that is newer needs the upgrade.
"""

from __future__ import annotations

import contextlib
import threading
import time
from importlib.resources import as_file, files

import sqlalchemy as sa
import structlog
from sqlalchemy.engine import Connection

from functory.engine.database.connection import Database
from functory.engine.database.driver_errors import is_deadlock
from functory.engine.database.schema import counter
from functory.engine.errors import Conflict, Unavailable

log = structlog.get_logger("functory.migrate")

# The newest revision; looked at before Alembic is imported, which costs more than the check.
HEAD = "0007"

# The oldest schema whose code works on this one as well: it is raised by a revision that takes something away, or
# that wants something which older code does not write.
OLDEST_COMPATIBLE = "0007"
# Where that is written down for code that does not know this schema; the name ends with the schema it speaks of.
_OLDEST_COMPATIBLE_KEY = "oldest code for schema "

# A revision that PostgreSQL ended because it and a role waited for each other is tried again so often, after a pause.
DEADLOCK_TRIES = 20
DEADLOCK_PAUSE = 0.5

# PostgreSQL: one migration at a time, whoever else starts (an arbitrary, fixed number).
_LOCK = 7_402_026
# Alembic keeps what it works on in globals of its modules: one migration at a time in this process, too.
_one_at_a_time = threading.Lock()


def current(database: Database) -> str | None:
    """The revision of the database; None for an empty one."""
    with database.connection() as connection:
        if not sa.inspect(connection).has_table("alembic_version"):
            return None
        return connection.execute(sa.text("SELECT version_num FROM alembic_version")).scalar()


def upgrade(database: Database, revision: str = "head") -> str:
    """Migrate up to ``revision``. Returns the revision that is reached. Safe to run from many processes."""
    if revision == "head":
        found = current(database)
        if found == HEAD and _oldest_compatible(database, HEAD) is not None:
            return HEAD
        if found is not None and found > HEAD:
            check(database)
            return found
    for tried in range(1, DEADLOCK_TRIES + 1):
        try:
            _run(database, "upgrade", revision)
            break
        except Unavailable as error:
            # A revision takes tables that roles at work take in another order. What was reached before it stays.
            if not is_deadlock(error) or tried == DEADLOCK_TRIES:
                raise
            log.info("a revision is tried again: roles at work were in its way", tried=tried)
            time.sleep(DEADLOCK_PAUSE)
    return current(database) or ""


def downgrade(database: Database, revision: str) -> str:
    """Migrate down to ``revision`` (``base`` for nothing)."""
    _run(database, "downgrade", revision)
    return current(database) or ""


def check(database: Database) -> None:
    """Refuse a database on which this code cannot work. Raises :class:`Conflict`."""
    found = current(database)
    if found == HEAD:
        return
    if found is None or found < HEAD:
        raise Conflict(
            f"the database {database.name} has schema {found or 'none'}",
            f"this version needs {HEAD}",
            "functory db upgrade",
        )
    since = _oldest_compatible(database, found)
    if since is None or since > int(HEAD):
        raise Conflict(
            f"the database {database.name} has schema {found}",
            f"this version knows schemas up to {HEAD}"
            + (f", and that one needs a version that knows {since:04}" if since else ""),
            "install the version of Functory that made it, or a newer one",
        )
    log.info("the schema is newer than this version, and works with it", schema=found, known=HEAD)


def is_compatible(database: Database) -> bool:
    """Whether this code can work on the database's schema."""
    try:
        check(database)
    except Conflict:
        return False
    return True


def _oldest_compatible(database: Database, revision: str) -> int | None:
    """The oldest code that works on schema ``revision``, by the schema that it was made for; None when nobody said."""
    with database.connection() as connection:
        return connection.execute(
            sa.select(counter.c.value).where(counter.c.name == f"{_OLDEST_COMPATIBLE_KEY}{revision}")
        ).scalar()


def _record_compatibility(connection: Connection) -> None:
    """Write down which code works on the schema that was reached. One of a downgrade is for its own code only."""
    found = connection.execute(sa.text("SELECT version_num FROM alembic_version")).scalar()
    if found is None:
        return
    connection.execute(sa.delete(counter).where(counter.c.name.startswith(_OLDEST_COMPATIBLE_KEY)))
    if found == HEAD:
        connection.execute(
            sa.insert(counter), {"name": f"{_OLDEST_COMPATIBLE_KEY}{HEAD}", "value": int(OLDEST_COMPATIBLE)}
        )


def _run(database: Database, verb: str, revision: str) -> None:
    from alembic import command
    from alembic.config import Config

    with (
        _one_at_a_time,
        as_file(files("functory.migrations")) as folder,
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
        else:
            # One writing transaction around all revisions is the lock: whoever comes second finds it done. Begun here,
            # for Alembic would end its own after each revision, and another process would do the next one first.
            connection.begin()
        try:
            getattr(command, verb)(config, revision)
            _record_compatibility(connection)
            connection.commit()
        except BaseException:
            connection.rollback()
            raise

"""Migrations of the database to the schema of this code, with Alembic, and the rule which code works on which schema.

A schema is extended in one release and reduced in a later one (expand, then contract). Code of the release before keeps
working on it, so that a deployment is upgraded while it runs. The database stores the oldest code that works on its
schema. Code that is older than the schema checks that mark; code that is newer needs the upgrade.
"""

from __future__ import annotations

import contextlib
import threading
import time
from importlib.resources import as_file, files

import sqlalchemy as sa
import structlog
from sqlalchemy.engine import Connection

from functory.engine.database import postgres_server
from functory.engine.database.connection import Database
from functory.engine.database.driver_errors import is_deadlock
from functory.engine.database.schema import counter
from functory.engine.errors import Conflict, NotFound, Unavailable

log = structlog.get_logger("functory.migrate")

# The newest revision; compared before Alembic is imported, because the import costs more than the check.
HEAD = "0100"

# The first revision. Development snapshots before the first release had others, which are not kept.
FIRST = "0100"

# The oldest schema whose code works on this one as well. A revision raises it when it removes or renames something, or
# when it needs something that older code does not write.
OLDEST_COMPATIBLE = "0100"
# Counter that stores it for code that does not know this schema; the name ends with the schema.
_OLDEST_COMPATIBLE_KEY = "oldest code for schema "

# What to do with a database of such a snapshot.
NEW_DATABASE = (
    "make a new database, and save functions and triggers again; the snapshot's own code shows those of this one "
    "(functory function show NAME --source, functory trigger show NAME)"
)

# Tries of a revision that PostgreSQL ends because of a deadlock with a role, and the pause (seconds) between them.
DEADLOCK_TRIES = 20
DEADLOCK_PAUSE = 0.5

# PostgreSQL: key of the advisory lock for one migration at a time (an arbitrary, fixed number).
_LOCK = 7_402_026
# Alembic keeps its state in globals of its modules: one migration at a time in this process, too.
_one_at_a_time = threading.Lock()


def current(database: Database) -> str | None:
    """The revision of the database; None for an empty one. It never creates the file of a SQLite database."""
    if is_missing(database):
        return None
    with database.connection() as connection:
        if not sa.inspect(connection).has_table("alembic_version"):
            return None
        return connection.execute(sa.text("SELECT version_num FROM alembic_version")).scalar()


def is_missing(database: Database) -> bool:
    """True for a SQLite database whose file is not there. To connect would create it."""
    return database.file is not None and not database.file.exists()


def check_exists(database: Database) -> None:
    """Refuse a database that a command would have to create. Raises :class:`NotFound`, or :class:`Conflict` when the
    database is there and empty.
    """
    if is_missing(database):
        raise NotFound(
            "there is no database yet",
            f"{database.file} does not exist, and only a command that saves something new creates it",
            "functory function add FILE",
        )
    found = current(database)
    if found is None:
        raise Conflict(
            f"the database {database.name} has no schema",
            "only a command that saves something new creates it",
            "functory db upgrade",
        )
    refuse_snapshot(database, found)


def is_of_snapshot(schema: str) -> bool:
    """True for a schema that a development snapshot before the first release has made."""
    return schema < FIRST


def snapshot_conflict(subject: str, schema: str, advice: str) -> Conflict:
    """Return the error about a database or a backup whose schema is of a snapshot."""
    return Conflict(
        f"{subject} has schema {schema}",
        f"it is of a development snapshot before the first release; the schemas before {FIRST} are not upgraded",
        advice,
    )


def refuse_snapshot(database: Database, found: str | None) -> None:
    """Refuse a database of a development snapshot, by the schema ``found`` in it. Raises :class:`Conflict`."""
    if found is not None and is_of_snapshot(found):
        raise snapshot_conflict(f"the database {database.name}", found, NEW_DATABASE)


def upgrade(database: Database, revision: str = "head") -> str:
    """Migrate up to ``revision``. Returns the revision reached. Safe to run from many processes at once. Raises
    :class:`Conflict` for a database that this code cannot upgrade.
    """
    found = current(database)
    refuse_snapshot(database, found)
    if revision == "head":
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
            # Running roles lock tables in another order than a revision. Completed revisions stay.
            if not is_deadlock(error) or tried == DEADLOCK_TRIES:
                raise
            log.info("revision deadlocked with running roles, retrying", tries=tried)
            time.sleep(DEADLOCK_PAUSE)
    return current(database) or ""


def downgrade(database: Database, revision: str) -> str:
    """Migrate down to ``revision`` (``base`` for nothing)."""
    refuse_snapshot(database, current(database))
    _run(database, "downgrade", revision)
    return current(database) or ""


def check(database: Database) -> None:
    """Refuse a database whose schema does not fit this code. Raises :class:`Conflict`."""
    found = current(database)
    if found == HEAD:
        return
    refuse_snapshot(database, found)
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
    log.info("schema is newer than this version and compatible", schema=found, known=HEAD)


def is_compatible(database: Database) -> bool:
    """True when this code works on the database's schema."""
    try:
        check(database)
    except Conflict:
        return False
    return True


def _oldest_compatible(database: Database, revision: str) -> int | None:
    """The oldest code that works on schema ``revision``, as the number of its own schema; None when not stored."""
    with database.connection() as connection:
        return connection.execute(
            sa.select(counter.c.value).where(counter.c.name == f"{_OLDEST_COMPATIBLE_KEY}{revision}")
        ).scalar()


def _record_compatibility(connection: Connection) -> None:
    """Store the oldest code for the schema reached. After a downgrade only the code of that schema works on it."""
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

    if not database.keeps_sessions:
        raise Conflict(
            f"the database {database.name} cannot be migrated through a pooler",
            "the lock of a migration belongs to a session, and a pooler gives each transaction another one",
            "set FUNCTORY_DATABASE_DIRECT_URL to the database itself",
        )
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
            if verb == "upgrade" and not sa.inspect(connection).has_table("alembic_version"):
                postgres_server.check_new_database(connection)
            connection.commit()
        else:
            # One writing transaction around all revisions is the lock: a second process waits and finds all done. It
            # begins here, for Alembic would commit after each revision and let another process in between.
            connection.begin()
        try:
            getattr(command, verb)(config, revision)
            _record_compatibility(connection)
            connection.commit()
        except BaseException:
            connection.rollback()
            raise

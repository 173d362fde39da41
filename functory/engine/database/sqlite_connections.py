"""SQLite connections: their settings, and how their transactions begin.

WAL, and ``BEGIN IMMEDIATE`` for every writing transaction: a deferred transaction that upgrades to a write fails at
once despite any busy timeout (sqlite.org/lang_transaction.html).
"""

from __future__ import annotations

import sqlite3
import time
from typing import Any

import sqlalchemy as sa
from sqlalchemy import event as hooks
from sqlalchemy.engine import URL, Connection, Engine
from sqlalchemy.exc import DBAPIError

from functory.engine.database.sqlite_files import DatabaseFile
from functory.engine.errors import Invalid, Unavailable

# The first version with RETURNING (sqlite.org/lang_returning.html).
OLDEST_SQLITE = (3, 35, 0)
# How long a transaction waits for another process's transaction.
BUSY_MILLISECONDS = 30_000
# Pause before another try to switch a file to WAL that another process has locked.
WAL_RETRY_SECONDS = 0.02
# Statements that a connection keeps prepared. The engine has some 200; the driver's own 128 are not enough.
PREPARED_STATEMENTS = 512


def check_version(version: tuple[int, ...] = sqlite3.sqlite_version_info) -> None:
    """Refuse a library whose SQL is older than the engine's statements. Raises :class:`Invalid`."""
    if version < OLDEST_SQLITE:
        raise Invalid(
            f"SQLite {'.'.join(map(str, version))} is too old",
            f"Functory needs {'.'.join(map(str, OLDEST_SQLITE))}: its statements use RETURNING",
            "use a Python whose sqlite3 is newer (python -c 'import sqlite3; print(sqlite3.sqlite_version)'), "
            "or PostgreSQL",
        )


def create_engine(url: URL, file: DatabaseFile | None, pool_size: int) -> Engine:
    """Return the pool of one process. Without ``file`` the database is in memory, or SQLite itself reads its name."""
    check_version()
    options: dict[str, Any] = {
        "connect_args": {
            "timeout": BUSY_MILLISECONDS / 1000,
            "check_same_thread": False,
            "cached_statements": PREPARED_STATEMENTS,
        }
    }
    if url.database in (None, "", ":memory:"):
        options["poolclass"] = sa.pool.StaticPool
    else:
        options |= {"pool_size": pool_size, "max_overflow": pool_size * 4}
    engine = sa.create_engine(url, hide_parameters=True, **options)
    if file is not None:
        file.open()
        hooks.listen(
            engine,
            "do_connect",
            lambda _dialect, _record, args, parameters: file.connect(*args, **parameters),
        )
    hooks.listen(engine, "connect", prepare)
    return engine


def prepare(connection: sqlite3.Connection, _record: Any) -> None:
    """Set a new connection up (a listener of the pool)."""
    # :func:`begin` begins transactions; the driver must not begin its own.
    connection.isolation_level = None
    cursor = connection.cursor()
    _enable_wal(cursor)
    # FULL: a committed transaction survives a power cut, as the promise says.
    cursor.execute("PRAGMA synchronous=FULL")
    cursor.execute("PRAGMA foreign_keys=ON")
    cursor.execute(f"PRAGMA busy_timeout={BUSY_MILLISECONDS}")
    cursor.close()


def _enable_wal(cursor: sqlite3.Cursor) -> None:
    """Switch to the write-ahead log. SQLite's busy timeout does not apply to this statement, so it is retried."""
    deadline = time.monotonic() + BUSY_MILLISECONDS / 1000
    while True:
        try:
            mode = cursor.execute("PRAGMA journal_mode=WAL").fetchone()[0]
            break
        except sqlite3.OperationalError as error:
            # The lower byte is the primary code (sqlite.org/rescode.html).
            busy = error.sqlite_errorcode & 0xFF == sqlite3.SQLITE_BUSY
            if not busy or time.monotonic() > deadline:
                raise
            time.sleep(WAL_RETRY_SECONDS)
    # A database in memory has none.
    if mode not in ("wal", "memory"):
        raise Unavailable(
            "the database file cannot have a write-ahead log",
            f"its file system has no memory that processes share, so SQLite uses the mode {mode}",
            "put it on a local disk (FUNCTORY_HOME), or use PostgreSQL",
        )


def begin(connection: Connection) -> None:
    """Begin a transaction: ``IMMEDIATE`` when the connection's option ``functory_write`` is set."""
    write = connection.get_execution_options().get("functory_write", False)
    driver: Any = connection.connection.driver_connection
    statement = "BEGIN IMMEDIATE" if write else "BEGIN"
    try:
        driver.execute(statement)
    except sqlite3.Error as error:
        raise DBAPIError.instance(
            statement, None, error, sqlite3.Error, dialect=connection.dialect
        ) from error

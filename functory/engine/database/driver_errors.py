"""Driver errors: translates the errors of database drivers into the errors of the engine."""

from __future__ import annotations

import re
import sqlite3
from pathlib import Path
from typing import Any

from sqlalchemy.engine import ExceptionContext
from sqlalchemy.exc import (
    DataError,
    DBAPIError,
    InterfaceError,
    OperationalError,
    ProgrammingError,
)
from sqlalchemy.exc import TimeoutError as PoolTimeout

from functory.engine.database import sqlite_files
from functory.engine.errors import FunctoryError, Invalid, Unavailable, Uncertain

# PostgreSQL's codes (manual, appendix A) of a connection that ended, so that the outcome of a commit is unknown:
# connection failure (08; poolers report a lost server so) and the shutdown or crash of the server (57P).
_CUT_OFF = ("08", "57P")
# Codes of a server that cannot be used now, on a connection that is no longer of use: also a server that has become
# read-only (25006), as the former primary is after a failover, or that has ended an idle session (25P03, 25P04).
_GONE = (*_CUT_OFF, "25006", "25P03", "25P04")
# Codes of a server that cannot be used now: also no resources, connections included (53), a statement that the server
# ended (57), errors of its system (58), and transactions that it rolled back (40).
_UNAVAILABLE = (*_GONE, "53", "57", "58", "40")
# Codes of what an operator must change: missing rights, and no schema for new tables (search_path).
_DENIED, _NO_SCHEMA = "42501", "3F000"
# Codes of a table, a column or a function that is not there.
_MISSING = ("42P01", "42703", "42883")
# Codes of a text that the encoding of the database cannot hold.
_ENCODING = ("22P05", "22021")
# Codes of a statement that the schema refuses: an unknown table, column or key (42), a column without a value (23502),
# a value outside a CHECK (23514).
_ANOTHER_SCHEMA = ("42", "23502", "23514")
# SQLite has no codes for them.
_ANOTHER_SQLITE_SCHEMA = re.compile(
    r"no such (table|column)|has no column|NOT NULL constraint|CHECK constraint|ON CONFLICT clause does not match"
)


class DriverErrorTranslation:
    """A context that translates driver errors: a database that cannot be used becomes :class:`Unavailable`, and a value
    that it cannot store (a NUL or a lone surrogate in a key, a number beyond 64 bits) becomes :class:`Invalid`.

    One object serves all transactions of a database. ``schema_errors`` counts the errors that a statement for another
    schema may have caused.
    """

    def __init__(self, name: str, file: Path | None = None) -> None:
        self._name = name
        self._file = file
        self.schema_errors = 0

    def __enter__(self) -> None:
        pass

    def __exit__(self, _kind: Any, error: BaseException | None, _trace: Any) -> None:
        if error is not None:
            if may_be_another_schema(error):
                self.schema_errors += 1
            meant = translate_driver_error(self._name, error, self._file)
            if meant is not None:
                raise meant from (None if isinstance(error, PoolTimeout) else error)


def translate_driver_error(name: str, error: BaseException, file: Path | None = None) -> FunctoryError | None:
    """Return the engine's error for a driver's ``error``; None when there is no translation.

    ``file`` is the file of a SQLite database: its state tells causes apart that have one code.
    """
    if isinstance(error, PoolTimeout):
        return Unavailable(
            f"no free connection to {name}",
            "all connections of the pool are in use",
            "lower FUNCTORY_WORKER_SLOTS or look for long transactions",
        )
    if isinstance(error, UnicodeEncodeError | OverflowError):
        return Invalid("the database cannot hold that value", str(error))
    if not isinstance(error, DBAPIError):
        return None
    reason = str(error.orig).strip().splitlines()[0] if error.orig and str(error.orig).strip() else str(error)
    state = _sqlstate(error)
    if _primary_sqlite_code(error) in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB):
        return Unavailable(
            f"the database {name} cannot be used",
            f"the file is damaged, or is no database: {reason}",
            "move the file away and restore a backup: functory db restore FILE",
        )
    if file is not None and isinstance(error.orig, sqlite3.Error):
        explained = sqlite_files.explain(file, error.orig, reason)
        if explained is not None:
            return Unavailable(f"the database {name} cannot be used", *explained)
    if isinstance(error, OperationalError | InterfaceError) or state.startswith(
        (*_UNAVAILABLE, _DENIED, _NO_SCHEMA, *_MISSING)
    ):
        return Unavailable(f"the database {name} cannot be used", reason, _hint(reason, state))
    if isinstance(error, ProgrammingError) and "connection option" in reason:
        return Invalid(
            "the URL of the database is wrong", reason, "correct what follows ? in FUNCTORY_DATABASE_URL"
        )
    if isinstance(error, DataError):
        return Invalid("the database cannot hold that value", reason, _HINTS.get(state, ""))
    if error.connection_invalidated:
        return Unavailable(f"the connection to {name} was lost", str(error.orig), "it is retried")
    return None


def may_be_another_schema(error: BaseException) -> bool:
    """Return True for an error that a statement for another schema causes; a wrong statement causes the same one."""
    if not isinstance(error, DBAPIError):
        return False
    if isinstance(error.orig, sqlite3.Error):
        return bool(_ANOTHER_SQLITE_SCHEMA.search(str(error.orig)))
    return _sqlstate(error).startswith(_ANOTHER_SCHEMA)


def unknown_commit_outcome(name: str, error: BaseException) -> Uncertain | None:
    """Return the error for a commit without an answer from the server; None when the commit certainly failed."""
    if not isinstance(error, OperationalError | InterfaceError):
        return None
    state = _sqlstate(error)
    if getattr(error.orig, "sqlite_errorcode", None) or (state and not state.startswith(_CUT_OFF)):
        return None
    return Uncertain(
        f"it is not known whether the database {name} has stored it",
        (str(error.orig).strip() or "no answer").splitlines()[0],
        "check before you repeat it; with the same idempotency key or dedup_key it is stored once",
    )


def is_deadlock(error: BaseException | None) -> bool:
    """Return True for PostgreSQL's deadlock_detected and serialization_failure (manual, appendix A)."""
    cause = error.__cause__ if isinstance(error, Unavailable) else None
    return isinstance(cause, DBAPIError) and _sqlstate(cause) in ("40P01", "40001")


def discard_useless_connection(context: ExceptionContext) -> None:
    """Hook of SQLAlchemy: replace the connections of the pool when the server behind them is no longer of use."""
    if ends_connection(context.original_exception):
        context.is_disconnect = True


def ends_connection(error: BaseException) -> bool:
    """Return True for a driver's error after which the server behind the connection is of no use."""
    return (getattr(error, "sqlstate", None) or "").startswith(_GONE)


def _sqlstate(error: BaseException | None) -> str:
    """Return PostgreSQL's code of an error; empty without one."""
    return (getattr(error.orig, "sqlstate", None) if isinstance(error, DBAPIError) else None) or ""


def _primary_sqlite_code(error: DBAPIError) -> int:
    """Return SQLite's code of an error without its details (sqlite.org/rescode.html); 0 for another database."""
    return (getattr(error.orig, "sqlite_errorcode", None) or 0) & 0xFF


_DISK = "free disk space; nothing was written"
_CONNECTIONS = (
    "raise max_connections of PostgreSQL, or lower the number of processes and FUNCTORY_WORKER_SLOTS"
)
_UPGRADE = "functory db upgrade"
_ENCODING_HINT = "functory doctor database: its encoding must be UTF8"
# By PostgreSQL's code: the server's texts are in the language of its lc_messages.
_HINTS = {
    "25006": "wait for the end of the failover, or name the server that takes writes in FUNCTORY_DATABASE_URL; "
    "functory doctor database says why it takes none",
    _DENIED: "let the role of FUNCTORY_DATABASE_URL own the tables, with USAGE and CREATE on their schema; "
    "functory doctor database says what it lacks",
    _NO_SCHEMA: "ALTER ROLE … SET search_path = public, or create the schema that search_path names",
    "53100": _DISK,
    "53300": _CONNECTIONS,
    "40P01": "it is tried again; nothing was written",
    "40001": "it is tried again; nothing was written",
    "57014": "look for long transactions in pg_stat_activity, then try again",
    "55P03": "look for long transactions in pg_stat_activity, then try again",
    **dict.fromkeys(_MISSING, _UPGRADE),
    **dict.fromkeys(_ENCODING, _ENCODING_HINT),
}


def _hint(reason: str, state: str) -> str:
    if state in _HINTS:
        return _HINTS[state]
    # SQLite has no codes for them, and an error of the connecting itself has none either.
    lowered = reason.lower()
    if "too many c" in lowered or "connection slots are reserved" in lowered:
        return _CONNECTIONS
    if missing := re.search(r'database "([^"]*)" does not exist', reason):
        # The server's name of the database, which the command below quotes for no shell.
        return f"create the database {missing[1]} on that server (createdb), then functory db upgrade"
    if "unable to open database file" in lowered:
        return (
            "check that the folder of the file exists, that you may read and write both, and that this process may "
            "open more files (ulimit -n)"
        )
    if "no such table" in lowered or "no such column" in lowered:
        return _UPGRADE
    if "locked" in lowered:
        return "another program holds the file: end it (fuser -v FILE names it), or try again"
    if "password" in lowered or "pg_hba.conf" in lowered:
        return (
            "correct user and password in FUNCTORY_DATABASE_URL, or let pg_hba.conf of the server admit them"
        )
    return "check that the server runs, that the database exists and that FUNCTORY_DATABASE_URL is right"

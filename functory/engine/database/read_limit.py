"""A limit of the time that reading transactions may take, for callers that wait for an answer.

``with read_limit.of(2.0)`` limits what all :meth:`Database.read` of the block take together, on the same thread or
task. Without it nothing is limited, and nothing is paid: roles and commands read as long as they need. Writing
transactions never have a limit.

- PostgreSQL: the transaction sets its ``statement_timeout`` to the time that is left. This is sent together with its
  first statement (:meth:`functory.engine.database.postgres_pipeline.PipelinedConnection.limit_statements`). A reading
  transaction is then one of the server, so its end is one round trip more.
- SQLite: the library asks now and then whether the time is over. A statement that is over is interrupted.
  Statements of a few steps are not asked. A database in memory has one connection for all threads, and no limit.
"""

from __future__ import annotations

import contextlib
import sqlite3
import time
from collections.abc import Iterator
from contextvars import ContextVar
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sqlalchemy.engine import Connection
from sqlalchemy.exc import DBAPIError

from functory.engine.errors import ReadTooLong

if TYPE_CHECKING:
    from functory.engine.database.postgres_pipeline import PipelinedConnection

# Steps of SQLite's machine between two looks at the clock: about half a millisecond.
SQLITE_STEPS = 20_000
# PostgreSQL's query_canceled (manual, appendix A).
_CANCELED = "57014"


@dataclass
class ReadLimit:
    """The seconds that the reading transactions of a block may take together, and how many of them are left."""

    seconds: float
    left: float

    def exceeded(self) -> ReadTooLong:
        """Return the error of a read that took longer."""
        return ReadTooLong(
            f"the read took longer than {self.seconds:g} s",
            "it was ended; nothing was changed",
            "narrow the filter by time (since, until), or ask for fewer rows (limit)",
        )


_limit: ContextVar[ReadLimit | None] = ContextVar("read_limit", default=None)


@contextlib.contextmanager
def of(seconds: float | None) -> Iterator[None]:
    """Let the reading transactions that begin in the block take at most ``seconds`` together; None: as long as they
    need.

    A longer one raises :class:`ReadTooLong`.
    """
    before = _limit.set(None if seconds is None else ReadLimit(seconds, seconds))
    try:
        yield
    finally:
        _limit.reset(before)


def current() -> ReadLimit | None:
    """Return the limit of reading transactions here; None without one."""
    return _limit.get()


@contextlib.contextmanager
def limited(connection: Connection, dialect: str, limit: ReadLimit) -> Iterator[None]:
    """Limit the statements of a transaction that has begun. Raises :class:`ReadTooLong` instead of the driver's
    error.
    """
    if limit.left <= 0:
        raise limit.exceeded()
    driver: Any = connection.connection.driver_connection
    began = time.monotonic()
    deadline = began + limit.left
    with _on_postgresql(driver, deadline) if dialect == "postgresql" else _on_sqlite(driver, deadline):
        try:
            yield
        except DBAPIError as error:
            if time.monotonic() < deadline or not _was_ended(error):
                raise
            raise limit.exceeded() from error
        finally:
            limit.left -= time.monotonic() - began


@contextlib.contextmanager
def _on_postgresql(driver: PipelinedConnection, deadline: float) -> Iterator[None]:
    driver.limit_statements(deadline)
    try:
        yield
    finally:
        driver.limit_statements(None)


@contextlib.contextmanager
def _on_sqlite(driver: sqlite3.Connection, deadline: float) -> Iterator[None]:
    driver.set_progress_handler(lambda: time.monotonic() >= deadline, SQLITE_STEPS)
    try:
        yield
    finally:
        driver.set_progress_handler(None, 0)


def _was_ended(error: DBAPIError) -> bool:
    code = getattr(error.orig, "sqlite_errorcode", None) or 0
    return code & 0xFF == sqlite3.SQLITE_INTERRUPT or getattr(error.orig, "sqlstate", None) == _CANCELED

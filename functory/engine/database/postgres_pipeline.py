"""PostgreSQL connections with few round trips: what needs no answer waits, and goes out with the next statement.

A round trip costs more than most statements. So ``BEGIN`` and inserts are kept back until a statement needs an answer,
or until the commit, and are then sent in one piece (pipeline mode of libpq,
https://www.postgresql.org/docs/15/libpq-pipeline-mode.html). A transaction of inserts is one round trip. An error of a
statement that was kept back appears at the statement, or at the commit, that takes it along.

A ``NOTIFY`` to the channel of each topic follows the commit in the same piece: it needs no round trip, and is sent even
when this process dies.
It is not inside of the transaction, because PostgreSQL lets only one transaction with NOTIFY commit at a time, with its
disk sync (``PreCommit_Notify`` in async.c): 8 writers with fsync reached 3,400 transactions a second that way and
5,900 this way; one writer 2,900 and 3,400.
"""

from __future__ import annotations

import contextlib
import select
import time
from collections.abc import Generator, Iterator
from contextlib import AbstractContextManager
from typing import Any

import psycopg
from psycopg import pq

from functory.engine.database.wakeups import CHANNEL

# A session behind a pooler may have another default.
BEGIN, COMMIT = "BEGIN ISOLATION LEVEL READ COMMITTED", "COMMIT"
_NOTIFY = f"SELECT pg_notify('{CHANNEL}_' || topic, %s) FROM unnest(string_to_array(%s, ',')) AS topic"  # noqa: S608
_IDLE = pq.TransactionStatus.IDLE
# The limit of the statements of a transaction. Its text is always the same, so the driver prepares it.
_LIMIT = "SELECT set_config('statement_timeout', %s, true)"
# The limit is sent again when the time that is left is this much shorter than what the server knows.
LIMIT_GRAIN_SECONDS = 0.1
# A statement whose text parameter is longer is one about many rows. PostgreSQL keeps the plan of a prepared statement,
# and one that was made while a table was small reads the whole table, also when it has grown: a burst on an empty
# database was a quarter slower. So such a statement is planned each time, unless the session only makes plans that use
# indexes. For a single row the plan would take longer than the statement.
MANY_ROWS_CHARACTERS = 2000


class PipelinedConnection(psycopg.Connection[Any]):
    """A connection that keeps back what needs no answer. It must be opened with ``autocommit=True``.

    ``unsent`` are the statements that are kept back, each with its parameters and the cursor for its answer.
    ``notification`` is what the NOTIFY that follows the next commit tells: its sender and its topics; None for none.
    ``keeps_plans``: also those of statements about many rows. ``deadline``: in monotonic seconds, when the statements
    of the current transaction end; None without a limit.
    """

    def __init__(self, *given: Any, **named: Any) -> None:
        super().__init__(*given, **named)
        self.cursor_factory = PipelinedCursor
        self.unsent: list[tuple[Any, Any, psycopg.Cursor[Any]]] = []
        self.notification: tuple[str, str] | None = None
        self.keeps_plans = False
        # When the server last answered, in monotonic seconds.
        self.answered_at = time.monotonic()
        self._without_transactions = False
        self.deadline: float | None = None
        # The seconds that a statement may take, as the server knows it.
        self._limit_sent = 0.0

    @property
    def autocommit(self) -> bool:
        """True while :meth:`begin` begins nothing. The driver itself never begins a transaction."""
        return self._without_transactions

    @autocommit.setter
    def autocommit(self, value: bool) -> None:
        self._without_transactions = value

    def begin(self) -> None:
        """Begin a transaction with the next statement."""
        if not self._without_transactions:
            self.later(BEGIN)

    def later(self, statement: str, parameters: Any = None) -> psycopg.Cursor[Any]:
        """Send a statement together with the next one that is run, or with the commit. Returns the cursor that then has
        its rows.
        """
        if self.deadline is not None:
            self.renew_limit()
        cursor = psycopg.Cursor(self)
        self.unsent.append((statement, parameters, cursor))
        return cursor

    def limit_statements(self, deadline: float | None) -> None:
        """Let no statement of the current transaction run beyond ``deadline``, in monotonic seconds, give or take
        :data:`LIMIT_GRAIN_SECONDS`. None: no longer. The end of the transaction ends what the server knows of it.
        """
        self.deadline, self._limit_sent = deadline, 0.0

    def renew_limit(self) -> None:
        """Send the time that is left along with the next statement, unless the server knows it. It takes no round trip.

        Raises :class:`psycopg.errors.QueryCanceled` when no time is left.
        """
        assert self.deadline is not None
        left = self.deadline - time.monotonic()
        # PostgreSQL takes 0 for no limit.
        if left < 0.001:
            raise psycopg.errors.QueryCanceled("no time is left for the statement")
        if not self._limit_sent or self._limit_sent - left > LIMIT_GRAIN_SECONDS:
            self._limit_sent = left
            self.unsent.append((_LIMIT, [str(round(left * 1000))], psycopg.Cursor(self)))

    def take_back(self, statement: str) -> bool:
        """Forget what is kept back from the last ``statement`` on. False when that was sent: then all is forgotten."""
        for position in range(len(self.unsent) - 1, -1, -1):
            if self.unsent[position][0] == statement:
                del self.unsent[position:]
                return True
        self.unsent.clear()
        return False

    def wait(self, gen: Generator[Any, Any, Any], *args: Any, **options: Any) -> Any:  # pyright: ignore[reportIncompatibleMethodOverride]
        """Run a request of the driver to its end."""
        result = super().wait(gen, *args, **options)
        self.answered_at = time.monotonic()
        return result

    def commit(self) -> None:
        """Send what is kept back, and commit. Raises the error of any statement that it sends."""
        unsent, notification, self.notification = self.unsent, self.notification, None
        if len(unsent) == 1 and unsent[0][0] == BEGIN:
            # Nothing was written, so only the notification is left.
            unsent.clear()
        elif len(unsent) == 2 and unsent[0][0] == BEGIN and not notification:
            # One statement is a transaction by itself.
            unsent.pop(0)
            self.send()
        elif unsent or self.pgconn.transaction_status != _IDLE:
            self._commit(notification)
            return
        if notification:
            # A wake-up that is lost costs a poll interval.
            with contextlib.suppress(psycopg.Error):
                self.execute(_NOTIFY, notification)

    def rollback(self) -> None:
        """Forget what is kept back, and roll back what was sent. On a lost connection the server does that."""
        self.unsent.clear()
        self.notification = None
        if self.closed or self.pgconn.transaction_status == _IDLE:
            return
        try:
            super().rollback()
        except psycopg.OperationalError:
            # The pool finds it closed.
            if not self.closed:
                raise

    def one_piece(self) -> AbstractContextManager[Any]:
        """Send the statements of the block together, unless the server has ended the session: only a statement by
        itself reports its reason.
        """
        if self.has_input():
            return contextlib.nullcontext()
        self._pipeline = _OnePiece(self)
        return self.pipeline()

    def send(self) -> None:
        """Send what is kept back. The answers are read by the caller's pipeline."""
        unsent, self.unsent = self.unsent, []
        for statement, parameters, cursor in unsent:
            cursor.execute(statement, parameters, prepare=self.may_prepare(parameters))

    def may_prepare(self, parameters: Any) -> bool | None:
        """Return False for a statement that is planned each time, else None: the driver prepares what comes often."""
        if self.keeps_plans:
            return None
        values = parameters.values() if isinstance(parameters, dict) else parameters or ()
        return False if any(type(v) is str and len(v) > MANY_ROWS_CHARACTERS for v in values) else None

    def send_unsent(self) -> None:
        """Send what is kept back, and read its answers."""
        if self.unsent:
            with self.one_piece():
                self.send()

    def has_input(self) -> bool:
        """Return True when the server has sent something by itself, such as the end of the session."""
        readable = select.poll()
        readable.register(self.fileno(), select.POLLIN)
        return bool(readable.poll(0))

    def _commit(self, notification: tuple[str, str] | None) -> None:
        ending = psycopg.Cursor(self)
        try:
            if not self.unsent and not notification:
                ending.execute(COMMIT)
            else:
                with self.one_piece():
                    self.send()
                    ending.execute(COMMIT)
                    if notification:
                        psycopg.Cursor(self).execute(_NOTIFY, notification)
        except psycopg.Error:
            # After the commit only the wake-up can fail.
            if ending.statusmessage != COMMIT:
                raise
        if ending.statusmessage != COMMIT:
            # The server answers so when a statement before had failed.
            raise psycopg.errors.InFailedSqlTransaction("the transaction was rolled back, not committed")


class _OnePiece(psycopg.Pipeline):
    """A pipeline that is sent as a whole, with its Sync as the last message.

    The driver's own pipeline sends each statement by itself, as soon as the connection takes it: three system calls for
    each, and the server wakes up for each.

    The driver's own adds a Flush, which is not needed after a Sync. PostgreSQL takes any message as the end of the
    session's idle time, and starts to measure that again only after a Sync: so a Flush behind it would switch
    ``idle_in_transaction_session_timeout`` off (``PostgresMain`` in postgres.c).
    """

    def _communicate_gen(self) -> Generator[Any, Any, None]:
        yield from ()

    def _exit(self, exc: BaseException | None) -> None:
        """Leave the pipeline. A session that the server ended in the middle of the piece cannot leave it, though its
        connection is still open: that one is closed here, and the error of the piece says why.
        """
        try:
            super()._exit(exc)
        except psycopg.OperationalError as error:
            self.pgconn.finish()
            if error.__context__ is None:
                raise

    def _exit_gen(self) -> Generator[Any, Any, None]:
        try:
            self._enqueue_sync()
            # libpq collects them, and sends early only what is longer than its buffer.
            *first, sync = self.command_queue
            self.command_queue.clear()
            for command in first:
                command()
            self.command_queue.append(sync)
            yield from super()._communicate_gen()
        finally:
            yield from self._fetch_gen(flush=False)


class PipelinedCursor(psycopg.Cursor[Any]):
    """A cursor that sends what its connection keeps back along with its own statement."""

    def execute(self, query: Any, params: Any = None, **named: Any) -> Any:  # pyright: ignore[reportIncompatibleMethodOverride]
        """Run one statement (as the driver's own method)."""
        connection: Any = self.connection
        if connection.deadline is not None:
            connection.renew_limit()
        named.setdefault("prepare", connection.may_prepare(params))
        if not connection.unsent:
            return super().execute(query, params, **named)
        with connection.one_piece():
            connection.send()
            super().execute(query, params, **named)
        return self

    def executemany(self, *given: Any, **named: Any) -> None:
        """Run one statement for many rows (as the driver's own method)."""
        self._send_first()
        super().executemany(*given, **named)

    @contextlib.contextmanager
    def copy(self, *given: Any, **named: Any) -> Iterator[Any]:
        """Run a COPY (as the driver's own method). The server takes none inside a pipeline."""
        self._send_first()
        with super().copy(*given, **named) as copy:
            yield copy

    def _send_first(self) -> None:
        connection: Any = self.connection
        connection.send_unsent()

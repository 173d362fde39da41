"""Connections and transactions on PostgreSQL and SQLite.

``with database.write() as tx`` is one transaction: it commits at the end, or rolls back on an error. Its wake-ups
(``tx.wake("events")``) reach waiting roles after the commit. Most differences of the two dialects stay in this room.
:mod:`functory.engine.database.dialects` has named functions for what only one of them can do, and
``tx.writes_concurrently`` is True where rows need locks. Other rooms ask for ``tx.dialect`` in two cases. The whole
work depends on it: backup and restore, and the capture of tables (PostgreSQL only). Or a statement of the hot path is
written for PostgreSQL a second time, to take fewer round trips: in the routing queue, the ready queue and dispatch, and
in claims and results.

- SQLite: see :mod:`functory.engine.database.sqlite_connections`.
- PostgreSQL: READ COMMITTED, ``FOR UPDATE SKIP LOCKED`` where rows are claimed (SQLAlchemy leaves it out for SQLite,
  which has one writer at a time), and a ``NOTIFY`` right after the commit as wake-up. Statements without an answer wait
  for the next one that has an answer, or for the commit (:mod:`functory.engine.database.postgres_pipeline`). A reading
  transaction without ``snapshot`` is no transaction of the server: READ COMMITTED shows each statement its own state
  anyway. One with a limit of time (:mod:`functory.engine.database.read_limit`) is.
"""

from __future__ import annotations

import contextlib
import os
import threading
import time
import weakref
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import TYPE_CHECKING, Any, TypeVar

import sqlalchemy as sa
from sqlalchemy import event as hooks
from sqlalchemy.engine import URL, Connection, Engine, RootTransaction, make_url

from functory.engine import extras, sqlite_urls
from functory.engine.database import clock as clocks
from functory.engine.database import read_limit, sqlite_connections
from functory.engine.database.clock_offset import StoredOffset
from functory.engine.database.driver_errors import DriverErrorTranslation, unknown_commit_outcome
from functory.engine.database.group_commit import GroupCommit
from functory.engine.database.notifications import Notifier, WakeupListener
from functory.engine.database.server_time import measure_server_time
from functory.engine.database.sqlite_files import DatabaseFile
from functory.engine.database.transaction import Tx
from functory.engine.database.wakeups import Wakeup
from functory.engine.errors import DatabaseLost, Invalid
from functory.engine.settings import Settings

if TYPE_CHECKING:
    from functory.engine.database.postgres_connections import AnswerWatch

# PostgreSQL ends a session that is idle inside a transaction for this long. A process that was stopped, or whose
# machine is gone, would otherwise keep its rows locked, and no other process could recover its executions.
IDLE_SECONDS = 30.0

# Shared transactions of one process on PostgreSQL. With more of them, each would be shared by fewer threads.
COMMITS_AT_ONCE = 2

T = TypeVar("T")


class Database:
    """A database, opened by its SQLAlchemy URL; safe to use from many threads and after a fork."""

    def __init__(
        self,
        url: str,
        *,
        clock: clocks.Clock | None = None,
        new_id: Callable[[], str] | None = None,
        wakeup: Wakeup | None = None,
        pool_size: int = 10,
        idle_seconds: float = IDLE_SECONDS,
        direct_url: str | None = None,
        answer_seconds: float = 5.0,
        by_keys: bool = False,
    ) -> None:
        self._url = make_url(url)
        self.dialect = self._url.get_backend_name()
        # The URL without its password.
        self.name = self._url.render_as_string(hide_password=True)
        # The file of a SQLite database; None for one in memory or on a server.
        self.file = sqlite_urls.path_of(url)
        if self.file is not None:
            self._url = self._url.set(database=str(self.file))
        self._driver_errors = DriverErrorTranslation(self.name, self.file)
        self._file = DatabaseFile(self.file) if self.file is not None else None
        # Called with the error when the file of a SQLite database was deleted or replaced under this process.
        self.on_lost: Callable[[DatabaseLost], None] = lambda error: None
        self.wakeup = wakeup or Wakeup()
        self._pool_size = pool_size
        self._idle_seconds = idle_seconds
        self._direct_url = make_url(direct_url) if direct_url else None
        self._answer_seconds = answer_seconds
        self._by_keys = by_keys
        self._engine: Engine | None = None
        self._direct_engine: Engine | None = None
        self._watches: list[AnswerWatch] = []
        # True when a pooler gives each transaction another session; known after the first connection.
        self._pooled: Callable[[], bool] = lambda: False
        self._open_lock = threading.Lock()
        # One writer at a time inside this process: threads queue here instead of in SQLite's
        # busy handler, which sleeps up to 100 ms between tries.
        self._writer = threading.Lock() if self.dialect == "sqlite" else contextlib.nullcontext()
        self.clock: clocks.Clock = clock or (
            clocks.SystemClock() if self.dialect == "sqlite" else self._server_clock()
        )
        self.new_id = new_id or self._ids()
        self._group_commit = self._new_group_commit()
        self._notifier = Notifier(self)
        self._listener: WakeupListener | None = None
        _databases.add(self)

    @classmethod
    def of(cls, settings: Settings, *, pool_size: int = 10, by_keys: bool = False) -> Database:
        """Return the database that the settings name. ``by_keys``: the statements of this process find their rows by
        keys, so PostgreSQL may keep their plans.
        """
        return cls(
            settings.database,
            pool_size=pool_size,
            direct_url=settings.direct_database,
            answer_seconds=settings.database_answer_seconds,
            by_keys=by_keys,
        )

    def __repr__(self) -> str:
        return f"Database({self.name!r})"

    def connection_parameters(self) -> dict[str, Any]:
        """Return the driver's connection parameters, for another program. They contain the password: never print
        them.
        """
        url = self._direct_url or self._url
        given = url.translate_connect_args(username="user", database="dbname")
        return {**given, **url.query}

    @property
    def schema_errors(self) -> int:
        """The number of errors so far that a statement for another schema may have caused."""
        return self._driver_errors.schema_errors

    @property
    def engine(self) -> Engine:
        """The connection pool of this process, opened at its first use."""
        if self._engine is None:
            with self._open_lock:
                if self._engine is None:
                    self._engine = self._create_engine(self._url, self._pool_size)
        return self._engine

    @property
    def direct_engine(self) -> Engine:
        """The connections that keep their session: past the pooler, where the settings name a way past it."""
        if self._direct_url is None:
            return self.engine
        with self._open_lock:
            if self._direct_engine is None:
                self._direct_engine = self._create_engine(self._direct_url, 1)
        return self._direct_engine

    @property
    def keeps_sessions(self) -> bool:
        """False when each transaction may have another session of the server, and no URL past the pooler is set. Asks
        the server. Raises :class:`Unavailable`.
        """
        self.ping()
        return self._direct_url is not None or not self._pooled()

    def give_up(self) -> None:
        """Let every statement fail that waits for an answer, now and later: this process ends."""
        for watch in self._watches:
            watch.given_up = True

    def after_fork(self) -> None:
        """Drop connections and locks in a forked child. Two processes on one socket read each other's rows, and a lock
        that another thread of the parent held during the fork would stay locked for ever."""
        if self._engine is not None:
            # Never collected: closing them here would end the parent's sessions and file locks.
            _inherited.append(self._engine)
        if self._direct_engine is not None:
            _inherited.append(self._direct_engine)
        self._engine = self._direct_engine = self._listener = None
        self._notifier = Notifier(self)
        self._watches = []
        self._open_lock = threading.Lock()
        self._group_commit = self._new_group_commit()
        self._writer = threading.Lock() if self.dialect == "sqlite" else contextlib.nullcontext()
        self.wakeup = Wakeup()
        if isinstance(self.clock, clocks.ServerClock):
            self.clock = self._server_clock()
            if isinstance(self.new_id, clocks.ServerIds):
                self.new_id = self._ids()

    @contextlib.contextmanager
    def write(self) -> Iterator[Tx]:
        """Open a writing transaction. Raises :class:`Unavailable` when the database cannot be used.

        When the connection is lost during the commit, it raises :class:`functory.engine.errors.Uncertain`: the commit
        may have succeeded.
        """
        # The clock may ask the server: before the transaction, so that it never waits inside one.
        with self._driver_errors:
            now = self.clock.now()
        with (
            self._driver_errors,
            self._writer,
            self._connected(write=True) as connection,
            self._begin(connection) as transaction,
            Tx(connection, now, self.new_id, self.dialect).ending() as tx,
        ):
            yield tx
            try:
                self._notifier.before_commit(tx)
                transaction.commit()
            except BaseException as error:
                _roll_back_failed_commit(connection)
                uncertain = unknown_commit_outcome(self.name, error)
                if uncertain is not None:
                    raise uncertain from error
                raise
        self._after_commit(tx)

    def single(
        self, statement: str, parameters: Mapping[str, Any] | None = None, *, wake: Collection[str] = ()
    ) -> list[tuple[Any, ...]]:
        """Run one statement as a transaction, in one round trip on PostgreSQL, and wake the topics ``wake``. Returns
        its rows. The parameters have the form ``:name``, and the values are the driver's. Raises as :meth:`write`.
        """
        with self.write() as tx:
            rows = tx.later(statement, parameters)
            tx.wake(*wake)
        return rows()

    def run_alone(self, statement: str) -> None:
        """Run a statement that cannot be part of a transaction (VACUUM), on PostgreSQL. Raises :class:`Unavailable`."""
        with self._driver_errors, self.engine.connect() as opened:
            opened.execution_options(isolation_level="AUTOCOMMIT").exec_driver_sql(statement)

    def group_commit(self, work: Callable[[Tx], T]) -> T:
        """Run ``work`` in a transaction that it may share with the other threads of this process
        (:mod:`functory.engine.database.group_commit`). Returns its result once it is durable.
        """
        return self._group_commit.run(work)

    @contextlib.contextmanager
    def read(self, *, snapshot: bool = False) -> Iterator[Tx]:
        """Open a reading transaction. On SQLite it sees one snapshot, on PostgreSQL only with ``snapshot`` (else READ
        COMMITTED).

        Raises :class:`Unavailable`; :class:`functory.engine.errors.ReadTooLong` in a block of
        :func:`functory.engine.database.read_limit.of`.
        """
        # A database in memory has one connection for all threads.
        limit = None if self.dialect == "sqlite" and self.file is None else read_limit.current()
        with self._driver_errors:
            now = self.clock.now()
            with (
                self._connected() as connection,
                # What limits a statement holds to the end of its transaction, so there must be one.
                self._begin(connection, reading=not snapshot and limit is None, snapshot=snapshot),
                contextlib.nullcontext()
                if limit is None
                else read_limit.limited(connection, self.dialect, limit),
            ):
                yield Tx(connection, now, self.new_id, self.dialect)

    @contextlib.contextmanager
    def connection(self, *, write: bool = False) -> Iterator[Connection]:
        """Open a bare connection that keeps its session, for migrations. Raises :class:`Unavailable`."""
        self.check_file()
        with self._driver_errors, self.direct_engine.connect() as opened:
            connection = opened.execution_options(functory_write=write)
            if self.dialect == "sqlite":
                hooks.listen(connection, "begin", sqlite_connections.begin)
            yield connection

    def listen_for_wakeups(self) -> None:
        """Start to receive the wake-ups of other processes, until :meth:`close`."""
        if self._listener is None and self._url.database not in (None, "", ":memory:"):
            self._listener = WakeupListener(self, self._notifier.sender)
            self._listener.start()

    def reserve(self) -> None:
        """Open every connection of the pool, which then keeps them: a role that is ready has what it needs. Raises
        :class:`Unavailable`. SQLite has no limit.
        """
        if self.dialect == "postgresql":
            with self._driver_errors, contextlib.ExitStack() as stack:
                for _ in range(self._pool_size):
                    stack.enter_context(self.engine.connect())

    def check_file(self) -> None:
        """Check that the file of a SQLite database is the one that was opened. Raises :class:`DatabaseLost`, and calls
        ``on_lost`` before.
        """
        if self._file is not None and self._engine is not None:
            try:
                self._file.check()
            except DatabaseLost as error:
                self.on_lost(error)
                raise

    def ping(self) -> float:
        """Return the seconds that one round trip takes. Raises :class:`Unavailable`."""
        start = time.monotonic()
        with self.read() as tx:
            tx.scalar(sa.text("SELECT 1"))
        return time.monotonic() - start

    def close(self) -> None:
        """Close every connection; the object can be used again afterwards."""
        if self._listener is not None:
            self._listener.stop()
            self._listener = None
        self._notifier.stop()
        self._notifier = Notifier(self)
        for engine in (self._engine, self._direct_engine):
            if engine is not None:
                engine.dispose()
        self._engine = self._direct_engine = None
        self._watches = []

    @contextlib.contextmanager
    def _connected(self, *, write: bool = False) -> Iterator[Connection]:
        """Take a connection from the pool for one transaction."""
        self.check_file()
        with self.engine.connect() as connection:
            yield connection.execution_options(functory_write=write)
            if self._pooled():
                postgres_connections().end_pooled(connection)

    @contextlib.contextmanager
    def _begin(
        self, connection: Connection, *, reading: bool = False, snapshot: bool = False
    ) -> Iterator[RootTransaction]:
        # Not by an event hook of the pool: with a hook, SQLAlchemy takes twice as long for every statement.
        if self.dialect == "sqlite":
            with connection.begin() as transaction:
                sqlite_connections.begin(connection)
                yield transaction
            return
        postgres = postgres_connections()
        # A pooler may give each statement another session, so there a reading transaction is a real one.
        with (
            postgres.without_transaction(connection)
            if reading and not self._pooled()
            else contextlib.nullcontext(),
            connection.begin() as transaction,
        ):
            if snapshot:
                # Before any query of the transaction.
                connection.exec_driver_sql("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
            if self._pooled():
                postgres.begin_pooled(connection, self._idle_seconds)
            yield transaction

    def _new_group_commit(self) -> GroupCommit:
        return GroupCommit(
            self.write, self._driver_errors, 1 if self.dialect == "sqlite" else COMMITS_AT_ONCE
        )

    def _after_commit(self, tx: Tx) -> None:
        self._notifier.after_commit(tx)

    def _ids(self) -> Callable[[], str]:
        """Return a generator of ids that uses the same clock as all timestamps."""
        clock = self.clock
        return clocks.ServerIds(clock) if isinstance(clock, clocks.ServerClock) else clocks.new_id

    def _server_clock(self) -> clocks.ServerClock:
        offset = StoredOffset(self._connect_engine)
        return clocks.ServerClock(
            lambda: measure_server_time(self._connect_engine, offset.read), offset=offset
        )

    def _connect_engine(self) -> Connection:
        # Not the engine itself: there is another one after a close or a fork.
        return self.engine.connect()

    def _create_engine(self, url: URL, pool_size: int) -> Engine:
        if self.dialect == "postgresql":
            postgres = postgres_connections()
            watch = postgres.AnswerWatch(self._answer_seconds)
            self._watches.append(watch)
            if url is self._url:
                self._pooled = lambda: watch.pooled
            return postgres.create_engine(url, watch, pool_size, self._idle_seconds, by_keys=self._by_keys)
        return sqlite_connections.create_engine(self._url, self._file, self._pool_size)


def postgres_connections() -> Any:
    """Import what needs PostgreSQL's driver, which an installation for SQLite lacks.

    Raises :class:`Invalid` when it is not installed.
    """
    try:
        from functory.engine.database import postgres_connections
    except ModuleNotFoundError as error:
        if not (error.name or "").startswith("psycopg"):
            raise
        raise Invalid(
            "the client of PostgreSQL is not installed",
            f"there is no module {error.name}",
            extras.install_command("postgres"),
        ) from None

    return postgres_connections


def open_pools() -> list[tuple[int, int]]:
    """Return (connections in use, connections that it may open) of each pool of this process."""
    engines = [one._engine for one in list(_databases)] + [one._direct_engine for one in list(_databases)]
    pools = [engine.pool for engine in engines if engine is not None]
    return [
        # The pool has no public access to the number that it opens beyond its size.
        (pool.checkedout(), pool.size() + max(0, pool._max_overflow))
        for pool in pools
        if isinstance(pool, sa.pool.QueuePool)
    ]


_databases: weakref.WeakSet[Database] = weakref.WeakSet()
_inherited: list[Engine] = []


def _forked() -> None:
    for database in list(_databases):
        database.after_fork()


os.register_at_fork(after_in_child=_forked)


def _roll_back_failed_commit(connection: Connection) -> None:
    """End a transaction whose commit failed. SQLAlchemy regards it as ended, but the database may not: SQLite keeps it
    open when the disk is full. Its locks must not go back into the pool.
    """
    with contextlib.suppress(Exception):
        raw: Any = connection.connection.dbapi_connection
        raw.rollback()

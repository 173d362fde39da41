"""PostgreSQL connections: waits that end when the server does not answer, and sessions behind a pooler.

A statement has no time limit: it may wait for a lock, or be long. But a server whose host is lost, or whose connection
a firewall has forgotten, never answers, and TCP does not always notice. So after :data:`ANSWER_SECONDS` without an
answer this process asks the server on a new connection whether it still works on the statement. If not, the server ends
the session, which frees its locks, and the statement fails like one whose connection is lost.

A process whose statements find their rows by keys says so (``by_keys``). Its sessions keep the plan of each statement,
made without reading whole tables: PostgreSQL would choose otherwise while a table is small, and keep that plan when it
has grown. Planning a lone execution's statements anew took a tenth of PostgreSQL's time for it, and kept plans of small
tables a third.

A server, a database and a role have defaults for every session (``ALTER ROLE … SET``). Those that change what a
statement means or costs, or end it, are set anew by each session (:data:`SETTINGS`), in one statement after its
connect.
:mod:`functory.engine.database.postgres_server` checks what belongs to the operator.

A pooler between this process and the server (pgbouncer in transaction mode) gives each transaction another session. No
statement is prepared there, and what a session would keep is set in each transaction.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Generator, Iterator
from typing import Any

import psycopg
import sqlalchemy as sa
from psycopg.types.string import TextLoader
from sqlalchemy import event as hooks
from sqlalchemy.engine import URL, Connection, Engine

from functory.engine.database.driver_errors import discard_useless_connection
from functory.engine.database.postgres_pipeline import PipelinedConnection

# Seconds without an answer after which the server is asked whether it still works on the statement.
ANSWER_SECONDS = 5.0
# The server may just have sent its answer: it is asked twice, this many seconds apart.
CONFIRM_SECONDS = 1.0
# While no new connection can be made either, a statement fails after this many times the seconds above.
UNREACHABLE_FACTOR = 6
# Seconds without an answer after which a process that ends waits no longer.
LAST_SECONDS = 1.0
# A connection of the pool that was used in the last seconds is used again without asking the server, unless the server
# has sent something meanwhile: it says so when it ends a session.
PING_SECONDS = 3.0
# Connections that a pool opens beyond its size, and closes after their use.
SPARE_CONNECTIONS = 2
# What TCP itself notices: a peer that acknowledges nothing for 25 seconds (tcp(7); the URL may have other values).
TCP_OPTIONS = {
    "connect_timeout": 5,
    "keepalives": 1,
    "keepalives_idle": 10,
    "keepalives_interval": 5,
    "keepalives_count": 3,
    "tcp_user_timeout": 25_000,
}

# A number: how a time is written depends on settings.
_STARTED = "CAST(extract(epoch FROM backend_start) * 1000000 AS bigint)"
_SESSION = f"SELECT pid, {_STARTED} FROM pg_stat_get_activity(pg_backend_pid())"  # noqa: S608
# How each session works, whatever the defaults of the server, the database and the role are.
SETTINGS = {
    # A statement outside of a transaction has this level; a transaction names its own.
    "default_transaction_isolation": "read committed",
    # How values are written and read.
    "TimeZone": "UTC",
    "DateStyle": "ISO, MDY",
    "intervalstyle": "postgres",
    "bytea_output": "hex",
    "extra_float_digits": "1",
    "standard_conforming_strings": "on",
    "array_nulls": "on",
    "transform_null_equals": "off",
    # Rows that a policy hides are an error: a list without them would look whole.
    "row_security": "off",
    # A page of a list reads some hundred rows by keys. Where the planner expects many, the compiler of expressions
    # starts, and takes several times as long as the statement.
    "jit": "off",
    # A statement may wait for a lock, or be long; one with a limit sets its own.
    "statement_timeout": "0",
    "lock_timeout": "0",
    # A pool keeps its connections.
    "idle_session_timeout": "0",
    "transaction_timeout": "0",
}
# Those that the server reports to the client, so that a pooler knows them.
REPORTED = ("TimeZone", "DateStyle", "standard_conforming_strings")
BY_KEYS = {"plan_cache_mode": "force_generic_plan", "enable_seqscan": "off"}
# A server before version 17 does not know all of them.
_SET = (
    "SELECT count(set_config(name, value, {0})) FROM unnest({1}, {2}) AS wanted (name, value)"
    " WHERE current_setting(name, true) IS NOT NULL"
)
_SET_SESSION = _SET.format("false", "%s::text[]", "%s::text[]")
_LOCAL = _SET.format("true", "CAST(:names AS text[])", "CAST(:values AS text[])")
_SET_LOCAL = sa.text(
    f"SELECT ({_LOCAL}), pid, {_STARTED} FROM pg_stat_get_activity(pg_backend_pid())"  # noqa: S608
)
_OWN = f"FROM pg_stat_activity WHERE pid = %s AND {_STARTED} = %s"
# A session that waits for its client does not work on a statement.
_WORKS = f"SELECT 1 {_OWN} AND state = 'active' AND wait_event_type IS DISTINCT FROM 'Client'"  # noqa: S608
_END = f"SELECT pg_terminate_backend(pid) {_OWN}"


class WatchedConnection(PipelinedConnection):
    """A connection whose waits are watched. ``session`` identifies it on the server; None where that is unknown."""

    watch: AnswerWatch | None = None
    session: tuple[int, Any] | None = None

    def wait(self, gen: Any, *args: Any, **options: Any) -> Any:  # pyright: ignore[reportIncompatibleMethodOverride]
        """Run a request of the driver to its end."""
        watched = gen if self.watch is None else _watched(gen, self, self.watch)
        return super().wait(watched, *args, **options)


class AnswerWatch:
    """Decides about statements without an answer. One for all connections of a pool."""

    def __init__(self, seconds: float = ANSWER_SECONDS) -> None:
        self.seconds = seconds
        self.given_up = False
        # True when a pooler gives each transaction another session.
        self.pooled = False
        self._reconnect: Callable[[], WatchedConnection] | None = None

    def connect(self, *args: Any, **options: Any) -> WatchedConnection:
        """Open a watched connection, as the driver's own function does."""
        quick = options | {"connect_timeout": max(2, round(self.seconds))}
        self._reconnect = lambda: WatchedConnection.connect(*args, autocommit=True, **quick)
        connection = WatchedConnection.connect(*args, autocommit=True, **options)
        connection.watch = self
        return connection

    def look(self, connection: WatchedConnection, silence: _Silence) -> None:
        """Ask about a statement when it is time. Raises :class:`psycopg.OperationalError` when it has no answer."""
        if self.given_up and time.monotonic() - silence.since > LAST_SECONDS:
            _fail(connection, "this process ends, and waits for no answer")
        if time.monotonic() < silence.look_at:
            return
        works = self._works(connection.session, end=silence.doubts > 0)
        now = time.monotonic()
        if works is None:
            if now - silence.since > self.seconds * UNREACHABLE_FACTOR:
                _fail(connection, f"no answer for {now - silence.since:.0f} s, on a new connection neither")
            silence.look_at = now + self.seconds
        elif works:
            silence.doubts, silence.look_at = 0, now + self.seconds
        elif silence.doubts:
            _fail(
                connection,
                f"no answer for {now - silence.since:.0f} s, and the server does not work on the statement",
            )
        else:
            silence.doubts, silence.look_at = 1, now + CONFIRM_SECONDS

    def _works(self, session: tuple[int, Any] | None, *, end: bool) -> bool | None:
        """Ask the server whether a session works on a statement; ``end`` ends one that does not. None without an
        answer.
        """
        assert self._reconnect is not None
        try:
            with contextlib.closing(self._reconnect()) as connection:
                connection.watch = _Deadline(self.seconds)
                if session is None:
                    connection.execute("SELECT 1", prepare=False)
                    return False
                works = connection.execute(_WORKS, session, prepare=False).fetchone() is not None
                if end and not works:
                    connection.execute(_END, session, prepare=False)
                return works
        except psycopg.Error:
            return None


class _Deadline(AnswerWatch):
    """The watch of the connection that asks: it does not ask again."""

    def look(self, connection: WatchedConnection, silence: _Silence) -> None:
        if time.monotonic() - silence.since > self.seconds:
            _fail(connection, "no answer")


class _Silence:
    """A wait for an answer: since when, when to ask the server next, and how often it has said no."""

    def __init__(self, seconds: float) -> None:
        self.since = time.monotonic()
        self.look_at = self.since + seconds
        self.doubts = 0


def _watched(gen: Any, connection: WatchedConnection, watch: AnswerWatch) -> Generator[Any, Any, Any]:
    """Pass a request of the driver on. The driver sends 0 ten times a second while nothing comes."""
    silence: _Silence | None = None
    try:
        awaited = next(gen)
        while True:
            ready = yield awaited
            if ready:
                silence = None
            else:
                silence = silence or _Silence(watch.seconds)
                watch.look(connection, silence)
            awaited = gen.send(ready)
    except StopIteration as end:
        return end.value


def _fail(connection: WatchedConnection, reason: str) -> None:
    connection.close()
    raise psycopg.OperationalError(reason)


def create_engine(
    url: URL, watch: AnswerWatch, pool_size: int, idle_seconds: float, *, by_keys: bool = False
) -> Engine:
    """Return the pool of one process. A session that is idle inside a transaction ends after ``idle_seconds``.

    ``by_keys``: its statements find their rows by keys.
    """
    options = {name: value for name, value in TCP_OPTIONS.items() if name not in url.query}
    engine = sa.create_engine(
        url,
        pool_size=pool_size,
        max_overflow=SPARE_CONNECTIONS,
        pool_pre_ping=True,
        pool_timeout=30,
        # Parameters contain inputs and results, which must not appear in error messages.
        hide_parameters=True,
        # Or the first connection of every process asks the server for a type that no column has.
        use_native_hstore=False,
        connect_args=options | {"application_name": "functory", "client_encoding": "UTF8"},
    )

    def connect(_dialect: Any, _record: Any, args: Any, parameters: dict[str, Any]) -> WatchedConnection:
        return watch.connect(*args, **parameters)

    def prepare(connection: WatchedConnection, _record: Any) -> None:
        # Ids are texts here: a UUID object of each would be made and turned into a text again.
        connection.adapters.register_loader("uuid", TextLoader)
        session = connection.execute(_SESSION, prepare=False).fetchone()
        assert session is not None
        if session[0] == connection.info.backend_pid:
            connection.session = session
            wanted = _settings(idle_seconds) | (BY_KEYS if by_keys else {})
            connection.execute(_SET_SESSION, [list(wanted), list(wanted.values())], prepare=False)
            connection.keeps_plans = by_keys
        else:
            # The pooler's own number: the next transaction may have another session.
            connection.prepare_threshold = None
            watch.pooled = True
            # The pooler passes these on for each client, and values come outside of transactions, too.
            info = connection.info
            wanted = {
                name: SETTINGS[name] for name in REPORTED if info.parameter_status(name) != SETTINGS[name]
            }
            if wanted:
                connection.execute(_SET_SESSION, [list(wanted), list(wanted.values())], prepare=False)

    def is_alive(connection: WatchedConnection) -> bool:
        idle = time.monotonic() - connection.answered_at
        quiet = idle < PING_SECONDS and not connection.closed and not connection.has_input()
        return quiet or ask(connection)

    dialect: Any = engine.dialect
    # Called by SQLAlchemy whenever a transaction begins, and when a connection leaves the pool.
    dialect.do_begin = lambda connection: connection.driver_connection.begin()
    ask, dialect.do_ping = dialect.do_ping, is_alive
    hooks.listen(engine, "do_connect", connect)
    hooks.listen(engine, "connect", prepare)
    hooks.listen(engine, "handle_error", discard_useless_connection)
    return engine


def begin_pooled(connection: Connection, idle_seconds: float) -> None:
    """Set what a session would keep, for the transaction that begins, and note its session."""
    wanted = _settings(idle_seconds)
    values = {"names": list(wanted), "values": list(wanted.values())}
    _, pid, start = connection.execute(_SET_LOCAL, values).one()
    driver_connection(connection).session = pid, start


def end_pooled(connection: Connection) -> None:
    """Forget the session of the transaction that has ended."""
    if not connection.invalidated and not connection.closed:
        driver_connection(connection).session = None


def _settings(idle_seconds: float) -> dict[str, str]:
    return SETTINGS | {"idle_in_transaction_session_timeout": str(round(idle_seconds * 1000))}


@contextlib.contextmanager
def without_transaction(connection: Connection) -> Iterator[None]:
    """Let SQLAlchemy's transactions in the block be none of the server: each statement is one by itself."""
    driver = driver_connection(connection)
    driver.autocommit = True
    try:
        yield
    finally:
        driver.autocommit = False


def driver_connection(connection: Connection) -> WatchedConnection:
    found: Any = connection.connection.driver_connection
    return found

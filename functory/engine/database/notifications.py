"""Wake-ups between processes: LISTEN/NOTIFY on PostgreSQL, polling of ``data_version`` on SQLite.

``functory.engine.database.connection`` starts both. A lost notification delays work by at most one poll interval.
"""

from __future__ import annotations

import select
import threading
import time
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa
import structlog
from sqlalchemy.engine import Connection
from sqlalchemy.exc import SQLAlchemyError

from functory.engine.database.wakeups import TOPICS

if TYPE_CHECKING:
    from functory.engine.database.connection import Database

log = structlog.get_logger("functory.database")

CHANNEL = "functory_wakeup"
# SQLite: interval (seconds) of polling for commits of other processes. The promise is 200 ms.
DATA_VERSION_POLL_SECONDS = 0.05
# Factor of the poll interval of roles while wake-ups of other processes arrive. A change of the file version cannot be
# missed; a NOTIFY can, when its sender has lost its connection.
SQLITE_POLL_MULTIPLIER, POSTGRES_POLL_MULTIPLIER = 10.0, 4.0
# PostgreSQL: a listening connection without notifications is tried this often (seconds).
QUIET_SECONDS = 10.0
# PostgreSQL: minimum time (seconds) between two NOTIFY of one process.
NOTIFY_SECONDS = 0.003


class Notifier:
    """Sends ``NOTIFY`` from a thread of its own, at most once in a few milliseconds."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._topics: set[str] = set()
        self._condition = threading.Condition()
        self._stopping = False
        self._thread = threading.Thread(target=self._run, name="functory-notify", daemon=True)
        self._thread.start()

    def send(self, topics: Iterable[str]) -> None:
        with self._condition:
            self._topics.update(topics)
            self._condition.notify()

    def stop(self) -> None:
        """Send pending topics, then end."""
        with self._condition:
            self._stopping = True
            self._condition.notify()
        self._thread.join(timeout=5)

    def _run(self) -> None:
        connection: Connection | None = None
        while True:
            with self._condition:
                while not self._topics and not self._stopping:
                    self._condition.wait()
                topics, self._topics = self._topics, set()
            if not topics:
                break
            try:
                if connection is None:
                    connection = self._database.engine.connect().execution_options(
                        isolation_level="AUTOCOMMIT"
                    )
                connection.execute(sa.select(sa.func.pg_notify(CHANNEL, ",".join(sorted(topics)))))
            except SQLAlchemyError:
                # A lost wake-up costs one poll interval; the next one takes a new connection.
                if connection is not None:
                    connection.invalidate()
                    connection.close()
                connection = None
            time.sleep(NOTIFY_SECONDS)
        if connection is not None:
            connection.close()


class WakeupListener(threading.Thread):
    """Receives wake-ups of other processes: ``LISTEN`` on PostgreSQL, ``data_version`` of the file on SQLite."""

    def __init__(self, database: Database) -> None:
        super().__init__(name="functory-wakeup", daemon=True)
        self._database = database
        self._ended = threading.Event()

    def stop(self) -> None:
        self._ended.set()
        self.join(timeout=5)

    def run(self) -> None:
        while not self._ended.is_set():
            try:
                if self._database.dialect != "postgresql":
                    with self._database.engine.connect() as connection:
                        self._poll_data_version(connection)
                elif self._database.keeps_sessions:
                    with self._database.direct_engine.connect() as connection:
                        self._listen(connection)
                else:
                    log.warning(
                        "no wake-ups through a pooler, polling",
                        hint="set FUNCTORY_DATABASE_DIRECT_URL to the database itself",
                    )
                    self._ended.wait()
            except Exception:
                # After any driver error, roles fall back to their own poll interval.
                self._database.wakeup.poll_multiplier = 1.0
                self._database.wakeup.signal(TOPICS)
                self._ended.wait(1.0)
        self._database.wakeup.poll_multiplier = 1.0

    def _listen(self, connection: Connection) -> None:
        raw: Any = connection.connection.driver_connection
        raw.autocommit = True
        try:
            raw.execute(f"LISTEN {CHANNEL}")
            self._database.wakeup.poll_multiplier = POSTGRES_POLL_MULTIPLIER
            # Not select(): it refuses file descriptors from 1024 on.
            readable = select.poll()
            readable.register(raw.fileno(), select.POLLIN)
            quiet_since = time.monotonic()
            while not self._ended.is_set():
                if readable.poll(500):
                    for note in raw.notifies(timeout=0):
                        self._database.wakeup.signal(t for t in note.payload.split(",") if t)
                    quiet_since = time.monotonic()
                elif time.monotonic() - quiet_since > QUIET_SECONDS:
                    # Nothing comes on a connection that is lost without a sign, either. What came meanwhile is unknown.
                    raw.execute("SELECT 1")
                    self._database.wakeup.signal(TOPICS)
                    quiet_since = time.monotonic()
        finally:
            # A listening connection must not go back into the pool.
            connection.invalidate()

    def _poll_data_version(self, connection: Connection) -> None:
        cursor = connection.connection.cursor()
        try:
            seen = None
            while not self._ended.wait(DATA_VERSION_POLL_SECONDS):
                self._database.check_file()
                cursor.execute("PRAGMA data_version")
                (version,) = cursor.fetchone() or (None,)
                self._database.wakeup.poll_multiplier = SQLITE_POLL_MULTIPLIER
                if seen is not None and version != seen:
                    self._database.wakeup.signal(TOPICS)
                seen = version
        finally:
            cursor.close()

"""Wake-ups between processes: LISTEN/NOTIFY on PostgreSQL, polling of ``data_version`` on SQLite.

``functory.engine.database.connection`` starts both. A lost notification delays work by at most one poll interval.
"""

from __future__ import annotations

import math
import os
import secrets
import select
import threading
import time
import weakref
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa
import structlog
from sqlalchemy.engine import Connection
from sqlalchemy.exc import SQLAlchemyError

from functory.engine import threads
from functory.engine.database.transaction import Tx
from functory.engine.database.wakeups import CHANNEL, TOPICS, channel

if TYPE_CHECKING:
    from functory.engine.database.connection import Database

log = structlog.get_logger("functory.database")

# SQLite: interval (seconds) of polling for commits of other processes. The promise is 200 ms.
DATA_VERSION_POLL_SECONDS = 0.05
# Factor of the poll interval of roles while wake-ups of other processes arrive. A change of the file version cannot be
# missed, and a NOTIFY goes out with its commit. It is missed only while the listener has no connection, and then the
# factor is 1.
SQLITE_POLL_MULTIPLIER, POSTGRES_POLL_MULTIPLIER = 10.0, 10.0
# PostgreSQL: a listening connection without notifications is tried this often (seconds). The kernel finds a peer that
# does not answer much earlier (keepalives); this finds one behind a proxy, which answers for it.
QUIET_SECONDS = 60.0
# PostgreSQL: minimum time (seconds) between two NOTIFY of one process for the same topics.
NOTIFY_SECONDS = 0.003


class Notifier:
    """Decides when the wake-ups of one process are sent: with the transaction that causes them, or, when one has just
    been sent for the same topics, a few milliseconds later from a thread of its own.

    ``sender`` marks the wake-ups of this process, which need not wake it again.
    """

    def __init__(self, database: Database, *, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._database = database
        self.sender = secrets.token_hex(6)
        self._monotonic = monotonic
        # When each topic was last sent, in monotonic seconds.
        self._sent_at: dict[str, float] = {}
        self._topics: set[str] = set()
        self._condition = threading.Condition()
        self._stopping = False
        self._thread: threading.Thread | None = None

    def before_commit(self, tx: Tx) -> None:
        """Let the commit of ``tx`` send its wake-ups to other processes, unless the same were sent just before."""
        if not tx.topics or tx.dialect != "postgresql":
            return
        now = self._monotonic()
        with self._condition:
            if all(now - self._sent_at.get(topic, -math.inf) < NOTIFY_SECONDS for topic in tx.topics):
                return
            self._sent_at.update(dict.fromkeys(tx.topics, now))
        driver: Any = tx.connection.connection.driver_connection
        driver.notification = self.sender, ",".join(sorted(tx.topics))
        tx.notified = True

    def after_commit(self, tx: Tx) -> None:
        """Wake this process for ``tx``, and soon the others, unless the commit has done so."""
        if tx.topics:
            self._database.wakeup.signal(tx.topics)
            if tx.dialect == "postgresql" and not tx.notified:
                self._send_soon(tx.topics)

    def _send_soon(self, topics: Iterable[str]) -> None:
        with self._condition:
            self._topics.update(topics)
            if self._thread is None:
                # Without one, the others poll, and the next commit asks again.
                self._thread = threads.try_start(self._run, "functory-notify")
            self._condition.notify()

    def stop(self) -> None:
        """Send pending topics, then end."""
        with self._condition:
            self._stopping = True
            self._condition.notify()
        if self._thread is not None:
            self._thread.join(timeout=5)

    def _run(self) -> None:
        connection: Connection | None = None
        while True:
            with self._condition:
                while not self._topics and not self._stopping:
                    self._condition.wait()
                if not self._topics:
                    break
            time.sleep(NOTIFY_SECONDS)
            with self._condition:
                topics, self._topics = self._topics, set()
                self._sent_at.update(dict.fromkeys(topics, self._monotonic()))
            try:
                if connection is None:
                    connection = self._database.engine.connect().execution_options(
                        isolation_level="AUTOCOMMIT"
                    )
                connection.execute(
                    sa.select(*(sa.func.pg_notify(channel(topic), self.sender) for topic in sorted(topics)))
                )
            except SQLAlchemyError:
                # A lost wake-up costs one poll interval; the next one takes a new connection.
                if connection is not None:
                    connection.invalidate()
                    connection.close()
                connection = None
        if connection is not None:
            connection.close()


def topics_of(to: str, payload: str, own: str) -> list[str]:
    """Return the topics of a NOTIFY to the channel ``to``; none for one of the sender ``own``.

    The payload of a topic's channel is the sender. That of the channel of all topics are the topics, without a sender:
    triggers of captured tables use it.
    """
    if to == CHANNEL:
        return payload.split(",")
    return [] if payload == own else [to.removeprefix(f"{CHANNEL}_")]


class WakeupListener(threading.Thread):
    """Receives wake-ups of other processes: ``LISTEN`` on PostgreSQL, ``data_version`` of the file on SQLite.

    On PostgreSQL only those of the topics that this process waits for: to be woken costs more than most statements.
    """

    def __init__(self, database: Database, sender: str) -> None:
        super().__init__(name="functory-wakeup", daemon=True)
        self._database = database
        self._sender = sender
        self._ended = threading.Event()
        # Written to when there is a new topic to listen for.
        self._changed = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        # Not by stop(): another thread may be about to write.
        weakref.finalize(self, os.close, self._changed)
        database.wakeup.on_wanted = lambda: os.eventfd_write(self._changed, 1)

    def stop(self) -> None:
        self._ended.set()
        os.eventfd_write(self._changed, 1)
        self.join(timeout=5)
        self._database.wakeup.on_wanted = lambda: None

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
        wakeup = self._database.wakeup
        heard: set[str] = set()
        try:
            raw.execute(f"LISTEN {CHANNEL}")
            # Not select(): it refuses file descriptors from 1024 on.
            readable = select.poll()
            readable.register(raw.fileno(), select.POLLIN)
            readable.register(self._changed, select.POLLIN)
            quiet_since = time.monotonic()
            while not self._ended.is_set():
                if new := wakeup.wanted - heard:
                    raw.execute(";".join(f"LISTEN {channel(topic)}" for topic in sorted(new)))
                    heard |= new
                    wakeup.poll_multiplier = POSTGRES_POLL_MULTIPLIER
                    # What came before it is unknown.
                    wakeup.signal(new)
                if not (ready := readable.poll(500)):
                    if time.monotonic() - quiet_since <= QUIET_SECONDS:
                        continue
                    # Nothing comes on a connection that is lost without a sign, either. What came before the answer is
                    # read below.
                    raw.execute("SELECT 1")
                if any(fd == self._changed for fd, _ in ready):
                    os.eventfd_read(self._changed)
                for note in raw.notifies(timeout=0):
                    wakeup.signal(topics_of(note.channel, note.payload, self._sender))
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

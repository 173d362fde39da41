"""A PostgreSQL server that does not answer: half-open, swallowed and reset connections; slow statements."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import pytest
import sqlalchemy as sa

from functory.engine.database import postgres_connections, schema
from functory.engine.database.connection import Database
from functory.engine.errors import Unavailable
from tests.services.faulty_proxy import FaultyProxy
from tests.support.patience import patient
from tests.support.waiting import wait_for

pytest_plugins = ["tests.support.world"]
pytestmark = [pytest.mark.postgres, pytest.mark.timeout(300)]

SECONDS = 0.5

# The messages of the server's protocol (PostgreSQL manual, section 55.7): ready, with the state of the transaction
# behind it, and the error of a session that ends.
READY = b"Z\0\0\0\x05"
_FIELDS = b"SFATAL\0VFATAL\0C57P01\0Mthe server ends\0\0"
ENDED = b"E" + (4 + len(_FIELDS)).to_bytes(4, "big") + _FIELDS


@pytest.fixture
def proxy(emptied_postgres: str) -> Iterator[FaultyProxy]:
    with FaultyProxy(emptied_postgres) as found:
        yield found


@pytest.fixture
def database(proxy: FaultyProxy) -> Iterator[Database]:
    """A database behind the proxy, with an open connection."""
    found = Database(proxy.url, answer_seconds=SECONDS)
    found.ping()
    yield found
    found.give_up()
    found.close()


def add(database: Database, name: str) -> None:
    with database.write() as tx:
        tx.insert(schema.counter, [{"name": name, "value": 1}])


def names(url: str) -> set[str]:
    beside = Database(url)
    with beside.read() as tx:
        found = set(tx.execute(sa.select(schema.counter.c.name)).scalars())
    beside.close()
    return found


def test_a_half_open_connection_of_the_pool_is_replaced(
    database: Database, proxy: FaultyProxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    add(database, "before")
    assert proxy.half_open()
    # The pool tries a connection before it gives it to a transaction, when its last answer is old.
    monkeypatch.setattr(postgres_connections, "PING_SECONDS", 0.0)
    add(database, "after")
    assert {"before", "after"} <= names(proxy.url)


def test_a_transaction_on_a_half_open_connection_fails_and_its_locks_are_freed(
    database: Database, proxy: FaultyProxy, emptied_postgres: str
) -> None:
    add(database, "row")
    row = sa.update(schema.counter).where(schema.counter.c.name == "row")
    beside = Database(emptied_postgres)
    with pytest.raises(Unavailable, match="no answer"), database.write() as tx:
        tx.execute(row.values(value=2))
        proxy.half_open()
        tx.execute(row.values(value=3))
    # The server ended the session: its lock would be kept for the 30 s of an idle transaction otherwise.
    with beside.write() as tx:
        tx.execute(sa.text("SET LOCAL lock_timeout = '5s'"))
        tx.execute(row.values(value=4))
    beside.close()
    add(database, "after")


def test_a_session_that_ends_inside_a_piece_says_why_and_is_dropped_quietly(
    database: Database, proxy: FaultyProxy, caplog: pytest.LogCaptureFixture
) -> None:
    # The connection stays open, as it does shortly after the death of the server's first process.
    proxy.rewrite(lambda data: data.replace(READY + b"T", ENDED))
    with pytest.raises(Unavailable, match="the server ends"), database.write() as tx:
        tx.rows(sa.select(schema.counter.c.name))
    assert not caplog.records
    proxy.heal()
    add(database, "after")
    assert names(proxy.url) == {"after"}


def test_a_session_that_ends_right_after_a_commit_has_committed_and_is_dropped_quietly(
    database: Database, proxy: FaultyProxy, caplog: pytest.LogCaptureFixture
) -> None:
    proxy.rewrite(lambda data: data.replace(READY + b"I", ENDED))
    with database.write() as tx:
        tx.execute(sa.insert(schema.counter).values(name="first", value=1))
        tx.insert(schema.counter, [{"name": "second", "value": 1}])
    proxy.heal()
    add(database, "after")
    assert not caplog.records
    assert names(proxy.url) == {"first", "second", "after"}


def test_a_statement_that_the_server_works_on_has_no_limit(database: Database, emptied_postgres: str) -> None:
    add(database, "row")
    row = sa.update(schema.counter).where(schema.counter.c.name == "row")
    beside, locked, free = Database(emptied_postgres), threading.Event(), threading.Event()

    def hold() -> None:
        with beside.write() as tx:
            tx.execute(row.values(value=2))
            locked.set()
            free.wait(patient(60))

    holder = threading.Thread(target=hold)
    holder.start()
    assert locked.wait(patient(60))
    # Several times as long as the seconds after which the server is asked.
    threading.Timer(SECONDS * 6, free.set).start()
    with database.write() as tx:
        tx.execute(row.values(value=sa.func.length(sa.literal("abc"))))
    holder.join()
    with database.read() as tx:
        assert tx.scalar(sa.select(schema.counter.c.value).where(schema.counter.c.name == "row")) == 3
        assert tx.scalar(sa.select(sa.func.pg_sleep(SECONDS * 4))) is not None
    beside.close()


def test_while_nothing_comes_through_a_statement_fails_in_the_end(
    database: Database, proxy: FaultyProxy
) -> None:
    proxy.swallow()
    with pytest.raises(Unavailable, match=r"no answer|timeout|could not be made|connection"):
        database.ping()
    proxy.heal()
    database.ping()


def test_a_process_that_ends_waits_for_no_answer(proxy: FaultyProxy) -> None:
    database = Database(proxy.url, answer_seconds=60)
    failed: list[Exception] = []
    silent = threading.Event()

    def wait() -> None:
        try:
            with database.read() as tx:
                tx.scalar(sa.text("SELECT 1"))
                proxy.half_open()
                silent.set()
                tx.scalar(sa.text("SELECT 2"))
        except Unavailable as error:
            failed.append(error)

    waiting = threading.Thread(target=wait, daemon=True)
    waiting.start()
    assert silent.wait(patient(60))
    database.give_up()
    waiting.join(patient(60))
    assert failed and not waiting.is_alive()
    database.close()


def test_resets_are_survived(database: Database, proxy: FaultyProxy) -> None:
    for n in range(3):
        proxy.reset()
        add(database, f"after {n}")


def test_wake_ups_come_again_after_a_half_open_connection(
    database: Database, proxy: FaultyProxy, emptied_postgres: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("functory.engine.database.notifications.QUIET_SECONDS", 0.5)
    beside = Database(emptied_postgres)
    database.listen_for_wakeups()

    def heard() -> bool:
        seen = database.wakeup.generation("events")
        with beside.write() as tx:
            tx.wake("events")
        # Shorter than the time after which a silent connection is tried.
        return database.wakeup.wait("events", seen, 0.2) != seen

    wait_for(heard, "a wake-up")
    proxy.half_open()
    listeners = sa.text(
        "SELECT count(*) FROM pg_stat_activity WHERE query LIKE 'LISTEN%' AND datname = current_database()"
    )
    wait_for(lambda: _count(beside, listeners) == 1, "one living listener")
    wait_for(heard, "a wake-up on a new connection")
    beside.close()


def _count(database: Database, statement: Any) -> int:
    with database.read() as tx:
        return tx.scalar(statement)

"""Transactions of few statements on PostgreSQL: what waits for an answer, what is sent together, and what errors do."""

import threading
from collections.abc import Iterator

import psycopg
import pytest
import sqlalchemy as sa

from functory.engine.database import notifications, schema
from functory.engine.database.connection import Database
from functory.engine.database.wakeups import TOPICS, channel
from functory.engine.errors import Uncertain
from functory.engine.events.store import Events
from functory.engine.executions.store import Executions
from functory.engine.functions.registry import Functions
from functory.engine.settings import Settings
from tests.services.tcp_proxy import Door
from tests.support.waiting import wait_for

pytest_plugins = ["tests.support.world"]
pytestmark = pytest.mark.postgres


@pytest.fixture
def door(emptied_postgres: str) -> Iterator[Door]:
    with Door(emptied_postgres) as found:
        found.open()
        yield found


@pytest.fixture
def database(door: Door, monkeypatch: pytest.MonkeyPatch) -> Iterator[Database]:
    """A database behind a proxy that counts round trips; its connection is open, and its clock is known."""
    # Each commit sends its wake-up itself: one that follows later would be a round trip of another test.
    monkeypatch.setattr(notifications, "NOTIFY_SECONDS", 0.0)
    found = Database(door.url)
    for _ in range(8):
        # A statement that is used often gets prepared, with a round trip of its own the first time.
        Events(found).emit("warm.up")
    yield found
    found.close()


@pytest.fixture
def listener(emptied_postgres: str) -> Iterator[psycopg.Connection]:
    with psycopg.connect(emptied_postgres.replace("+psycopg", ""), autocommit=True) as found:
        for topic in TOPICS:
            found.execute(f"LISTEN {channel(topic)}")
        yield found


def counter(name: str) -> dict[str, object]:
    return {"name": name, "value": 1}


def stored(url: str) -> set[str]:
    beside = Database(url)
    with beside.read() as tx:
        names = set(tx.execute(sa.select(schema.counter.c.name)).scalars())
    beside.close()
    return names


def heard(listener: psycopg.Connection, seconds: float = 0.2) -> list[str]:
    return [note.channel.rpartition("_")[2] for note in listener.notifies(timeout=seconds)]


def test_one_event_is_one_round_trip(database: Database, door: Door) -> None:
    before = door.round_trips
    Events(database).emit("order.created", {"sku": "A1"})
    assert door.round_trips - before == 1


def test_a_read_of_one_statement_is_one_round_trip(database: Database, door: Door) -> None:
    before = door.round_trips
    with database.read() as tx:
        tx.scalar(sa.select(sa.func.count()).select_from(schema.counter))
    assert door.round_trips - before == 1


def test_a_transaction_without_statements_asks_the_server_nothing(database: Database, door: Door) -> None:
    before = door.round_trips
    with database.write():
        pass
    assert door.round_trips == before


def test_a_start_waits_for_its_reads_and_its_commit_only(database: Database, door: Door) -> None:
    Functions(database).save("def work(): ...\n")
    executions = Executions(database, Settings())
    for _ in range(8):
        executions.start("work", {})
    before = door.round_trips
    executions.start("work", {})
    # The version, and the commit with both rows and the wake-up.
    assert door.round_trips - before == 2
    executions.start("work", {}, idempotency_key="k")
    assert executions.start("work", {}, idempotency_key="k") == executions.start(
        "work", {}, idempotency_key="k"
    )


@pytest.mark.parametrize("wake", [(), ("flow",)])
def test_a_single_statement_with_its_wakeup_is_one_round_trip(
    database: Database, door: Door, listener: psycopg.Connection, wake: tuple[str, ...]
) -> None:
    heard(listener)
    statement = (
        "INSERT INTO counter (name, value) VALUES (:name, CAST(:value AS bigint)) RETURNING name, value"
    )
    for turn in range(6):
        database.single(statement, {"name": f"before {turn}", "value": 7}, wake=wake)
    before = door.round_trips
    assert database.single(statement, {"name": "one", "value": 7}, wake=wake) == [("one", 7)]
    assert door.round_trips - before == 1
    assert "one" in stored(door.url)
    assert ("flow" in heard(listener)) == bool(wake)
    with pytest.raises(sa.exc.IntegrityError):
        database.single(statement, {"name": "one", "value": 8}, wake=wake)


def test_rows_of_a_statement_that_waits_are_there_after_the_commit(database: Database, door: Door) -> None:
    before = door.round_trips
    with database.write() as tx:
        tx.insert(schema.counter, [counter("two")])
        found = tx.later("SELECT value FROM counter WHERE name = :name", {"name": "two"})
        nothing = tx.later("DELETE FROM counter WHERE name = :name", {"name": "two"})
    assert (found(), nothing()) == ([(1,)], [])
    assert door.round_trips - before <= 1
    assert "two" not in stored(door.url)


def test_a_single_statement_whose_connection_is_cut_has_an_unknown_outcome(
    database: Database, door: Door
) -> None:
    with pytest.raises(Uncertain), database.write() as tx:
        tx.later("SELECT pg_sleep(60)")
        tx.insert(schema.counter, [counter("cut")])
        threading.Timer(0.3, door.close).start()


def test_an_error_of_an_insert_comes_with_the_commit_and_nothing_is_stored(
    database: Database, door: Door
) -> None:
    with database.write() as tx:
        tx.insert(schema.counter, [counter("taken")])
    with pytest.raises(sa.exc.IntegrityError), database.write() as tx:
        tx.insert(schema.counter, [counter("first")])
        tx.insert(schema.counter, [counter("taken")])
    assert "first" not in stored(door.url)
    # The connection is good for the next transaction.
    with database.write() as tx:
        tx.insert(schema.counter, [counter("after")])
    assert "after" in stored(door.url)


def test_a_statement_sees_the_inserts_before_it(database: Database) -> None:
    with database.write() as tx:
        tx.insert(schema.counter, [counter("seen")])
        assert tx.scalar(sa.select(schema.counter.c.value).where(schema.counter.c.name == "seen")) == 1
        tx.insert(schema.counter, [counter(f"many {n}") for n in range(9)])
        assert tx.execute(sa.delete(schema.counter).where(schema.counter.c.name.like("many %"))).rowcount == 9


def test_a_transaction_that_is_rolled_back_leaves_nothing(database: Database, door: Door) -> None:
    with pytest.raises(ZeroDivisionError), database.write() as tx:
        tx.insert(schema.counter, [counter("gone")])
        raise ZeroDivisionError
    with database.write() as tx:
        tx.insert(schema.counter, [counter("kept")])
    assert "gone" not in stored(door.url)
    assert "kept" in stored(door.url)


@pytest.mark.parametrize("how", ["insert", "python", "nul"])
def test_a_savepoint_undoes_only_its_own_part(database: Database, door: Door, how: str) -> None:
    with database.write() as tx:
        tx.insert(schema.counter, [counter("taken")])
    with database.write() as tx:
        tx.insert(schema.counter, [counter("before")])
        with pytest.raises((sa.exc.DBAPIError, ZeroDivisionError)), tx.savepoint():
            tx.insert(schema.counter, [counter("part")])
            tx.insert(schema.counter, [counter("a\x00b" if how == "nul" else f"{how}")])
            if how == "insert":
                tx.insert(schema.counter, [counter("taken")])
            if how == "python":
                raise ZeroDivisionError
        with tx.savepoint():
            tx.insert(schema.counter, [counter("second part")])
        tx.insert(schema.counter, [counter("after")])
    assert {"before", "second part", "after"} <= stored(door.url)
    assert "part" not in stored(door.url)


def test_a_wakeup_follows_its_commit_and_a_failure_sends_none(
    database: Database, listener: psycopg.Connection
) -> None:
    heard(listener)
    with database.write() as tx:
        tx.insert(schema.counter, [counter("loud")])
        tx.wake("flow", "sources")
    assert sorted(heard(listener)) == ["flow", "sources"]
    with pytest.raises(sa.exc.IntegrityError), database.write() as tx:
        tx.insert(schema.counter, [counter("loud")])
        tx.wake("sagas")
    assert heard(listener) == []


def test_many_wakeups_share_notifications_and_the_last_one_is_never_lost(
    database: Database, listener: psycopg.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    heard(listener)
    # Longer than it takes to write some of them on a busy machine.
    monkeypatch.setattr(notifications, "NOTIFY_SECONDS", 0.5)
    for _ in range(30):
        with database.write() as tx:
            tx.wake("flow")
    with database.write() as tx:
        tx.wake("sagas")
    found = heard(listener, 1.5)
    assert 1 <= found.count("flow") < 30
    assert "sagas" in found


def test_a_process_is_not_woken_again_by_its_own_wakeups(door: Door) -> None:
    own, other = Database(door.url), Database(door.url)
    try:
        own.listen_for_wakeups()

        def hears() -> bool:
            before = own.wakeup.generation("flow")
            with other.write() as tx:
                tx.wake("flow")
            return own.wakeup.wait("flow", before, 0.5) != before

        wait_for(hears)
        before = own.wakeup.generation("sagas")
        # The first one signals that this process listens for the topic now.
        before = own.wakeup.wait("sagas", before, 10)
        with own.write() as tx:
            tx.wake("sagas")
        # What the server tells this process comes before the answer to the other one.
        wait_for(hears)
        assert own.wakeup.generation("sagas") == before + 1
    finally:
        own.close()
        other.close()


def test_a_process_hears_only_what_it_waits_for(door: Door, listener: psycopg.Connection) -> None:
    own = Database(door.url)
    try:
        own.listen_for_wakeups()
        own.wakeup.generation("flow")

        def listens_for() -> list[str]:
            rows = listener.execute(
                "SELECT query FROM pg_stat_activity WHERE query LIKE 'LISTEN %' AND pid <> pg_backend_pid() "
                "AND datname = current_database()"
            )
            return [row[0] for row in rows.fetchall()]

        wait_for(lambda: listens_for() == [f"LISTEN {channel('flow')}"])
        own.wakeup.generation("finished")
        wait_for(lambda: listens_for() == [f"LISTEN {channel('finished')}"])
    finally:
        own.close()


def test_a_notification_without_a_sender_wakes_too(door: Door, listener: psycopg.Connection) -> None:
    own = Database(door.url)
    try:
        own.listen_for_wakeups()
        before = own.wakeup.generation("flow")

        def is_woken() -> bool:
            listener.execute("SELECT pg_notify('functory_wakeup', 'flow')")
            return own.wakeup.wait("flow", before, 0.1) != before

        wait_for(lambda: own.wakeup.poll_multiplier > 1)
        before = own.wakeup.wait("flow", before, 0.2)
        wait_for(is_woken)
    finally:
        own.close()

"""A limit of the time of reading transactions: it ends the statement and nothing else, and costs only its readers."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from shutil import copy
from typing import Any

import pytest
import sqlalchemy as sa
from sqlalchemy import event as hooks

from functory.engine.database import read_limit, schema
from functory.engine.database.connection import Database
from functory.engine.errors import ReadTooLong, Unavailable
from tests.services.missing_servers import require
from tests.services.pgbouncer import PgBouncer
from tests.services.tcp_proxy import Door

pytest_plugins = ["tests.support.world"]

# Counts for longer than any test runs.
ENDLESS = sa.text(
    "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 2000000000) SELECT count(*) FROM n"
)
# A second or so: longer than the limits here.
LONG = sa.text(
    "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 300000) SELECT count(*) FROM n"
)
COUNTERS = sa.select(sa.func.count()).select_from(schema.counter)


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=pytest.mark.postgres)])
def database(request: pytest.FixtureRequest, tmp_path: Path, migrated_file: Path) -> Iterator[Database]:
    """A database whose pool has one connection: the one that was limited is used again."""
    if request.param == "sqlite":
        url = f"sqlite:///{copy(migrated_file, tmp_path / 'functory.db')}"
    else:
        url = request.getfixturevalue("emptied_postgres")
    found = Database(url, pool_size=1)
    yield found
    found.close()


def test_the_reads_of_a_block_share_its_seconds(database: Database) -> None:
    with read_limit.of(0.5), pytest.raises(ReadTooLong) as raised:
        for _ in range(200):
            with database.read() as tx:
                tx.scalar(COUNTERS)
                # It counts as reading: the transaction is open.
                time.sleep(0.01)
    assert raised.value.what == "the read took longer than 0.5 s"
    # Another block has its own.
    with read_limit.of(5), database.read() as tx:
        assert tx.scalar(COUNTERS) is not None


@pytest.mark.parametrize("snapshot", [False, True])
def test_a_long_read_ends_and_its_connection_is_used_again(database: Database, snapshot: bool) -> None:
    began = time.monotonic()
    with (
        pytest.raises(ReadTooLong) as raised,
        read_limit.of(0.3),
        database.read(snapshot=snapshot) as tx,
    ):
        tx.scalar(ENDLESS)
    assert 0.3 <= time.monotonic() - began < 10
    assert (raised.value.what, "since" in raised.value.try_) == ("the read took longer than 0.3 s", True)
    with database.write() as tx:
        tx.insert(schema.counter, [{"name": "after", "value": 1}])
    with read_limit.of(5), database.read(snapshot=snapshot) as tx:
        assert tx.scalar(COUNTERS) > 0


def test_a_read_after_it_and_a_write_in_it_have_no_limit(database: Database) -> None:
    with read_limit.of(0.05):
        with pytest.raises(ReadTooLong), database.read() as tx:
            tx.scalar(ENDLESS)
        with database.write() as tx:
            assert tx.scalar(LONG) == 300_000
        with read_limit.of(None), database.read() as tx:
            assert tx.scalar(LONG) == 300_000
    with database.read() as tx:
        assert tx.scalar(LONG) == 300_000


@pytest.mark.postgres
def test_the_limit_is_of_the_whole_transaction(emptied_postgres: str) -> None:
    """Also of statements that are each short, and of those that wait for the next one."""
    database = Database(emptied_postgres)
    short = sa.text("SELECT pg_sleep(0.25)")
    done = 0
    with pytest.raises(ReadTooLong), read_limit.of(0.6), database.read() as tx:
        for _ in range(20):
            tx.scalar(short)
            done += 1
    assert done == 2
    with pytest.raises(ReadTooLong), read_limit.of(0.3), database.read() as tx:
        tx.later("SELECT pg_sleep(20)")
        tx.scalar(COUNTERS)
    database.close()


@pytest.mark.postgres
def test_another_end_of_a_statement_is_not_the_limit(emptied_postgres: str) -> None:
    database = Database(emptied_postgres)
    with pytest.raises(Unavailable) as raised, read_limit.of(30), database.read() as tx:
        tx.scalar(sa.text("SELECT set_config('statement_timeout', '100', true)"))
        tx.scalar(sa.text("SELECT pg_sleep(20)"))
    assert not isinstance(raised.value, ReadTooLong)
    database.close()


@pytest.mark.postgres
def test_it_costs_one_round_trip_a_transaction(emptied_postgres: str) -> None:
    with Door(emptied_postgres) as door:
        door.open()
        database = Database(door.url)

        def round_trips(seconds: float | None, statements: int) -> int:
            for _ in range(8):
                # What is used often gets prepared, with a round trip of its own the first time.
                with read_limit.of(seconds), database.read() as tx:
                    tx.scalar(COUNTERS)
            before = door.round_trips
            with read_limit.of(seconds), database.read() as tx:
                for _ in range(statements):
                    tx.scalar(COUNTERS)
            return door.round_trips - before

        assert (round_trips(None, 1), round_trips(None, 5)) == (1, 5)
        assert (round_trips(30, 0), round_trips(30, 1), round_trips(30, 5)) == (0, 2, 6)
        database.close()


def test_no_statement_is_added_without_a_limit(database: Database) -> None:
    """The statements of roles and commands are counted; here, what SQLAlchemy sends and what SQLite itself runs."""
    sent: list[str] = []
    with database.read() as tx:
        tx.scalar(COUNTERS)
    hooks.listen(database.engine, "before_cursor_execute", lambda *given: sent.append(given[2]))
    with database.read() as tx:
        tx.scalar(COUNTERS)
    assert len(sent) == 1


@pytest.mark.postgres
@pytest.mark.timeout(120)
def test_it_works_behind_a_pooler(postgres_server: Any, emptied_postgres: str) -> None:
    with PgBouncer(require("pgbouncer").programs, postgres_server.start().port) as pooler:
        database = Database(pooler.through(emptied_postgres), pool_size=1)
        for _ in range(2):
            with pytest.raises(ReadTooLong), read_limit.of(0.3), database.read() as tx:
                tx.scalar(ENDLESS)
            with database.read() as tx:
                assert tx.scalar(LONG) == 300_000
        database.close()

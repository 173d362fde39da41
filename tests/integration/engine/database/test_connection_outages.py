"""A database that is away, full, locked or restarted: what is reported, and what goes on afterwards."""

import shutil
import sqlite3
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import sqlalchemy as sa

from functory.engine.database import migrations, schema
from functory.engine.database.connection import Database
from functory.engine.errors import Conflict, Unavailable
from tests.services.port import free_port
from tests.support.patience import patient

if TYPE_CHECKING:
    from tests.support.world import World

pytest_plugins = ["tests.support.world"]


def test_a_server_that_does_not_answer_is_unavailable_and_no_password_is_shown():
    url = f"postgresql+psycopg://ada:hunter2@127.0.0.1:{free_port()}/shop"
    database = Database(url)
    for use in (
        lambda: database.ping(),
        lambda: migrations.upgrade(database),
        lambda: migrations.check(database),
        lambda: database.group_commit(lambda tx: tx.now),
        database.write().__enter__,
    ):
        with pytest.raises(Unavailable) as caught:
            use()
        shown = str(caught.value) + repr(caught.value) + str(caught.value.__cause__) + repr(database)
        assert "cannot be used" in shown
        assert "refused" in shown
        assert "FUNCTORY_DATABASE_URL" in shown
        assert "hunter2" not in shown


@pytest.mark.postgres
def test_a_wrong_database_name_is_unavailable_and_says_what_the_server_said(postgres_server):
    url = sa.make_url(postgres_server.start().url).set(database="nowhere", password="hunter2")
    with pytest.raises(Unavailable, match='database "nowhere" does not exist') as caught:
        Database(url.render_as_string(hide_password=False)).ping()
    assert "hunter2" not in str(caught.value)


def test_a_database_without_tables_says_how_to_make_them(empty_url):
    database = Database(empty_url)
    with pytest.raises(Conflict, match=r"(?s)schema none.*try: functory db upgrade"):
        migrations.check(database)
    with pytest.raises(Unavailable, match="try: functory db upgrade"), database.read() as tx:
        tx.rows(sa.select(schema.event))
    database.close()


def test_a_folder_that_cannot_be_written_is_an_error(tmp_path):
    (tmp_path / "file").write_text("not a folder")
    with pytest.raises(Unavailable, match="there is no folder"):
        Database(f"sqlite:///{tmp_path}/file/functory.db").ping()


@pytest.mark.postgres
def test_a_restart_of_the_server_is_survived_by_pool_clock_and_wakeups(postgres_server, emptied_postgres):
    database, other = Database(emptied_postgres), Database(emptied_postgres)
    database.listen_for_wakeups()

    def heard() -> bool:
        for _ in range(100):
            seen = database.wakeup.generation("events")
            with other.write() as tx:
                tx.wake("events")
            if database.wakeup.wait("events", seen, 0.1) != seen:
                return True
        return False

    assert heard()
    with database.read() as tx:
        backends = "pid <> pg_backend_pid() AND datname = current_database()"
        tx.execute(sa.text(f"SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity WHERE {backends}"))
    assert heard(), "who listens must listen again after its connection was cut"
    database.close()
    other.close()


@pytest.mark.postgres
def test_a_process_that_stops_in_a_transaction_loses_its_locks(emptied_postgres):
    # Long beside the pauses of a busy machine: at those, too, a transaction stands still.
    still, other = Database(emptied_postgres, idle_seconds=2), Database(emptied_postgres)
    row = sa.update(schema.counter).where(schema.counter.c.name == "turns")
    with other.write() as tx:
        tx.insert(schema.counter, [{"name": "turns", "value": 0}])
    done: list[str] = []
    with pytest.raises(Unavailable, match=r"lost|idle"), still.write() as tx:
        tx.execute(row.values(value=1))
        done.append("locked")
        # It waits for the lock, as long as somebody has it.
        with other.write() as beside:
            beside.execute(row.values(value=2))
        done.append("written beside")
        tx.execute(row.values(value=3))
    assert done == ["locked", "written beside"]
    with still.write() as tx:
        assert tx.scalar(sa.select(schema.counter.c.value).where(schema.counter.c.name == "turns")) == 2
    still.close()
    other.close()


@pytest.fixture
def full_disk(tmp_path: Path, migrated_file: Path) -> "Iterator[tuple[World, Callable[[int], None]]]":
    """A world on SQLite whose file may not grow beyond a number of pages, and the way to set that number."""
    from tests.support.world import World

    world = World(f"sqlite:///{shutil.copy(migrated_file, tmp_path / 'full.db')}", tmp_path)
    limit = [0]

    def set_limit(connection: Any, *_: Any) -> None:
        connection.execute(f"PRAGMA max_page_count={limit[0] or 1_073_741_823}").fetchall()

    sa.event.listen(world.database.engine, "checkout", set_limit)

    def allow(pages: int) -> None:
        limit[0] = pages

    yield world, allow
    world.close()


def test_a_full_disk_is_reported_loses_nothing_and_work_goes_on_afterwards(full_disk):
    world, allow = full_disk
    world.function("work")
    done = world.start()
    claim = world.claim(done)
    kept = [world.events.emit("order.created", "x" * 1000) for _ in range(5)]
    allow(1)  # SQLite takes what the file has by now as the least limit.
    written, refused = [], None
    for n in range(200):
        try:
            written.append(world.events.emit("order.created", f"{n}" + "x" * 20_000))
        except Unavailable as error:
            refused = error
            break
    assert refused is not None
    assert "full" in refused.why
    assert refused.try_ == "free disk space; nothing was written"
    with pytest.raises(Unavailable):
        world.finish(claim, result="x" * 500_000)
    assert world.executions.get(done["id"])["state"] == "running"
    assert [row["id"] for row in world.rows(schema.event, schema.event.c.type == "order.created")] == [
        *kept,
        *written,
    ]

    allow(0)
    assert world.finish(claim, result="x" * 500_000).state == "succeeded"
    assert len(world.executions.get(done["id"])["result"]) == 500_000
    world.route()
    assert world.lineage.open_work()["pending events"] == 0
    with world.database.read() as tx:
        assert tx.scalar(sa.text("PRAGMA integrity_check")) == "ok"


def test_a_new_file_is_waited_for_while_another_process_writes_to_it(tmp_path: Path):
    # SQLite itself refuses at once to switch a file to its log that somebody writes to, whatever the timeout.
    other = sqlite3.connect(tmp_path / "new.db", isolation_level=None, check_same_thread=False)
    other.execute("CREATE TABLE something (x)")
    other.execute("BEGIN IMMEDIATE")
    database = Database(f"sqlite:///{tmp_path}/new.db")
    opened: list[float] = []
    opening = threading.Thread(target=lambda: opened.append(database.ping()))
    opening.start()
    opening.join(0.3)
    assert opening.is_alive() and not opened
    other.execute("COMMIT")
    opening.join(patient(30))
    assert opened
    other.close()
    database.close()


def test_a_new_file_that_stays_locked_is_unavailable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("functory.engine.database.sqlite_connections.BUSY_MILLISECONDS", 200)
    other = sqlite3.connect(tmp_path / "new.db", isolation_level=None)
    other.execute("CREATE TABLE something (x)")
    other.execute("BEGIN IMMEDIATE")
    database = Database(f"sqlite:///{tmp_path}/new.db")
    with pytest.raises(Unavailable, match="locked"):
        database.ping()
    other.close()
    database.close()


def test_a_commit_on_sqlite_reaches_the_disk_before_it_is_acknowledged(tmp_path):
    database = Database(f"sqlite:///{tmp_path}/new.db")
    with database.connection() as one, database.connection() as other:
        # 2 is FULL (sqlite.org/pragma.html#pragma_synchronous): each commit is synced, so it survives a power cut.
        assert [c.execute(sa.text("PRAGMA synchronous")).scalar() for c in (one, other)] == [2, 2]
    with database.write() as tx:
        assert tx.scalar(sa.text("PRAGMA synchronous")) == 2

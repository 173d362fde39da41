"""The file of a SQLite database is deleted, replaced or cannot be written: each is named, and no new file is made."""

from __future__ import annotations

import os
import shutil
import sqlite3
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
import sqlalchemy as sa

from functory.engine.database import schema
from functory.engine.database.connection import Database
from functory.engine.errors import DatabaseLost, Unavailable
from tests.support.patience import patient

pytest_plugins = ["tests.support.world"]


@pytest.fixture
def file(tmp_path: Path, migrated_file: Path) -> Path:
    return Path(shutil.copy(migrated_file, tmp_path / "functory.db"))


@pytest.fixture
def database(file: Path) -> Iterator[Database]:
    """A database that this process has opened."""
    found = Database(f"sqlite:///{file}")
    add(found, "first")
    yield found
    found.close()


def add(database: Database, name: str) -> None:
    with database.write() as tx:
        tx.insert(schema.counter, [{"name": name, "value": 1}])


@pytest.mark.parametrize("how", ["deleted", "replaced"])
def test_nothing_is_stored_in_a_file_that_was_deleted_or_replaced(
    database: Database, file: Path, tmp_path: Path, how: str
) -> None:
    lost: list[DatabaseLost] = []
    database.on_lost = lost.append
    if how == "deleted":
        file.unlink()
    else:
        other = Path(shutil.copy(file, tmp_path / "other"))
        other.rename(file)
    with pytest.raises(DatabaseLost, match=f"functory.db was {how}"):
        add(database, "second")
    with pytest.raises(DatabaseLost):
        database.ping()
    assert lost and file.exists() == (how == "replaced")


def test_a_process_that_only_waits_notices_too(database: Database, file: Path) -> None:
    noticed = threading.Event()
    database.on_lost = lambda _: noticed.set()
    database.listen_for_wakeups()
    file.unlink()
    assert noticed.wait(patient(30))


def test_a_file_that_is_moved_back_is_the_same_one(database: Database, file: Path, tmp_path: Path) -> None:
    file.rename(tmp_path / "aside")
    with pytest.raises(DatabaseLost):
        database.ping()
    (tmp_path / "aside").rename(file)
    add(database, "second")


def test_a_connection_never_makes_a_file(database: Database, file: Path) -> None:
    with database.read(), database.read() as tx:
        # Both connections of the pool are in use: the next one is new.
        tx.scalar(sa.select(1))
        file.unlink()
        with pytest.raises(sqlite3.OperationalError, match="unable to open"):
            sqlite3.connect(f"file:{file}?mode=rw", uri=True)
        with pytest.raises(DatabaseLost):
            database._file.connect()  # type: ignore[union-attr]
    assert not file.exists()


def test_a_log_without_its_file_is_not_given_to_a_new_one(database: Database, file: Path) -> None:
    assert file.with_name("functory.db-wal").stat().st_size
    file.unlink()
    beside = Database(f"sqlite:///{file}")
    with pytest.raises(
        Unavailable, match=r"(?s)no database file .* its write-ahead log .* still there|deleted"
    ):
        beside.ping()
    beside.close()
    assert not file.exists()


def test_a_full_disk_has_its_words(database: Database, file: Path) -> None:
    with pytest.raises(Unavailable) as caught, database.write() as tx:
        pages = tx.scalar(sa.text("PRAGMA page_count"))
        tx.execute(sa.text(f"PRAGMA max_page_count = {pages}"))
        tx.insert(schema.counter, [{"name": f"{n}" * 500, "value": 1} for n in range(1000, 2000)])
    assert caught.value.why == f"no space left on device at {file.parent}"
    assert "free disk space" in caught.value.try_
    with database.read() as tx:
        assert tx.scalar(sa.select(sa.func.count()).where(schema.counter.c.name == "1000" * 500)) == 0


def test_a_missing_folder_is_named(tmp_path: Path) -> None:
    lonely = Database(f"sqlite:///{tmp_path}/nowhere/functory.db")
    with pytest.raises(Unavailable, match=f"there is no folder {tmp_path}/nowhere"):
        lonely.ping()


def test_a_file_without_the_right_to_write_is_named(
    database: Database, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with database.connection() as connection:
        connection.execute(sa.text("PRAGMA query_only = 1"))
        # Root may write every file.
        monkeypatch.setattr(os, "access", lambda place, _: place != file)
        with pytest.raises(Unavailable, match=f"may not read and write {file}"), database._driver_errors:
            connection.execute(sa.insert(schema.counter).values(name="second", value=1))

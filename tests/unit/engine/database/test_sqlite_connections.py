"""A SQLite that lacks what the engine needs is refused with what helps."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from functory.engine.database import sqlite_connections
from functory.engine.errors import Invalid, Unavailable


def test_a_library_without_returning_is_refused() -> None:
    with pytest.raises(Invalid, match=r"(?s)SQLite 3.34.1 is too old.*3.35.0"):
        sqlite_connections.check_version((3, 34, 1))
    sqlite_connections.check_version()


def test_a_file_system_without_shared_memory_is_refused(tmp_path: Path) -> None:
    # This way to lock files has no shared memory, as file systems of the network have none.
    place = f"file:{tmp_path / 'a.db'}?vfs=unix-dotfile"
    with (
        closing(sqlite3.connect(place, uri=True)) as connection,
        pytest.raises(Unavailable, match=r"(?s)write-ahead log.*local disk"),
    ):
        sqlite_connections.prepare(connection, None)

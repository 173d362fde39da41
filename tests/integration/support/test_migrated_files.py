"""A copied SQLite file is what the migrations make."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

from functory.engine.database import migrations
from functory.engine.database.connection import Database
from tests.support.world import embedded


def dump(file: Path) -> list[str]:
    with closing(sqlite3.connect(file)) as database:
        return sorted(database.iterdump())


def test_a_new_engine_has_the_rows_and_tables_that_the_migrations_make(tmp_path: Path) -> None:
    migrated = Database(f"sqlite:///{tmp_path / 'migrated.db'}")
    migrations.upgrade(migrated)
    migrated.close()
    with embedded(tmp_path) as engine:
        assert engine.created
    copied = tmp_path / ".functory" / "functory.db"
    assert dump(copied) == dump(tmp_path / "migrated.db")
    assert copied.stat().st_mode == (tmp_path / "migrated.db").stat().st_mode

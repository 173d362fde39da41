"""Gives each new embedded engine of a test process a copy of one migrated SQLite file.

To create the schema takes as long as most tests of an engine. Only engines copy: :func:`migrations.upgrade` itself,
role processes, `functory db upgrade` and PostgreSQL run every revision.
"""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any
from unittest import mock

from functory.client import services as client_services
from functory.engine.database import migrations
from functory.engine.database.connection import Database
from tests.services.shared import locked


def migrated_file(run: Path) -> Path:
    """A migrated SQLite file to copy, made once for all processes of the run. ``run`` is the run's folder."""
    file = run / "functory.db"
    with locked(run / "migrated_file.lock"):
        if not file.exists():
            making = file.with_name("making.db")
            database = Database(f"sqlite:///{making}")
            migrations.upgrade(database)
            database.close()
            making.replace(file)
    return file


class _Copying:
    """The module of migrations, whose ``upgrade`` fills a new SQLite file from the migrated one."""

    def __init__(self, run: Path) -> None:
        self._run = run
        self._lock = threading.Lock()

    def __getattr__(self, name: str) -> Any:
        return getattr(migrations, name)

    def upgrade(self, database: Database) -> str:
        """Migrate to the newest revision, as ``migrations.upgrade`` does."""
        if database.dialect == "sqlite" and database.file is not None:
            with self._lock:
                if migrations.current(database) is None:
                    self._copy(database)
        return migrations.upgrade(database)

    def _copy(self, database: Database) -> None:
        # Immutable: SQLite leaves no files of its own beside the one that all processes read.
        address = f"{migrated_file(self._run).as_uri()}?immutable=1"
        with (
            closing(sqlite3.connect(address, uri=True)) as migrated,
            database.connection(write=True) as connection,
        ):
            target: Any = connection.connection.driver_connection
            migrated.backup(target)


@contextmanager
def copied(run: Path) -> Iterator[None]:
    """Let embedded engines with a new SQLite file copy the migrated one inside the block."""
    with mock.patch.object(client_services, "migrations", _Copying(run)):
        yield

"""A backup of the whole database while everything runs: its state at one time, in one file
(:mod:`functory.engine.maintenance.backup.archive`).

SQLite's online backup copies the file inside one reading transaction: writers go on, and the copy need not begin anew
for them. On PostgreSQL pg_dump reads an exported snapshot, in which the rows are counted too. The key that seals
secrets is not in the database and so not in the backup.
"""

from __future__ import annotations

import contextlib
import gzip
import shutil
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import sqlalchemy as sa

from functory.engine import private_files, sqlite_urls
from functory.engine.database import migrations, partitions, sqlite_files
from functory.engine.database.connection import Database, Tx
from functory.engine.database.schema import metadata
from functory.engine.errors import Conflict, Invalid, Unavailable
from functory.engine.maintenance.backup import archive, pg_dump
from functory.engine.maintenance.backup.archive import ArchiveWriter, Manifest

# Pages of SQLite that are copied between two calls of the progress.
PAGES = 2000

# Called during the work with the name of the step, how much of it is done, and the total (None when unknown).
Progress = Callable[[str, int, int | None], object]


def no_progress(what: str, done: int, total: int | None) -> None:
    """Show no progress: the default callback."""


def backup(
    database: Database, path: Path, *, version: str, force: bool = False, progress: Progress = no_progress
) -> Manifest:
    """Write a backup to ``path``. ``version`` is Functory's. Raises :class:`Conflict` (the file is there, or the schema
    is unknown), :class:`Invalid` (pg_dump is missing, the place cannot be written), :class:`Unavailable`."""
    found = migrations.current(database)
    if found is None:
        raise Conflict(
            f"the database {database.name} is empty", "there is nothing to back up", "functory db upgrade"
        )
    migrations.refuse_snapshot(database, found)
    if found > migrations.HEAD:
        raise Conflict(
            f"the database {database.name} has schema {found}",
            f"this version knows up to {migrations.HEAD}, and might leave something out",
            "use the version of Functory that made it",
        )
    with archive.create(path, force=force) as writer:
        take = _postgres if database.dialect == "postgresql" else _sqlite
        return take(database, writer, path, {"schema": found, "functory": version}, progress)


def table_names(tx: Tx) -> list[str]:
    """Return the names of our tables in this database, with partitions and the schema's version table."""
    there = set(sa.inspect(tx.connection).get_table_names())
    known = [*(table.name for table in metadata.sorted_tables), "alembic_version"]
    return [
        *(name for name in known if name in there),
        *(part.name for part in partitions.list_partitions(tx)),
    ]


def row_counts(tx: Tx) -> dict[str, int]:
    """Return the rows of each of our tables."""
    parts = {part.name for part in partitions.list_partitions(tx)}
    return {
        name: int(tx.scalar(sa.select(sa.func.count()).select_from(sa.table(name))) or 0)
        for name in table_names(tx)
        if name not in parts
    }


def schema_name(tx: Tx) -> str:
    """Return the schema that holds our tables, or would hold them."""
    found = (
        "SELECT n.nspname FROM pg_class c JOIN pg_namespace n ON n.oid = relnamespace"
        " WHERE c.oid = to_regclass('execution')"
    )
    return tx.scalar(sa.text(found)) or tx.scalar(sa.text("SELECT current_schema()")) or "public"


def server_version(tx: Tx) -> int:
    """Return the server's major version."""
    return int(tx.scalar(sa.text("SHOW server_version_num"))) // 10_000


def sqlite_file(database: Database) -> Path:
    """Return the file of a SQLite database. Raises :class:`Invalid` for one in memory."""
    if database.file is None:
        raise Invalid("a database in memory cannot be backed up", "it is gone with its process")
    return database.file


def _sqlite(
    database: Database, writer: ArchiveWriter, path: Path, known: dict[str, Any], progress: Progress
) -> Manifest:
    copy = path.with_name(path.name + ".copy")
    created = database.clock.now().isoformat()
    try:
        copy.unlink(missing_ok=True)
        with contextlib.closing(sqlite3.connect(sqlite_file(database), isolation_level=None)) as source:
            size = source.execute("PRAGMA page_size").fetchone()[0]
            # The open transaction keeps the copy at this time: without it, a step that finds a change begins anew.
            source.execute("BEGIN")
            source.execute("SELECT count(*) FROM sqlite_schema").fetchone()
            private_files.create_file(copy)
            with contextlib.closing(sqlite3.connect(copy)) as target:
                source.backup(
                    target,
                    pages=PAGES,
                    progress=lambda _, left, total: progress("copying", (total - left) * size, total * size),
                )
        copied = Database(sqlite_urls.url_of(copy), clock=database.clock)
        try:
            with copied.read() as tx:
                rows = row_counts(tx)
        finally:
            copied.close()
        total = copy.stat().st_size
        with copy.open("rb") as given, gzip.GzipFile("", "wb", 1, writer.sink, 0) as packed:  # type: ignore[arg-type]
            while piece := given.read(archive.CHUNK_BYTES):
                packed.write(piece)
                progress("packing", given.tell(), total)
    except sqlite3.Error as error:
        why, advice = sqlite_files.explain(copy, error, str(error)) or (
            str(error),
            "check the disk, and the limit of file sizes (ulimit -f)",
        )
        raise Unavailable(f"{copy} cannot be written", why, advice) from error
    finally:
        for suffix in ("", "-wal", "-shm"):
            copy.with_name(copy.name + suffix).unlink(missing_ok=True)
    return writer.finish(Manifest("sqlite", created=created, rows=rows, payload="functory.db.gz", **known))


def _postgres(
    database: Database, writer: ArchiveWriter, _: Path, known: dict[str, Any], progress: Progress
) -> Manifest:
    with database.read(snapshot=True) as tx:
        # The snapshot is there as long as this transaction, which does nothing meanwhile.
        tx.execute(sa.text("SET LOCAL idle_in_transaction_session_timeout = 0"))
        program, version = pg_dump.find("pg_dump", server_version(tx))
        snapshot = tx.scalar(sa.text("SELECT pg_export_snapshot()"))
        created, rows, schema = tx.now.isoformat(), row_counts(tx), schema_name(tx)
        options = ["--format=custom", "--no-owner", "--no-privileges", f"--snapshot={snapshot}"]
        options += [f'--table="{schema}"."{name}"' for name in table_names(tx)]

        def take(piece: bytes) -> None:
            writer.sink.write(piece)
            progress("dumping", writer.sink.bytes, None)

        pg_dump.dump(database, program, options, take)
    about: dict[str, Any] = {"created": created, "rows": rows, "place": schema, "tool": version, **known}
    return writer.finish(Manifest("postgresql", payload="functory.dump", **about))


def unpack(path: Path, manifest: Manifest, target: Path) -> None:
    """Unpack the SQLite database of a backup into a file."""
    private_files.create_file(target)
    with (
        archive.open_payload(path, manifest) as packed,
        gzip.open(packed) as given,
        target.open("wb") as file,
    ):
        shutil.copyfileobj(given, file, archive.CHUNK_BYTES)

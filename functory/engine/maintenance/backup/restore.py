"""Restore: puts a backup into a database so that roles can safely go on with it.

The backup is checked before anything is changed, and the old data is kept until the new database is whole. On SQLite
the new file is made beside the database and takes its place at the end. On PostgreSQL the old tables wait in a schema
of their own.

A restore settles what was in progress at the backup's time. Attempts that ran then are lost, and their executions are
queued again by the rules for lost ones. Messages of that time are forgotten. No process holds a worker or source row.
Fences are raised by a large number, so that an attempt from before the restore that still runs somewhere can never
commit here. Logins end (:mod:`restored_access`).
"""

from __future__ import annotations

import contextlib
import sqlite3
import time
from collections import Counter
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

import sqlalchemy as sa

from functory.engine import os_errors, sqlite_urls
from functory.engine.agents import call_queue
from functory.engine.database import audit, migrations
from functory.engine.database.connection import Database, Tx
from functory.engine.database.schema import (
    event,
    execution,
    function,
    gateway,
    llm_call,
    secret,
    source,
    state,
    trigger,
    user_account,
    worker,
)
from functory.engine.errors import Conflict, Invalid, Unavailable
from functory.engine.executions import dispatch
from functory.engine.maintenance import lost_workers
from functory.engine.maintenance.backup import archive, pg_dump, restored_access
from functory.engine.maintenance.backup.archive import Manifest
from functory.engine.maintenance.backup.create import (
    Progress,
    no_progress,
    row_counts,
    schema_name,
    server_version,
    sqlite_file,
    table_names,
    unpack,
)
from functory.engine.maintenance.invariants import InvariantResult, verify
from functory.engine.settings import Settings

# More claims than any execution makes between a backup and its restore.
FENCE_INCREMENT = 1_000_000
# Where the tables that are replaced wait until the new ones are whole.
OLD_TABLES_SCHEMA = "functory_before_restore"
# Seconds between two checks for other connections, which may be just closing; after twenty checks they count.
DISCONNECT_POLL_SECONDS = 0.1
# Tables that are empty in a database that was only migrated.
USER_TABLES = (function, trigger, source, secret, state, user_account, event, execution)


@dataclass(frozen=True)
class RestoreResult:
    """The result of a restore: the rows that were in progress, counted by what became of them, and the invariants."""

    manifest: Manifest
    recovered: dict[str, int]
    invariants: list[InvariantResult]


def restore(
    database: Database,
    settings: Settings,
    path: Path,
    *,
    replace: bool = False,
    force: bool = False,
    author: str = "",
    progress: Progress = no_progress,
) -> RestoreResult:
    """Restore the backup at ``path`` into ``database``, with the schema of this code.

    ``replace`` drops what is in it; ``force`` does so although roles are connected. Raises :class:`Invalid` (no whole
    backup, of the other kind), :class:`Conflict` (not empty, in use, of a newer schema), :class:`Unavailable`.
    """
    progress("checking", 0, None)
    manifest = archive.read(path)
    if manifest.database != database.dialect:
        raise Invalid(
            f"{path} is a backup of {manifest.database}",
            f"{database.name} is {database.dialect}",
            "restore it into a database of the same kind",
        )
    if migrations.is_of_snapshot(manifest.schema):
        raise migrations.snapshot_conflict(
            str(path), manifest.schema, "restore it with the snapshot's own code"
        )
    if manifest.schema > migrations.HEAD:
        raise Conflict(
            f"{path} has schema {manifest.schema}",
            f"this version knows up to {migrations.HEAD}",
            f"restore it with Functory {manifest.functory} or newer",
        )
    migrations.refuse_snapshot(database, migrations.current(database))
    if not replace and not is_empty(database):
        raise Conflict(
            f"the database {database.name} is not empty", "a restore would replace what is in it", "--replace"
        )
    tokens = restored_access.valid_tokens(database)
    if not force:
        _refuse_in_use(database)
    make = _postgres if database.dialect == "postgresql" else _sqlite
    return make(database, settings, path, manifest, author, progress, tokens)


def is_empty(database: Database) -> bool:
    """Return True when this database was never used: it has no tables, or none with rows of users."""
    if database.file is not None and not database.file.exists():
        return True
    with database.read() as tx:
        there = set(table_names(tx))
        return not any(
            table.name in there and tx.scalar(sa.select(sa.literal(1)).select_from(table).limit(1))
            for table in USER_TABLES
        )


def recover_in_progress(
    database: Database,
    settings: Settings,
    author: str,
    manifest: Manifest,
    tokens: Collection[str] | None,
) -> dict[str, int]:
    """Make what was in progress at the backup's time safe to go on with. Return the number of rows of each kind.

    ``tokens`` are those that the replaced database had (:mod:`restored_access`).
    """
    with database.write() as tx:
        running = execution.c.state == "running"
        past = tx.now - timedelta(seconds=1)
        tx.execute(sa.update(execution).where(running).values(lease_until=past))
    settled: Counter[str] = Counter()
    while any(
        (done := lost_workers.reap(database, cancel_grace=timedelta(days=36_500).total_seconds())).values()
    ):
        settled.update(done)
    settled.update(_end_sent_calls(database, settings))
    dispatch.redispatch_now(database)
    with database.write() as tx:
        settled["queued"] = tx.execute(
            sa.update(execution)
            .where(execution.c.state == "queued")
            .values(fence=execution.c.fence + FENCE_INCREMENT)
        ).rowcount
        tx.execute(sa.delete(worker))
        tx.execute(
            sa.update(source).values(fence=source.c.fence + FENCE_INCREMENT, holder=None, lease_until=None)
        )
        settled.update(restored_access.end(tx, tokens))
        about = {"created": manifest.created, "functory": manifest.functory, "schema": manifest.schema}
        audit.append(tx, author, "db.restore", "database", about | {"settled": dict(settled)})
    return dict(settled)


def _end_sent_calls(database: Database, settings: Settings) -> dict[str, int]:
    """End the calls of language models that were sent: whether they were answered, the backup cannot know."""
    with database.write() as tx:
        tx.execute(sa.delete(gateway))
        past = tx.now - timedelta(seconds=1)
        tx.execute(sa.update(llm_call).where(llm_call.c.state == "sent").values(lease_until=past))
    ended = 0
    while True:
        with database.write() as tx:
            rows = call_queue.end_lost(tx, settings)
        ended += len(rows)
        if not rows:
            return {"unknown_calls": ended} if ended else {}


def _sqlite(
    database: Database,
    settings: Settings,
    path: Path,
    manifest: Manifest,
    author: str,
    progress: Progress,
    tokens: Collection[str] | None,
) -> RestoreResult:
    target = sqlite_file(database)
    fresh = target.with_name(target.name + ".restoring")
    try:
        _remove(fresh)
        progress("unpacking", 0, None)
        unpack(path, manifest, fresh)
        made = Database(sqlite_urls.url_of(fresh), clock=database.clock, new_id=database.new_id)
        try:
            done = _finish(made, settings, path, manifest, author, progress, tokens)
        finally:
            made.close()
        _require_exclusive(fresh)
        database.close()
        if target.exists():
            _require_exclusive(target)
        else:
            # A log that is left of a deleted file would be applied to the new one.
            _remove(target)
        archive.sync_folder(target.parent)
        fresh.rename(target)
        archive.sync_folder(target.parent)
    except OSError as error:
        raise os_errors.explain(error, f"{target} cannot be written") from None
    finally:
        _remove(fresh)
    return done


def _postgres(
    database: Database,
    settings: Settings,
    path: Path,
    manifest: Manifest,
    author: str,
    progress: Progress,
    tokens: Collection[str] | None,
) -> RestoreResult:
    with database.read() as tx:
        program, version = pg_dump.find("pg_restore", server_version(tx))
        here = schema_name(tx)
    if int(version.split(".")[0]) < int(manifest.tool.split(".")[0]):
        raise Invalid(
            f"pg_restore {version} is too old",
            f"the backup was made by pg_dump {manifest.tool}",
            f"apt-get install postgresql-client-{manifest.tool.split('.')[0]}",
        )
    if here != manifest.place:
        raise Conflict(
            f"{path} holds tables of the schema {manifest.place}",
            f"those of {database.name} would be in {here}",
            f"CREATE SCHEMA {manifest.place}, and set the role's search_path to it",
        )
    with _move_aside(database, here):
        options = [
            "--format=custom",
            "--single-transaction",
            "--exit-on-error",
            "--no-owner",
            "--no-privileges",
        ]
        with archive.open_payload(path, manifest) as given:
            total = manifest.bytes
            pg_dump.restore(
                database, program, options, given, lambda taken: progress("restoring", taken, total)
            )
        return _finish(database, settings, path, manifest, author, progress, tokens)


def _finish(
    database: Database,
    settings: Settings,
    path: Path,
    manifest: Manifest,
    author: str,
    progress: Progress,
    tokens: Collection[str] | None,
) -> RestoreResult:
    """Check that every row is there, migrate to this code's schema, settle and verify."""
    progress("counting", 0, None)
    with database.read() as tx:
        found = row_counts(tx)
    other = [name for name, count in manifest.rows.items() if found.get(name) != count]
    if other:
        raise Invalid(
            f"{path} was not restored as it was",
            f"table {other[0]} has {found.get(other[0], 0)} rows, the backup has {manifest.rows[other[0]]}",
            "another backup",
        )
    progress("upgrading", 0, None)
    migrations.upgrade(database)
    progress("settling", 0, None)
    settled = recover_in_progress(database, settings, author, manifest, tokens)
    progress("verifying", 0, None)
    # Rows that waited at the backup's time have rested since then by the clock, which is not a fault. With a long
    # patience the check finds only rows that are wrong in themselves.
    return RestoreResult(
        manifest, settled, verify(database, settings, patience=timedelta(days=36_500).total_seconds())
    )


def _refuse_in_use(database: Database) -> None:
    if database.file is not None:
        if database.file.exists():
            database.close()
            _require_exclusive(database.file)
        return
    statement = (
        "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND application_name = 'functory'"
        " AND pid <> pg_backend_pid()"
    )
    # Our own connections close, and those of roles that were stopped just now; the server sees it a little later.
    database.close()
    others = 0
    for _ in range(20):
        with database.read() as tx:
            others = int(tx.scalar(sa.text(statement)) or 0)
        if not others:
            return
        time.sleep(DISCONNECT_POLL_SECONDS)
    raise Conflict(
        f"{others} connections of Functory use the database {database.name}",
        "a restore would replace the rows that running roles use",
        "stop all roles, or --force",
    )


def _require_exclusive(file: Path) -> None:
    """Write a SQLite file's log into it. Raises :class:`Conflict` when another process has it open."""
    try:
        with contextlib.closing(sqlite3.connect(file, timeout=1, isolation_level=None)) as connection:
            # Leaving WAL mode needs exclusive access to the file.
            mode = connection.execute("PRAGMA journal_mode = DELETE").fetchone()[0]
    except sqlite3.DatabaseError as error:
        if isinstance(error, sqlite3.OperationalError) and "locked" in str(error):
            mode = "locked"
        else:
            raise Unavailable(f"{file} cannot be used", str(error)) from None
    if mode != "delete":
        raise Conflict(
            f"another process uses {file}",
            "a restore would replace the rows that running roles use",
            "stop all roles",
        )


def _remove(file: Path) -> None:
    for suffix in ("", "-wal", "-shm", "-journal"):
        file.with_name(file.name + suffix).unlink(missing_ok=True)


@contextlib.contextmanager
def _move_aside(database: Database, here: str) -> Iterator[None]:
    """Move our tables into another schema; drop them at the end, or bring them back after an error."""
    with database.write() as tx:
        names = table_names(tx)
        if names:
            there = "SELECT 1 FROM pg_namespace WHERE nspname = :name"
            if tx.scalar(sa.text(there), {"name": OLD_TABLES_SCHEMA}):
                raise Conflict(
                    f"there is a schema {OLD_TABLES_SCHEMA} in {database.name}",
                    "an earlier restore was interrupted; the tables from before it are in that schema",
                    "move them back or drop that schema",
                )
            tx.execute(sa.text(f"CREATE SCHEMA {OLD_TABLES_SCHEMA}"))
            _move(tx, names, here, OLD_TABLES_SCHEMA)
    try:
        yield
    except BaseException:
        with database.write() as tx:
            for name in reversed(table_names(tx)):
                tx.execute(sa.text(f'DROP TABLE IF EXISTS "{here}"."{name}" CASCADE'))
            if names:
                _move(tx, names, OLD_TABLES_SCHEMA, here)
                tx.execute(sa.text(f"DROP SCHEMA {OLD_TABLES_SCHEMA}"))
        raise
    if names:
        with database.write() as tx:
            tx.execute(sa.text(f"DROP SCHEMA {OLD_TABLES_SCHEMA} CASCADE"))


def _move(tx: Tx, names: list[str], here: str, there: str) -> None:
    tx.execute(sa.text("SET LOCAL lock_timeout = 10000"))
    for name in names:
        tx.execute(sa.text(f'ALTER TABLE "{here}"."{name}" SET SCHEMA "{there}"'))

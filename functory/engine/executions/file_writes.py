"""File writes: the files that an execution wrote, recorded when it ends, so that a file event can name its cause."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

import sqlalchemy as sa

from functory.engine.access.grants import Grants
from functory.engine.database.connection import Database
from functory.engine.database.schema import attempt, execution, file_write, in_flight
from functory.engine.database.transaction import Tx
from functory.engine.database.typed_rows import TypedRow, columns
from functory.engine.events.causation import CAUSE_COLUMNS, Cause, CausingExecution
from functory.engine.sources.file_watches import _key

# A record is needed until the watch has scanned, which takes seconds; a watcher may be down for longer.
WRITE_RECORD_AGE = timedelta(days=7)

# A file that changed later than this after its record was written by another process, even with the same content.
WRITE_TIME_TOLERANCE = timedelta(seconds=5)


@dataclass(frozen=True)
class FileWriter:
    """A running attempt that may write files: absolute ``folders`` (or files), from ``started_at`` on."""

    execution_id: str
    folders: tuple[str, ...]
    started_at: datetime


class _RunningAttempt(TypedRow, frozen=True):
    """An attempt that runs, and what confines it."""

    execution_id: str
    sandbox: Mapping[str, Any] | None
    started_at: datetime


class _Writer(CausingExecution, frozen=True):
    """An execution that wrote a file, and what it wrote at which time."""

    path_sha256: str
    content: str
    time: datetime


def record_writes(tx: Tx, execution_id: str, found: Sequence[tuple[bytes, str]]) -> None:
    """Record the files that an execution wrote, as (absolute real path, :func:`content_id`) pairs. Deletes old
    records.
    """
    if not found:
        return
    tx.insert_missing(
        file_write,
        [
            {"path_sha256": key, "content": content, "execution_id": execution_id, "time": tx.now}
            for key, content in sorted({(_key(path), content) for path, content in found})
        ],
    )
    old = sa.select(file_write.c.time).where(file_write.c.time < tx.now - WRITE_RECORD_AGE).limit(1)
    if tx.scalar(old) is not None:
        tx.execute(sa.delete(file_write).where(file_write.c.time < tx.now - WRITE_RECORD_AGE))


def record_writes_of_unfinished(
    database: Database, execution_id: str, found: Sequence[tuple[bytes, str]]
) -> None:
    """Record the files of an attempt that does not finish (see :func:`record_writes`). Raises :class:`Unavailable`."""
    if found:
        with database.write() as tx:
            record_writes(tx, execution_id, found)


def find_causes(
    tx: Tx, contents: Mapping[bytes, Sequence[str]], changed: Mapping[bytes, datetime]
) -> dict[bytes, Cause]:
    """Return the cause of each file: the execution that wrote it.

    ``contents`` has the content ids of each file by its absolute real path, ``changed`` when each file changed. The
    cause is the latest execution that wrote the content there. A file that no execution has recorded is left out.
    """
    wanted = {_key(path): path for path in contents}
    statement = (
        sa.select(
            *CAUSE_COLUMNS,
            file_write.c.path_sha256,
            file_write.c.content,
            file_write.c.time,
        )
        .join(execution, execution.c.id == file_write.c.execution_id)
        .where(file_write.c.path_sha256.in_(sorted(wanted)))
        .order_by(file_write.c.time, file_write.c.execution_id)
    )
    # The executions must not be pruned before the events that they caused are written.
    statement = statement.with_for_update(read=True, key_share=True, of=execution)
    found: dict[bytes, Cause] = {}
    for row in tx.all(_Writer, statement):
        path = wanted[row.path_sha256]
        if row.content in contents[path] and changed[path] <= row.time + WRITE_TIME_TOLERANCE:
            found[path] = Cause.from_row(row)
    return found


def running_writers(tx: Tx) -> list[FileWriter]:
    """Return the running attempts that may write files."""
    statement = (
        sa.select(*columns(_RunningAttempt, attempt))
        .join(
            execution,
            sa.and_(execution.c.id == attempt.c.execution_id, execution.c.fence == attempt.c.fence),
        )
        .join(in_flight, in_flight.c.execution_id == execution.c.id)
        .where(execution.c.state == "running")
    )
    found = [
        FileWriter(
            row.execution_id,
            Grants.from_json((row.sandbox or {}).get("grants")).write,
            row.started_at,
        )
        for row in tx.all(_RunningAttempt, statement)
    ]
    return [writer for writer in found if writer.folders]

"""File watches: the known files of each watch, and the files that executions wrote.

A watch reports a file when its content differs from the known one (table ``file_seen``). Rows and events are written in
one transaction, so that a second report or a restart emits no event twice. When an execution ends, the hashes of the
watched files that it wrote are stored (table ``file_write``). A watch that finds the same content at the same path
names that execution as the cause of its event.

Paths are bytes, as the file system has them. Those of ``file_seen`` are below the watch's root, those of
``file_written`` are absolute and without symbolic links.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa

from functory.engine.database.connection import Database
from functory.engine.database.schema import file_seen, source
from functory.engine.database.transaction import Tx
from functory.engine.errors import NotFound

KIND = "file"

# Contents of larger files are not compared unless a watch asks for it: reading them takes seconds.
HASH_BYTES = 10_000_000
_CHUNK = 1024 * 1024


@dataclass(frozen=True, slots=True)
class KnownFile:
    """A file as a watch knows it. Times are nanoseconds since 1970; ``inode`` is ``device:number``.

    ``sha256`` is None for a file that is too large or cannot be read; ``problem`` has the reason.
    """

    path: bytes
    size: int
    mtime_ns: int
    ctime_ns: int
    inode: str
    sha256: str | None = None
    problem: str | None = None


def content_id(sha256: str | None, size: int, mtime_ns: int) -> str:
    """Return the identity of a file's content: its hash, else its size and time."""
    return sha256 or f"{size}:{mtime_ns}"


def hash_content(descriptor: int, most: int) -> str | None:
    """Return the SHA-256 of an open file, read from its current position. None for a file of more than ``most``
    bytes.
    """
    digest, left = hashlib.sha256(), most
    while chunk := os.read(descriptor, min(_CHUNK, left + 1)):
        left -= len(chunk)
        if left < 0:
            return None
        digest.update(chunk)
    return digest.hexdigest()


def load_known(tx: Tx, source_id: str, paths: Sequence[bytes]) -> dict[bytes, KnownFile]:
    """Return the rows of those of ``paths`` that the watch knows."""
    wanted = file_seen.c.path_sha256.in_([_key(path) for path in paths])
    rows = tx.execute(sa.select(*_SEEN).where(file_seen.c.source_id == source_id, wanted))
    return {seen.path: seen for seen in map(_seen, rows)}


def of_inodes(tx: Tx, source_id: str, inodes: Sequence[str]) -> list[KnownFile]:
    """Return the rows that these inodes had; several paths may share one (hard links)."""
    wanted = file_seen.c.inode.in_(sorted(set(inodes)))
    return [
        _seen(row) for row in tx.execute(sa.select(*_SEEN).where(file_seen.c.source_id == source_id, wanted))
    ]


def page(tx: Tx, source_id: str, after: str, limit: int) -> tuple[list[KnownFile], str]:
    """Return up to ``limit`` rows behind the place ``after`` (empty at first), and the place behind them."""
    rows = tx.execute(
        sa.select(*_SEEN, file_seen.c.path_sha256)
        .where(file_seen.c.source_id == source_id, file_seen.c.path_sha256 > after)
        .order_by(file_seen.c.path_sha256)
        .limit(limit)
    ).all()
    return [_seen(row) for row in rows], rows[-1][-1] if rows else after


def update_known(tx: Tx, source_id: str, seen: Sequence[KnownFile], gone: Sequence[bytes] = ()) -> None:
    """Store the ``seen`` files and delete the ``gone`` ones, in the transaction of their events."""
    keys = sorted({_key(path) for path in (*(one.path for one in seen), *gone)})
    if keys:
        tx.execute(
            sa.delete(file_seen).where(file_seen.c.source_id == source_id, file_seen.c.path_sha256.in_(keys))
        )
    tx.insert(
        file_seen,
        [
            {
                "source_id": source_id,
                "path_sha256": _key(one.path),
                "path": one.path,
                "size": one.size,
                "mtime_ns": one.mtime_ns,
                "ctime_ns": one.ctime_ns,
                "inode": one.inode,
                "sha256": one.sha256,
                "problem": one.problem,
                "seen_at": tx.now,
            }
            for one in seen
        ],
    )


def delete_known(tx: Tx, source_id: str) -> None:
    """Delete all known files of a watch: it was deleted, or its folder changed."""
    tx.execute(sa.delete(file_seen).where(file_seen.c.source_id == source_id))


def watched_paths(database: Database) -> list[str]:
    """Return the paths of all enabled watches: only files below one of them are recorded as written."""
    with database.read() as tx:
        configs = tx.execute(
            sa.select(source.c.config).where(source.c.kind == KIND, source.c.state == "enabled")
        ).scalars()
        return sorted({config["path"] for config in configs if isinstance(config.get("path"), str)})


def list_files(database: Database, name: str, limit: int = 1000) -> list[dict[str, Any]]:
    """Return up to ``limit`` known files of the watch for display, in the order of their paths. Raises
    :class:`NotFound`.
    """
    with database.read() as tx:
        rows = tx.rows(
            sa.select(*_SEEN, file_seen.c.seen_at)
            .where(file_seen.c.source_id == _id(tx, name))
            .order_by(file_seen.c.path)
            .limit(max(1, limit))
        )
    kept = ("size", "mtime_ns", "sha256", "problem", "seen_at")
    return [{"path": text_of(bytes(row["path"]))} | {key: row[key] for key in kept} for row in rows]


def count(database: Database, name: str) -> int:
    """Return the number of known files of the watch. Raises :class:`NotFound`."""
    with database.read() as tx:
        rows = sa.select(sa.func.count()).select_from(file_seen)
        return int(tx.scalar(rows.where(file_seen.c.source_id == _id(tx, name))) or 0)


def rescan(database: Database, name: str, *, content: bool = False) -> None:
    """Make the watch compare every file again, at once; with ``content`` it also reads files with unchanged times.

    The process that runs it releases it and begins anew. Raises :class:`NotFound`.
    """
    with database.write() as tx:
        id_ = _id(tx, name)
        if content:
            tx.execute(sa.update(file_seen).where(file_seen.c.source_id == id_).values(ctime_ns=0))
        tx.execute(
            sa.update(source)
            .where(source.c.id == id_)
            .values(fence=source.c.fence + 1, holder=None, lease_until=None)
        )
        tx.wake("sources")


def text_of(path: bytes) -> str:
    """Return a path as text: bytes that are no UTF-8 become ``\xff``."""
    return path.decode("utf-8", "backslashreplace")


def _id(tx: Tx, name: str) -> str:
    id_ = tx.scalar(
        sa.select(source.c.id).where(
            source.c.kind == KIND, source.c.name == name, source.c.state != "deleted"
        )
    )
    if id_ is None:
        raise NotFound(f"watch {name!r} not found", try_="functory watch list")
    return id_


def _key(path: bytes) -> str:
    return hashlib.sha256(path).hexdigest()


_SEEN = [file_seen.c[name] for name in ("path", "size", "mtime_ns", "ctime_ns", "inode", "sha256", "problem")]


def _seen(row: Any) -> KnownFile:
    return KnownFile(bytes(row[0]), *row[1:7])

"""The file of a SQLite database: that it is still the one that was opened, and why it cannot be used.

A process that has a file open goes on with it after it was deleted or replaced: what it writes then is in no database.
So every transaction first compares the file at the path with the one that was opened. SQLite itself reports most
causes as "unable to open database file" or "disk I/O error"; the state of the disk tells them apart.
"""

from __future__ import annotations

import os
import sqlite3
import urllib.parse
from pathlib import Path
from typing import Any

from functory.engine import private_files
from functory.engine.errors import DatabaseLost, Unavailable

# With less free space (bytes) than SQLite's index of its write-ahead log takes, an I/O error means a full disk.
NO_SPACE_BYTES = 64 * 1024


class DatabaseFile:
    """The file at ``path``, as this process opened it."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._identity: tuple[int, int] | None = None

    def open(self) -> None:
        """Make an empty file where there is none, and note which file it is. Raises :class:`Unavailable` where a file
        was taken away from its write-ahead log.
        """
        if (orphan := orphaned_log(self._path)) is not None:
            raise Unavailable(
                f"there is no database file {self._path}",
                f"its write-ahead log {orphan} is still there: the file was deleted or moved",
                f"move the file back or restore a backup (functory db restore FILE); to start anew, delete {orphan}",
            )
        private_files.create_file(self._path)
        self._identity = _identity(self._path)

    def connect(self, *_: Any, **options: Any) -> sqlite3.Connection:
        """Open a connection, as the driver's own function does. It never makes a file."""
        self.check()
        name = urllib.parse.quote_from_bytes(os.fsencode(self._path.absolute()))
        # With an empty host: a path may begin with two slashes.
        return sqlite3.connect(f"file://{name}?mode=rw", uri=True, **options)

    def check(self) -> None:
        """Raise :class:`DatabaseLost` when the file at the path is not the one that was opened."""
        if self._identity is None:
            # It could not be opened: the connection says why.
            return
        found = _identity(self._path)
        if found != self._identity:
            raise DatabaseLost(
                f"the database file {self._path} was {'deleted or moved' if found is None else 'replaced'}",
                "this process had it open, and stores nothing any more: it would be in no database",
                "move the file back or restore a backup (functory db restore FILE), then start this process again",
            )


def orphaned_log(path: Path) -> Path | None:
    """Return the write-ahead log of a file that is not there; None when the file is there, or the log is not."""
    log = path.with_name(path.name + "-wal")
    return log if not path.exists() and log.exists() and log.stat().st_size else None


def explain(path: Path, error: sqlite3.Error, reason: str) -> tuple[str, str] | None:
    """Return why the file cannot be used, and what to do; None for an error that is not about the file.

    ``reason`` is SQLite's own text.
    """
    code = (getattr(error, "sqlite_errorcode", None) or 0) & 0xFF
    if code == sqlite3.SQLITE_FULL or (code in _FILE_ERRORS and _free_bytes(path) < NO_SPACE_BYTES):
        return f"no space left on device at {path.parent}", "free disk space; nothing was written"
    if code not in _FILE_ERRORS:
        return None
    if not path.parent.is_dir():
        return f"there is no folder {path.parent}", "create it, or correct the path of the database"
    if _is_on_read_only_file_system(path):
        return (
            f"the file system of {path} is read-only",
            "mount it with write access, or set FUNCTORY_HOME to a folder on another one",
        )
    for place in (path.parent, path):
        if place.exists() and not os.access(place, os.R_OK | os.W_OK):
            return (
                f"this user may not read and write {place}",
                f"give the user that runs Functory both rights: chmod u+rw {place}, or chown",
            )
    if code == sqlite3.SQLITE_IOERR:
        return (
            f"{reason} at {path}",
            "check the disk, its quotas and the log of the kernel; nothing was written",
        )
    return None


_FILE_ERRORS = (sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_IOERR, sqlite3.SQLITE_READONLY)


def _identity(path: Path) -> tuple[int, int] | None:
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino


def _free_bytes(path: Path) -> float:
    try:
        found = os.statvfs(path.parent)
    except OSError:
        return float("inf")
    return found.f_bavail * found.f_frsize


def _is_on_read_only_file_system(path: Path) -> bool:
    try:
        return bool(os.statvfs(path.parent).f_flag & os.ST_RDONLY)
    except OSError:
        return False

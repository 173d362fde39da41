"""Reads files that are no longer written, compares them with the known files, and writes events and known files in one
transaction.

A file that an execution wrote gets that execution as its cause, so that lineage goes through the file and the guards
see a loop. Executions record the files that they wrote when they end (``functory.engine.executions.file_writes``). A
file where a running execution may write therefore waits until that execution has ended.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from functory.engine.access import path_grants
from functory.engine.database.transaction import Tx
from functory.engine.events.causation import Cause
from functory.engine.executions import file_writes
from functory.engine.executions.file_writes import FileWriter
from functory.engine.sources import file_watches
from functory.engine.sources.file_watches import KnownFile
from functory.engine.telemetry import metrics
from functory.triggers.sources.files import file_events
from functory.triggers.sources.files.change_detection import Change, ChangeSet, detect_changes, select_changes
from functory.triggers.sources.files.config import FileWatchConfig
from functory.triggers.sources.files.file_facts import FileChanging, is_being_written, read_file, stat_file
from functory.triggers.sources.files.watch_root import WatchRoot
from functory.triggers.sources.files.write_settling import SettlingPath, WriteSettling
from functory.triggers.sources.plugin import SourceContext

# The largest number of bytes that are read for one transaction.
BATCH_BYTES = 64 * 1024 * 1024
# How long a file waits for an execution that may be writing it, and how often it is checked again.
WRITER_SECONDS = 300.0
WRITER_PAUSE = 0.2
# The clocks of database and file system may differ by this much without harm.
CLOCK_SLACK = timedelta(seconds=1)
# How long a deletion waits for a new file with the same inode.
MOVE_SECONDS = 10.0

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass
class FileIngest:
    """Writes the events of one watch at one root."""

    context: SourceContext
    config: FileWatchConfig
    root: WatchRoot
    settling: WriteSettling
    # A file of which the kernel does not say whether it is open: another user's, or on a file system without leases.
    closing_unknown: bytes | None = field(default=None, init=False)

    def ingest(self, rested: Mapping[bytes, SettlingPath], now: float) -> bool:
        """Write the events of changed files. False when the root is gone: then nothing was written.

        Raises :class:`Stale`, :class:`Unavailable`.
        """
        found = self._read(rested, now)
        if not found:
            return True
        known, moved, writers = self.context.read(lambda tx, row: _query_known(tx, row["id"], found))
        for path in [
            path for path, seen in found.items() if seen and self._waits(seen, rested[path], writers, now)
        ]:
            del found[path]
            self.settling.put_back(path, rested[path], now, WRITER_PAUSE)
        missing = [seen for seen in moved if seen.path not in found and self._is_gone(seen.path)]
        # Checked after the files: without the root, all of them would seem to be deleted.
        if not self.root.is_unchanged():
            return False
        changes_found = detect_changes(
            found,
            known,
            missing,
            {path: entry.moved_from for path, entry in rested.items() if entry.moved_from is not None},
            self._expected(known, rested, now),
        )
        for path in changes_found.recheck:
            entry = rested[path]
            entry.waiting_since = now if entry.waiting_since is None else entry.waiting_since
            self.settling.put_back(path, entry, now, WRITER_PAUSE)
        self._write(changes_found)
        return True

    def record_silently(self, paths_: Sequence[bytes]) -> None:
        """Store these files as known without events: they existed before the watch."""
        seen: list[KnownFile] = []
        spent = 0
        for path in paths_:
            if self.context.stop_event.is_set():
                return
            try:
                one = read_file(
                    self.root.folder, path, self.config.max_hash_bytes, follow=self.config.follow_symlinks
                )
            except (OSError, FileChanging):
                # It is being written, or cannot be read: another notification or scan brings it again.
                continue
            if one is not None:
                seen.append(one)
                spent += one.size if one.sha256 else 0
            if spent > BATCH_BYTES:
                self._commit([], seen, [])
                seen, spent = [], 0
        self._commit([], seen, [])

    def forget(self, paths_: Sequence[bytes]) -> None:
        """Remove these known files without events: the watch no longer includes them."""
        self._commit([], [], paths_)

    def _read(self, rested: Mapping[bytes, SettlingPath], now: float) -> dict[bytes, KnownFile | None]:
        found: dict[bytes, KnownFile | None] = {}
        spent = 0
        for path, entry in rested.items():
            if spent > BATCH_BYTES or self.context.stop_event.is_set():
                self.settling.put_back(path, entry, now, 0.0)
                continue
            if self.config.wait_for_close and entry.facts and self._is_open(path):
                self.settling.put_back(path, entry, now, max(self.config.settle, WRITER_PAUSE))
                continue
            try:
                seen = entry.facts and read_file(
                    self.root.folder, path, self.config.max_hash_bytes, follow=self.config.follow_symlinks
                )
            except FileChanging:
                self.settling.put_back(path, entry, now, self.config.settle)
                continue
            except OSError:
                # It cannot be read at present; the next scan tries again.
                continue
            found[path] = seen
            spent += seen.size if seen and seen.sha256 else 0
        return found

    def _is_open(self, path: bytes) -> bool:
        written = is_being_written(self.root.path(path), follow=self.config.follow_symlinks)
        if written is None:
            self.closing_unknown = self.closing_unknown or path
        return bool(written)

    def _waits(self, seen: KnownFile, entry: SettlingPath, writers: Sequence[FileWriter], now: float) -> bool:
        """True if a running execution may be writing the file."""
        if not writers:
            return False
        path = os.fsdecode(self._real(seen.path))
        changed = _EPOCH + timedelta(microseconds=seen.ctime_ns // 1000)
        if not any(
            changed >= writer.started_at - CLOCK_SLACK
            and path_grants.inside(path, _real_folders(writer.folders))
            for writer in writers
        ):
            return False
        entry.waiting_since = now if entry.waiting_since is None else entry.waiting_since
        return now - entry.waiting_since < WRITER_SECONDS

    def _expected(
        self, known: Mapping[bytes, KnownFile], rested: Mapping[bytes, SettlingPath], now: float
    ) -> set[str]:
        """Inodes of deleted files that are settling at another path."""
        waited = self.settling.inodes
        return {
            known[path].inode
            for path, entry in rested.items()
            if path in known
            and known[path].inode in waited
            and (entry.waiting_since is None or now - entry.waiting_since < MOVE_SECONDS)
        }

    def _is_gone(self, path: bytes) -> bool:
        try:
            return stat_file(self.root.path(path), follow=self.config.follow_symlinks) is None
        except OSError:
            return False

    def _real(self, path: bytes) -> bytes:
        """The real path of a file, as executions record it."""
        whole = self.root.path(path)
        return os.path.realpath(whole) if self.config.follow_symlinks else whole

    def _write(self, changes_found: ChangeSet) -> None:
        selected = select_changes(changes_found.changes, self.config.events)
        found = self._causes([change for change in selected if change.type != "deleted"])
        single = self.root.file_name is not None
        arrivals = [
            file_events.file_event(
                change,
                self.context.name,
                self.config.path,
                single,
                None if change.type == "deleted" else found.get(change.file.path),
            )
            for change in selected
        ]
        self._commit(arrivals, changes_found.known, changes_found.removed)
        for change in selected:
            metrics.file_events.labels(change.type).inc()

    def _causes(self, changes: Sequence[Change]) -> dict[bytes, Cause]:
        """The executions that made these changes, by relative path."""
        places = {self._real(change.file.path): change.file for change in changes}
        if not places:
            return {}
        contents = {
            real: [
                file_watches.content_id(sha256, seen.size, seen.mtime_ns) for sha256 in {seen.sha256, None}
            ]
            for real, seen in places.items()
        }
        changed = {
            real: _EPOCH + timedelta(microseconds=seen.mtime_ns // 1000) for real, seen in places.items()
        }
        found = self.context.read(lambda tx, _row: file_writes.find_causes(tx, contents, changed))
        return {places[real].path: cause for real, cause in found.items()}

    def _commit(self, arrivals: Sequence[Any], keep: Sequence[KnownFile], gone: Sequence[bytes]) -> None:
        if arrivals or keep or gone:
            self.context.put(
                arrivals, also=lambda tx, row: file_watches.update_known(tx, row["id"], keep, gone)
            )


_KnownFiles = tuple[dict[bytes, KnownFile], list[KnownFile], list[FileWriter]]


def _query_known(tx: Tx, source_id: str, found: Mapping[bytes, KnownFile | None]) -> _KnownFiles:
    """Known files at these paths, known files with the inodes of new ones, and running executions that may write.

    Running executions are read before recorded writes: an execution that ends in between has its record.
    """
    known = file_watches.load_known(tx, source_id, list(found))
    new = [seen.inode for path, seen in found.items() if seen is not None and path not in known]
    moved = file_watches.of_inodes(tx, source_id, new) if new else []
    writers = file_writes.running_writers(tx) if any(found.values()) else []
    return known, moved, writers


def _real_folders(folders: Sequence[str]) -> list[str]:
    return [os.path.realpath(folder) for folder in folders]

"""One scan: compares the files in the folder with the known files, in steps, so that the watcher keeps listening.

Only differing paths are queued, and are handled like notified ones. The first scan of a watch, and the first after its
patterns changed, stores the existing files as known, unless they are newer than the watch.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import Any

from functory.engine.sources import file_watches
from functory.engine.sources.file_watches import KnownFile
from functory.triggers.sources.files.config import FileWatchConfig
from functory.triggers.sources.files.directory_walk import DirectoryWalk
from functory.triggers.sources.files.file_facts import FileFacts, stat_file
from functory.triggers.sources.files.glob_patterns import GlobFilter
from functory.triggers.sources.files.ingest import FileIngest
from functory.triggers.sources.files.watch_root import WatchRoot
from functory.triggers.sources.files.write_settling import WriteSettling
from functory.triggers.sources.plugin import SourceContext


class PreviousScope:
    """Files that the watch included when it last completed a scan. ``look`` is the scope of that scan, None if none."""

    def __init__(self, look: list[Any] | None) -> None:
        _, patterns, ignore, self._recursive, _ = look or ("", (), (), False, False)
        self._selection = GlobFilter(patterns, ignore)

    def included(self, path: bytes) -> bool:
        """True if a file at this path was included in that scan."""
        return (self._recursive or b"/" not in path) and self._selection.includes(os.fsdecode(path))


def scan_scope(config: FileWatchConfig) -> list[Any]:
    """The parts of the configuration that decide which files a scan includes."""
    return [
        config.path, list(config.patterns), list(config.ignore), config.recursive, config.follow_symlinks,
    ]  # fmt: skip


@dataclass
class Rescan:
    """One scan. The caller iterates ``steps`` to its end."""

    context: SourceContext
    config: FileWatchConfig
    root: WatchRoot
    wants: Callable[[bytes], bool]
    walk: DirectoryWalk
    settling: WriteSettling
    ingest: FileIngest
    monotonic: Callable[[], float]
    cursor: Mapping[str, Any]
    step: int

    def steps(self) -> Iterator[None]:
        """Compare up to ``step`` files a step and queue those that differ. The settling queue must have room for them.

        Raises OSError when the root cannot be read, :class:`Stale`, :class:`Unavailable`.
        """
        look = self.cursor.get("look")
        first = look != scan_scope(self.config)
        quiet = first and self.config.initial == "ignore"
        before = PreviousScope(look)
        walk = iter(self.walk)
        while chunk := dict(islice(((path, found) for path, found in walk if self.wants(path)), self.step)):
            self._compare(chunk, before if quiet else None)
            yield
        yield from self._missing()

    def _compare(self, chunk: Mapping[bytes, FileFacts], before: PreviousScope | None) -> None:
        known = self.context.read(lambda tx, row: file_watches.load_known(tx, row["id"], list(chunk)))
        new: list[bytes] = []
        for path, found in chunk.items():
            if path in known:
                if not found.unchanged_since(known[path]):
                    self._queue_check(path)
            elif before is None or before.included(path) or path in self.settling or self._has_come(found):
                self._queue_check(path)
            else:
                new.append(path)
        self.ingest.record_silently(new)

    def _missing(self) -> Iterator[None]:
        place = ""
        while True:
            known, place = self.context.read(
                lambda tx, row, at=place: file_watches.page(tx, row["id"], at, self.step)
            )
            if not known:
                return
            unwanted = {seen.path for seen in known if not self.wants(seen.path)}
            if unwanted:
                self.ingest.forget(sorted(unwanted))
            for seen in known:
                if seen.path not in unwanted and self._is_gone(seen):
                    self._queue_check(seen.path)
            yield

    def _is_gone(self, seen: KnownFile) -> bool:
        try:
            return stat_file(self.root.path(seen.path), follow=self.config.follow_symlinks) is None
        except OSError:
            return False

    def _has_come(self, found: FileFacts) -> bool:
        """True if the file was created, moved here or changed after the watch was saved."""
        return found.ctime_ns > self.context.since.timestamp() * 1e9

    def _queue_check(self, path: bytes) -> None:
        if path not in self.settling:
            self.settling.notify(path, self.monotonic())

"""Walks everything below a root, one directory entry at a time, so that memory does not grow with the tree.

Folders that cannot be read (no permission, or just deleted) are left out and counted. Only the root itself must exist.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from functory.triggers.sources.files.file_facts import FileFacts, stat_file
from functory.triggers.sources.files.glob_patterns import GlobFilter

# Deeper trees are loops or attacks; their names would be longer than the kernel takes.
MAX_DEPTH = 100


@dataclass
class DirectoryWalk:
    """The files of a watch below ``root``; iterate for (relative path, facts). Raises OSError for the root itself."""

    root: bytes
    selection: GlobFilter
    recursive: bool = True
    follow: bool = False
    file_name: bytes | None = None
    unreadable: list[bytes] = field(default_factory=list)

    def __iter__(self) -> Iterator[tuple[bytes, FileFacts]]:
        if self.file_name is not None:
            os.stat(self.root)
            with contextlib.suppress(OSError):
                found = stat_file(os.path.join(self.root, self.file_name), follow=self.follow)
                if found is not None:
                    yield self.file_name, found
            return
        # Each open folder is an iterator over its entries and the inodes above it, against links that lead back.
        above = frozenset({_identity(os.stat(self.root))})
        stack: list[_Open] = [(b"", os.scandir(self.root), above)]
        try:
            while stack:
                folder, entries, chain = stack[-1]
                entry = self._next(folder, entries)
                if entry is None:
                    entries.close()
                    stack.pop()
                    continue
                path = folder + b"/" + entry.name if folder else entry.name
                opened = self._open(entry, path, chain) if len(stack) < MAX_DEPTH else None
                if opened is not None:
                    stack.append(opened)
                    continue
                if self.selection.includes(os.fsdecode(path)):
                    found = self._facts(entry)
                    if found is not None:
                        yield path, found
        finally:
            for _, entries, _ in stack:
                entries.close()

    def _next(self, folder: bytes, entries: Iterator[os.DirEntry[bytes]]) -> os.DirEntry[bytes] | None:
        try:
            return next(entries, None)
        except OSError:
            self.unreadable.append(folder)
            return None

    def _open(
        self, entry: os.DirEntry[bytes], path: bytes, chain: frozenset[tuple[int, int]]
    ) -> _Open | None:
        """The folder behind an entry, opened; None for what is no folder to go into."""
        if not self.recursive:
            return None
        try:
            if not entry.is_dir(follow_symlinks=self.follow) or self.selection.excludes_folder(
                os.fsdecode(path)
            ):
                return None
            me = _identity(entry.stat(follow_symlinks=self.follow))
            if me in chain:
                return None
            return path, os.scandir(entry.path), chain | {me}
        except OSError:
            self.unreadable.append(path)
            return None

    def _facts(self, entry: os.DirEntry[bytes]) -> FileFacts | None:
        try:
            return FileFacts.from_stat(entry.stat(follow_symlinks=self.follow))
        except OSError:
            return None


# A folder's relative path, its entries, and the identities of it and those above it.
_Open = tuple[bytes, Any, frozenset[tuple[int, int]]]


def _identity(found: os.stat_result) -> tuple[int, int]:
    return found.st_dev, found.st_ino

"""Paths of which something was heard, until they rest.

A path is at rest when nothing was heard of it for the settle time and two looks that far apart found the same. However
often it is heard of meanwhile, it is one entry: fifty appends become one change. The number of entries is
bounded; what finds no room is left to the next scan. Time comes in as a parameter, in seconds of any clock that does
not go back.
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Callable, Collection
from dataclasses import dataclass

from functory.triggers.sources.files.file_facts import FileFacts

# Longest line of names that a file had since it was told of last: what is moved more often is told as another file.
_HOPS = 16


@dataclass(slots=True)
class SettlingPath:
    """A path that is waited for: what the last look found (None: no file), and when to look again.

    ``unsure`` when the last look could not tell whether there is a file.
    """

    facts: FileFacts | None
    due: float
    check_failed: bool = False
    moved_from: bytes | None = None
    waiting_since: float | None = None


class WriteSettling:
    """The waiting paths of one watch."""

    def __init__(self, quiet: float, most: int, look: Callable[[bytes], FileFacts | None]) -> None:
        self._quiet = quiet
        self._most = most
        self._stat = look
        self._entries: dict[bytes, SettlingPath] = {}
        self._order: list[tuple[float, bytes]] = []
        self._inodes: Counter[str] = Counter()

    def __len__(self) -> int:
        return len(self._entries)

    def __contains__(self, path: bytes) -> bool:
        return path in self._entries

    @property
    def room(self) -> int:
        """How many more paths it takes."""
        return self._most - len(self._entries)

    @property
    def inodes(self) -> Collection[str]:
        """The inodes of the files that are waited for."""
        return self._inodes

    def notify(self, path: bytes, now: float, moved_from: bytes | None = None) -> bool:
        """Something happened to the path. False when there is no room for it."""
        entry = self._entries.get(path)
        if entry is None:
            if self.room <= 0:
                return False
            entry = self._entries[path] = SettlingPath(None, now + self._quiet)
            heapq.heappush(self._order, (entry.due, path))
            self._find(entry, path)
        entry.due = now + self._quiet
        if moved_from is not None:
            entry.moved_from = self._origin(moved_from, path)
        return True

    def take_settled(self, now: float, limit: int) -> dict[bytes, SettlingPath]:
        """Take out up to ``limit`` paths that are at rest, with what is known of them, the longest waiting first.

        What cannot be looked at is dropped: the next scan asks again.
        """
        rested: dict[bytes, SettlingPath] = {}
        while self._order and self._order[0][0] <= now and len(rested) < limit:
            _, path = heapq.heappop(self._order)
            entry = self._entries[path]
            if entry.due <= now:
                before = entry.facts
                self._find(entry, path)
                if entry.facts == before or entry.check_failed:
                    del self._entries[path]
                    self._count(entry.facts, -1)
                    if not entry.check_failed:
                        rested[path] = entry
                    continue
                entry.due = now + self._quiet
            heapq.heappush(self._order, (entry.due, path))
        return rested

    def put_back(self, path: bytes, entry: SettlingPath, now: float, pause: float) -> None:
        """Put a path back that was taken out, to be looked at after ``pause`` seconds; there is always room for it."""
        there = self._entries.get(path)
        if there is not None:
            there.moved_from = there.moved_from or entry.moved_from
            there.waiting_since = entry.waiting_since
            return
        entry.due = now + pause
        self._entries[path] = entry
        self._count(entry.facts, 1)
        heapq.heappush(self._order, (entry.due, path))

    def next_due(self) -> float | None:
        """When there is something to look at; None when nothing waits."""
        return self._order[0][0] if self._order else None

    def clear(self) -> None:
        """Wait for nothing any more."""
        self._entries.clear()
        self._order.clear()
        self._inodes.clear()

    def _find(self, entry: SettlingPath, path: bytes) -> None:
        self._count(entry.facts, -1)
        try:
            entry.facts, entry.check_failed = self._stat(path), False
        except OSError:
            entry.facts, entry.check_failed = None, True
        self._count(entry.facts, 1)

    def _count(self, found: FileFacts | None, change: int) -> None:
        if found is not None:
            self._inodes[found.inode] += change
            if self._inodes[found.inode] <= 0:
                del self._inodes[found.inode]

    def _origin(self, path: bytes, end: bytes) -> bytes | None:
        """Where a file that came from ``path`` was when it was told of last: moved twice, it is told as moved once."""
        for _ in range(_HOPS):
            entry = self._entries.get(path)
            if entry is None or entry.moved_from is None:
                break
            path = entry.moved_from
        return path if path != end else None

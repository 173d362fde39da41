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

from functory.triggers.sources.files.file_facts import Facts

# Longest line of names that a file had since it was told of last: what is moved more often is told as another file.
_HOPS = 16


@dataclass(slots=True)
class Entry:
    """A path that is waited for: what the last look found (None: no file), and when to look again.

    ``unsure`` when the last look could not tell whether there is a file.
    """

    found: Facts | None
    due: float
    unsure: bool = False
    moved_from: bytes | None = None
    held_since: float | None = None


class Settling:
    """The waiting paths of one watch."""

    def __init__(self, quiet: float, most: int, look: Callable[[bytes], Facts | None]) -> None:
        self._quiet = quiet
        self._most = most
        self._look = look
        self._entries: dict[bytes, Entry] = {}
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

    def hear(self, path: bytes, now: float, moved_from: bytes | None = None) -> bool:
        """Something happened to the path. False when there is no room for it."""
        entry = self._entries.get(path)
        if entry is None:
            if self.room <= 0:
                return False
            entry = self._entries[path] = Entry(None, now + self._quiet)
            heapq.heappush(self._order, (entry.due, path))
            self._find(entry, path)
        entry.due = now + self._quiet
        if moved_from is not None:
            entry.moved_from = self._origin(moved_from, path)
        return True

    def rested(self, now: float, limit: int) -> dict[bytes, Entry]:
        """Take out up to ``limit`` paths that are at rest, with what is known of them, the longest waiting first.

        What cannot be looked at is dropped: the next scan asks again.
        """
        rested: dict[bytes, Entry] = {}
        while self._order and self._order[0][0] <= now and len(rested) < limit:
            _, path = heapq.heappop(self._order)
            entry = self._entries[path]
            if entry.due <= now:
                before = entry.found
                self._find(entry, path)
                if entry.found == before or entry.unsure:
                    del self._entries[path]
                    self._count(entry.found, -1)
                    if not entry.unsure:
                        rested[path] = entry
                    continue
                entry.due = now + self._quiet
            heapq.heappush(self._order, (entry.due, path))
        return rested

    def again(self, path: bytes, entry: Entry, now: float, pause: float) -> None:
        """Put a path back that was taken out, to be looked at after ``pause`` seconds; there is always room for it."""
        there = self._entries.get(path)
        if there is not None:
            there.moved_from = there.moved_from or entry.moved_from
            there.held_since = entry.held_since
            return
        entry.due = now + pause
        self._entries[path] = entry
        self._count(entry.found, 1)
        heapq.heappush(self._order, (entry.due, path))

    def next_due(self) -> float | None:
        """When there is something to look at; None when nothing waits."""
        return self._order[0][0] if self._order else None

    def clear(self) -> None:
        """Wait for nothing any more."""
        self._entries.clear()
        self._order.clear()
        self._inodes.clear()

    def _find(self, entry: Entry, path: bytes) -> None:
        self._count(entry.found, -1)
        try:
            entry.found, entry.unsure = self._look(path), False
        except OSError:
            entry.found, entry.unsure = None, True
        self._count(entry.found, 1)

    def _count(self, found: Facts | None, change: int) -> None:
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

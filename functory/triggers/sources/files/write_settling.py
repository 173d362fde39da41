"""Holds changed paths until they are no longer written.

A path has settled when no notification came for the settle time and two checks that far apart found the same facts.
Any number of notifications for a path make one entry: fifty appends become one change. The number of entries is
bounded; paths without room are found by the next scan. Time is a parameter, in seconds of any monotonic clock.
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Callable, Collection
from dataclasses import dataclass

from functory.triggers.sources.files.file_facts import FileFacts

# Renames that are followed back to a file's last reported path. After more, it is reported as a new file.
_MAX_RENAMES = 16


@dataclass(slots=True)
class SettlingPath:
    """A settling path: the facts of the last check (None: no file), and when to check again.

    ``check_failed`` is True when the last check could not read the path.
    """

    facts: FileFacts | None
    due: float
    check_failed: bool = False
    moved_from: bytes | None = None
    waiting_since: float | None = None


class WriteSettling:
    """The settling paths of one watch."""

    def __init__(self, quiet: float, most: int, stat: Callable[[bytes], FileFacts | None]) -> None:
        self._quiet = quiet
        self._most = most
        self._stat = stat
        self._entries: dict[bytes, SettlingPath] = {}
        self._order: list[tuple[float, bytes]] = []
        self._inodes: Counter[str] = Counter()

    def __len__(self) -> int:
        return len(self._entries)

    def __contains__(self, path: bytes) -> bool:
        return path in self._entries

    @property
    def room(self) -> int:
        """The number of paths that still fit."""
        return self._most - len(self._entries)

    @property
    def inodes(self) -> Collection[str]:
        """Inodes of the settling files."""
        return self._inodes

    def notify(self, path: bytes, now: float, moved_from: bytes | None = None) -> bool:
        """Record a change of the path. False when there is no room for it."""
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
        """Remove and return up to ``limit`` settled paths, longest waiting first.

        Paths that cannot be read are dropped: the next scan finds them again.
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
        """Return a path that was removed, to be checked after ``pause`` seconds. There is always room for it."""
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
        """Time of the next check; None without settling paths."""
        return self._order[0][0] if self._order else None

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
        """The last reported path of a file that came from ``path``: two moves in a row are reported as one."""
        for _ in range(_MAX_RENAMES):
            entry = self._entries.get(path)
            if entry is None or entry.moved_from is None:
                break
            path = entry.moved_from
        return path if path != end else None

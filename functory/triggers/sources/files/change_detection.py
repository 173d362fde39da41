"""Compares files with their known state and lists the changes. Pure.

Content decides: a file that was only touched, or written again with the same bytes, has not changed. A new file counts
as moved when a known file with its inode and content is gone, and either the time is the same or the kernel reported
the move. A file in another file's place is a modification of that one. A rename that completes a file is no move: the
content is another than the reported one, or the old name is the new one with something around it (``big.csv.half``).
Then the whole file is created and the half one deleted.
"""

from __future__ import annotations

import posixpath
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace

from functory.engine.sources.file_watches import KnownFile

TYPES = ("created", "modified", "deleted", "moved")


@dataclass(frozen=True, slots=True)
class Change:
    """One event: ``file`` as it is (of a deletion: as it was), ``before`` as it was known."""

    type: str
    file: KnownFile
    before: KnownFile | None = None


@dataclass
class ChangeSet:
    """Changes to report, files to store, paths to remove, and paths to check again later."""

    changes: list[Change] = field(default_factory=list)
    known: list[KnownFile] = field(default_factory=list)
    removed: list[bytes] = field(default_factory=list)
    recheck: list[bytes] = field(default_factory=list)


def detect_changes(
    found: Mapping[bytes, KnownFile | None],
    known: Mapping[bytes, KnownFile],
    missing: Sequence[KnownFile] = (),
    moved_from: Mapping[bytes, bytes] | None = None,
    expected: Collection[str] = (),
) -> ChangeSet:
    """Compare ``found`` (None: no such file) with ``known``.

    ``missing`` are known files at other paths that are gone. ``moved_from`` are the moves that the kernel reported,
    from new path to old one. ``expected`` are inodes that are being moved: a known file with one of them is not
    reported as deleted yet.
    """
    result = ChangeSet()
    hints = moved_from or {}
    left = {seen.path: seen for path, seen in known.items() if path in found and found[path] is None}
    left |= {seen.path: seen for seen in missing if found.get(seen.path) is None}
    origins = _MoveCandidates(left)
    for path, now in found.items():
        if now is None:
            continue
        before = known.get(path)
        origin = None if before is not None else origins.match(now, hints.get(path))
        if before is not None:
            _compare(result, before, now)
        elif origin is not None:
            result.removed.append(origin.path)
            kept = _kept(origin, now)
            result.changes.append(Change("moved", kept, origin))
            result.known.append(kept)
        else:
            result.changes.append(Change("created", now))
            result.known.append(now)
    for path, now in found.items():
        if now is None and path in left and path not in origins.taken:
            if left[path].inode in expected:
                result.recheck.append(path)
            else:
                result.changes.append(Change("deleted", left[path], left[path]))
                result.removed.append(path)
    return result


def select_changes(changes: Sequence[Change], types: Collection[str]) -> list[Change]:
    """The changes of these types. Without the type ``moved``, a move is a deletion and a creation."""
    selected: list[Change] = []
    for change in changes:
        if change.type == "moved" and "moved" not in types and change.before is not None:
            selected += [Change("deleted", change.before, change.before), Change("created", change.file)]
        else:
            selected.append(change)
    return [change for change in selected if change.type in types]


class _MoveCandidates:
    """Known files that are gone from their paths. Each may have been moved to one new path."""

    def __init__(self, left: Mapping[bytes, KnownFile]) -> None:
        self._left = left
        self._by_inode: dict[str, list[KnownFile]] = {}
        for seen in left.values():
            self._by_inode.setdefault(seen.inode, []).append(seen)
        self.taken: set[bytes] = set()

    def match(self, now: KnownFile, hint: bytes | None) -> KnownFile | None:
        for seen in self._by_inode.get(now.inode, ()):
            # A deleted file's inode may be reused at once; its time is not.
            same = _equal(seen, now) and (seen.mtime_ns == now.mtime_ns or seen.path == hint)
            if same and seen.path not in self.taken and not _completes(seen.path, now.path):
                self.taken.add(seen.path)
                return seen
        return None


def _completes(old: bytes, new: bytes) -> bool:
    """True if a rename of ``old`` gives a file its whole name."""
    half, whole = posixpath.basename(old), posixpath.basename(new)
    return half != whole and whole in half


def _compare(result: ChangeSet, before: KnownFile, now: KnownFile) -> None:
    if _equal(before, now):
        kept = _kept(before, now)
        if kept != before:
            result.known.append(kept)
        return
    result.changes.append(Change("modified", now, before))
    result.known.append(now)


def _equal(before: KnownFile, now: KnownFile) -> bool:
    if before.sha256 is not None and now.sha256 is not None:
        return before.sha256 == now.sha256
    if before.problem is not None and now.problem is None:
        # The file could not be read before and can be read now.
        return False
    return (before.size, before.mtime_ns) == (now.size, now.mtime_ns)


def _kept(before: KnownFile, now: KnownFile) -> KnownFile:
    """``now`` with the known hash: a file that cannot be read at present has not lost its content."""
    if now.sha256 is not None or before.sha256 is None:
        return now
    return replace(now, sha256=before.sha256)

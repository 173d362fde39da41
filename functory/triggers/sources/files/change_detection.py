"""What is to be told: the files as they are, against the files as they are known. Pure.

Content decides: a file that was only touched, or written anew with the same bytes, tells nothing. A file that is new
is one that was moved when a known file with its inode is gone and either content and time are the same or the kernel
said that it was moved from there; a file in another's place is a modification of that one.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

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
    """What to tell, what to know from now on, what to know no longer, and what to look at again later."""

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

    ``homeless`` are known files elsewhere of which nothing is left in their place, ``moved_from`` what the kernel said
    of moves, new path to old one, ``expected`` inodes that are on their way: a known file with one of them is
    not told as deleted yet.
    """
    verdict = ChangeSet()
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
            _compare(verdict, before, now)
        elif origin is not None:
            verdict.removed.append(origin.path)
            same = _equal(origin, now)
            kept = _kept(origin, now) if same else now
            verdict.changes.append(Change("moved", kept, origin))
            if not same:
                verdict.changes.append(Change("modified", kept, origin))
            verdict.known.append(kept)
        else:
            verdict.changes.append(Change("created", now))
            verdict.known.append(now)
    for path, now in found.items():
        if now is None and path in left and path not in origins.taken:
            if left[path].inode in expected:
                verdict.recheck.append(path)
            else:
                verdict.changes.append(Change("deleted", left[path], left[path]))
                verdict.removed.append(path)
    return verdict


def select_changes(changes: Sequence[Change], types: Collection[str]) -> list[Change]:
    """The changes of these types; a move that is not told as one is a deletion and a creation."""
    told: list[Change] = []
    for change in changes:
        if change.type == "moved" and "moved" not in types and change.before is not None:
            told += [Change("deleted", change.before, change.before), Change("created", change.file)]
        else:
            told.append(change)
    return [change for change in told if change.type in types]


class _MoveCandidates:
    """Known files that are no longer in their places, each of which may have become one other file."""

    def __init__(self, left: Mapping[bytes, KnownFile]) -> None:
        self._left = left
        self._by_inode: dict[str, list[KnownFile]] = {}
        for seen in left.values():
            self._by_inode.setdefault(seen.inode, []).append(seen)
        self.taken: set[bytes] = set()

    def match(self, now: KnownFile, hint: bytes | None) -> KnownFile | None:
        for seen in self._by_inode.get(now.inode, ()):
            # A deleted file's inode may be another file's at once; its time is not.
            same = seen.mtime_ns == now.mtime_ns and _equal(seen, now)
            if seen.path not in self.taken and (same or seen.path == hint):
                self.taken.add(seen.path)
                return seen
        return None


def _compare(verdict: ChangeSet, before: KnownFile, now: KnownFile) -> None:
    if _equal(before, now):
        kept = _kept(before, now)
        if kept != before:
            verdict.known.append(kept)
        return
    verdict.changes.append(Change("modified", now, before))
    verdict.known.append(now)


def _equal(before: KnownFile, now: KnownFile) -> bool:
    if before.sha256 is not None and now.sha256 is not None:
        return before.sha256 == now.sha256
    if before.problem is not None and now.problem is None:
        # What could not be read can be now.
        return False
    return (before.size, before.mtime_ns) == (now.size, now.mtime_ns)


def _kept(before: KnownFile, now: KnownFile) -> KnownFile:
    """``now`` with the hash that is known: one that cannot be read at present has not lost its content."""
    if now.sha256 is not None or before.sha256 is None:
        return now
    return KnownFile(now.path, now.size, now.mtime_ns, now.ctime_ns, now.inode, before.sha256, now.problem)

"""Finds the user ids that a worker with root's rights may give to its functions.

Root of the machine has all ids, root of a container some. They are read from the maps in /proc
(user_namespaces(7)): lines of ``first id inside, first id outside, count``.
"""

from __future__ import annotations

from pathlib import Path

# What systemd's table of user ids leaves unused: neither people, services nor containers are there.
_UNUSED = range(0x70000000, 0x7FFE0000)
_NOBODY = 65534
_FIRST_OF_PEOPLE = 1000


def free_ids(count: int = 257, seed: int = 0) -> int:
    """Return the first of ``count`` ids that this process may give away and that are probably unused.

    Different seeds give different blocks, as far as there are enough; neighbours never overlap. OSError where
    this process has no such block.
    """
    return pick(Path("/proc/self/uid_map").read_text(), Path("/proc/self/gid_map").read_text(), count, seed)


def pick(uids: str, gids: str, count: int, seed: int) -> int:
    """``free_ids`` over the texts of uid_map and gid_map: the block must be in both."""
    usable: list[range] = []
    for mine in _ranges(uids):
        for other in _ranges(gids):
            both = range(max(mine.start, other.start), min(mine.stop, other.stop))
            usable += [_overlap(both, _UNUSED)] if _overlap(both, _UNUSED) else _without_people(both)
    blocks = [(part.start, len(part) // count) for part in usable if len(part) >= count]
    # The large ranges first: the others are only a fallback.
    if any(start in _UNUSED for start, _ in blocks):
        blocks = [block for block in blocks if block[0] in _UNUSED]
    total = sum(number for _, number in blocks)
    if not total:
        raise OSError(f"no {count} free ids are mapped into the user namespace of this process")
    chosen = seed % total
    for start, number in blocks:
        if chosen < number:
            return start + chosen * count
        chosen -= number
    raise AssertionError("a chosen block is one of all")


def _ranges(text: str) -> list[range]:
    lines = [[int(word) for word in line.split()] for line in text.splitlines() if line.strip()]
    return [range(inside, inside + count) for inside, _, count in lines]


def _overlap(one: range, other: range) -> range:
    return range(max(one.start, other.start), min(one.stop, other.stop))


def _without_people(ids: range) -> list[range]:
    """Return the part of a container's ids that its own users do not have."""
    return [
        _overlap(ids, range(_FIRST_OF_PEOPLE * 10, _NOBODY)),
        _overlap(ids, range(_NOBODY + 1, _UNUSED.start)),
    ]

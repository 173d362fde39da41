"""Hashes the watched files that an execution wrote, so that their file events name it as their cause.

The child reports the files that it opened for writing. The worker reads them when the attempt has ended: only those in
a granted path and below a watched root.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Sequence

from functory.engine.sources.file_watches import HASH_BYTES, content_id, hash_content

# Bytes hashed for one execution, in its slot's time; further files are identified by size and time.
BUDGET = 256 * 1024 * 1024


def collect(
    written: Sequence[bytes], granted: Sequence[str], watched: Sequence[str], budget: int = BUDGET
) -> list[tuple[bytes, str]]:
    """The written files: (real absolute path, id of the content).

    ``granted`` and ``watched`` are absolute paths of folders or files; at most ``budget`` bytes are hashed. Files that
    are gone, not regular or not readable are left out.
    """
    if not written or not watched:
        return []
    places = [os.path.realpath(os.fsencode(path)) for path in granted]
    roots = [os.path.realpath(os.fsencode(path)) for path in watched]
    paths = {os.path.realpath(path) for path in written if b"\x00" not in path}
    found: list[tuple[bytes, str]] = []
    for path in sorted(paths):
        if _inside(path, places) and _inside(path, roots):
            content, size = _content(path, min(HASH_BYTES, budget))
            budget -= size
            if content is not None:
                found.append((path, content))
    return found


def _content(path: bytes, most: int) -> tuple[str | None, int]:
    """The id of a file's content, and the number of bytes read for it."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
    except OSError:
        return None, 0
    try:
        facts = os.fstat(descriptor)
        if not stat.S_ISREG(facts.st_mode):
            return None, 0
        sha256 = hash_content(descriptor, most) if facts.st_size <= most else None
        return content_id(sha256, facts.st_size, facts.st_mtime_ns), facts.st_size if sha256 else 0
    except OSError:
        return None, 0
    finally:
        os.close(descriptor)


def _inside(path: bytes, folders: Sequence[bytes]) -> bool:
    return any(path == folder or path.startswith(folder.rstrip(b"/") + b"/") for folder in folders)

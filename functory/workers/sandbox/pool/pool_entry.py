"""State of one pool key: its zygote, its spares and their times."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field

from functory.workers.sandbox.pool.child import Child
from functory.workers.sandbox.pool.pool_key import PoolKey
from functory.workers.sandbox.pool.zygote_process import ZygoteProcess
from functory.workers.sandbox.protocol.plan import Bounds


@dataclass
class PoolEntry:
    """State of one pool key."""

    key: PoolKey
    starting: threading.Lock = field(default_factory=threading.Lock)
    zygote: ZygoteProcess | None = None
    since: float = 0.0
    used: float = float("-inf")
    hot: float = float("-inf")
    renewing: bool = False
    users: int = 0  # threads that are getting a child from it: it may not be taken away from them
    spares: dict[Bounds, list[Child]] = field(default_factory=dict)


def spares_of(entry: PoolEntry) -> list[Child]:
    return [child for children in entry.spares.values() for child in children]


def is_unused(entry: PoolEntry) -> bool:
    """Return True if its zygote has no children but spares, is not requested, and is not about to be
    replaced."""
    if entry.users or entry.renewing:
        return False
    zygote = entry.zygote
    return zygote is None or zygote.child_count() <= len(spares_of(entry))

"""Holds the state of one pool key: its zygote, its spares, and when they were used."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field

from functory.workers.sandbox.pool.child import Child
from functory.workers.sandbox.pool.pool_key import PoolKey
from functory.workers.sandbox.pool.zygote_process import ZygoteProcess
from functory.workers.sandbox.protocol.plan import Bounds


@dataclass
class PoolEntry:
    """The zygote and the spares of one pool key; ``since``, ``used`` and ``hot`` are times of the pool's clock.

    ``hot`` is the time of the last use that followed another one soon.
    """

    key: PoolKey
    starting: threading.Lock = field(default_factory=threading.Lock)
    zygote: ZygoteProcess | None = None
    since: float = 0.0
    used: float = float("-inf")
    hot: float = float("-inf")
    renewing: bool = False
    users: int = 0  # threads that are getting a child from it: meanwhile it may not be removed
    spares: dict[Bounds, list[Child]] = field(default_factory=dict)


def spares_of(entry: PoolEntry) -> list[Child]:
    return [child for children in entry.spares.values() for child in children]


def is_unused(entry: PoolEntry) -> bool:
    """Return True if the entry has no children but spares, no user, and no replacement on its way."""
    if entry.users or entry.renewing:
        return False
    zygote = entry.zygote
    return zygote is None or zygote.child_count() <= len(spares_of(entry))

"""Keeps children of functions with ``reuse=True``, to run the same version again.

One such child runs one version with one set of codes, grants and limits, and nothing else; its memory
is that version's own. It is ended after a failure, after ``reuse_calls`` runs, when it is older than
``reuse_seconds``, and when it sends anything while idle.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import NamedTuple

from functory.workers.sandbox.pool.child import Child
from functory.workers.sandbox.pool.pool import Options, Pool
from functory.workers.sandbox.pool.pool_key import PoolKey
from functory.workers.sandbox.protocol.job import Job
from functory.workers.sandbox.protocol.plan import Bounds

_MAX_IDLE = 32  # of one version: as many as may have run at the same time


class WarmKey(NamedTuple):
    """Properties that make two executions the same to a warm child: the exact code, its grants, its limits."""

    entry: str
    codes: frozenset[tuple[str, str, frozenset[tuple[str, str]]]]
    pool_key: PoolKey
    bounds: Bounds


class WarmChildren:
    """The idle warm children: ``acquire`` one, run it, then ``put_back`` or reap it."""

    def __init__(self, pool: Pool, options: Options, monotonic: Callable[[], float]) -> None:
        self._pool = pool
        self._options = options
        self._monotonic = monotonic
        self._lock = threading.Lock()
        self._idle: dict[WarmKey, list[Child]] = {}
        pool.on_maintenance(self._evict_stale)

    def acquire(self, key: WarmKey) -> Child:
        """Return a silent child that has run this version, or a new one. Raises ``Unavailable``."""
        while True:
            with self._lock:
                idle = self._idle.get(key)
                child = idle.pop() if idle else None
            if child is None:
                return self._pool.child(key.pool_key, key.bounds)
            if self._is_reusable(child) and not child.poll.poll(0):
                return child
            self._pool.reap(child)

    def put_back(self, key: WarmKey, child: Child) -> bool:
        """Keep a child that has just succeeded; False when it is too old, or enough others are idle."""
        child.runs += 1
        if not self._is_reusable(child):
            return False
        with self._lock:
            idle = self._idle.setdefault(key, [])
            if len(idle) >= _MAX_IDLE:
                return False
            idle.append(child)
        return True

    def close(self) -> None:
        """Reap all children."""
        with self._lock:
            children = [child for idle in self._idle.values() for child in idle]
            self._idle = {}
        for child in children:
            self._pool.reap(child)

    def close_inherited(self) -> None:
        """In a forked copy of the worker: close our copies of the original's descriptors."""
        for idle in self._idle.values():
            for child in idle:
                child.close()

    def _evict_stale(self) -> None:
        """End idle children that are too old."""
        with self._lock:
            expired = [
                child for idle in self._idle.values() for child in idle if not self._is_reusable(child)
            ]
            self._idle = {
                key: kept
                for key, idle in self._idle.items()
                if (kept := [c for c in idle if c not in expired])
            }
        for child in expired:
            self._pool.reap(child)

    def _is_reusable(self, child: Child) -> bool:
        age = self._monotonic() - child.created_at
        return child.runs < self._options.reuse_calls and age < self._options.reuse_seconds


def warm_key_of(job: Job, pool_key: PoolKey) -> WarmKey:
    """Build the key of a job."""
    codes = frozenset(
        (name, code.source, frozenset(code.modules.items())) for name, code in job.codes.items()
    )
    return WarmKey(job.entry, codes, pool_key, job.limits.bounds(reusable=True))

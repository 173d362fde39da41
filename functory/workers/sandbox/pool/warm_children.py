"""Keeps children that have run a version, to run the same version again.

One such child runs one version with one set of codes, grants and limits, and nothing else; its memory
is that version's own. It is ended after a failure, after ``reuse_calls`` runs, when it is older than
``reuse_seconds``, when others were used since and there are many, and when it does anything while idle: sends
something, or uses CPU time that no execution is charged for.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import NamedTuple

from functory.workers.sandbox.confinement.resource_usage import ResourceUsage, cpu_seconds, resident_bytes
from functory.workers.sandbox.pool.child import Child
from functory.workers.sandbox.pool.pool import Options, Pool
from functory.workers.sandbox.pool.pool_key import PoolKey
from functory.workers.sandbox.protocol.job import Job
from functory.workers.sandbox.protocol.plan import Bounds

_MAX_IDLE = 32  # of all versions: each holds some megabytes, and a process number of its zygote
# Of the memory that a version may use, what earlier runs in the process may have left of theirs.
_GROWTH_SHARE = 16
# Between two runs, for the housekeeping of threads that ``reuse=True`` keeps. Maintenance looks every few seconds.
_IDLE_CPU_SECONDS = 1.0
_GROWTH_CHECK_SECONDS = 0.01  # a run cannot leave much in less time


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
        # The version that was put back last is the last one; so is the child of each version.
        self._idle: dict[WarmKey, list[Child]] = {}
        self._count = 0
        pool.on_maintenance = self._evict_stale
        pool.on_crowding = self.close

    def acquire(self, key: WarmKey) -> Child:
        """Return a silent child that has run this version, or a new one. Raises ``Unavailable``."""
        while True:
            with self._lock:
                idle = self._idle.get(key)
                child = idle.pop() if idle else None
                if child is not None:
                    self._count -= 1
                    if not idle:
                        del self._idle[key]
            if child is None:
                return self._pool.child(key.pool_key, key.bounds)
            if self._is_reusable(child) and _is_quiet(child):
                return child
            self._pool.reap(child)

    def put_back(self, key: WarmKey, child: Child, *, runs: int = 1, tidy: bool = False) -> bool:
        """Keep a child that has just succeeded; False when it is too old, or holds too much memory.

        ``tidy``: what its ``runs`` may have left in memory is limited, and they may have left no threads.
        """
        child.runs += runs
        if not self._is_reusable(child) or (tidy and (child.has_foreign_threads() or self._has_grown(child))):
            return False
        child.idle_cpu_seconds = cpu_seconds(child.pid)
        child.idle_usage = None
        with self._lock:
            idle = self._idle.pop(key, [])
            self._idle[key] = idle
            idle.append(child)
            self._count += 1
            evicted = self._oldest() if self._count > _MAX_IDLE else None
        if evicted is not None:
            self._pool.reap(evicted)
        return True

    def _oldest(self) -> Child:
        """Take the child that was put back the longest ago of the version that was; under the lock."""
        key = next(iter(self._idle))
        child = self._idle[key].pop(0)
        if not self._idle[key]:
            del self._idle[key]
        self._count -= 1
        return child

    def _has_grown(self, child: Child) -> bool:
        """Return True if the child holds much more memory than after its first run, as far as that was looked at."""
        now = self._monotonic()
        if child.first_memory_bytes is not None and now - child.memory_checked_at < _GROWTH_CHECK_SECONDS:
            return False
        child.memory_checked_at = now
        memory = resident_bytes(child.pid)
        if child.first_memory_bytes is None:
            child.first_memory_bytes = memory
        return memory - child.first_memory_bytes > child.bounds.memory_bytes // _GROWTH_SHARE

    def close(self) -> None:
        """Reap all children."""
        with self._lock:
            children = [child for idle in self._idle.values() for child in idle]
            self._idle = {}
            self._count = 0
        for child in children:
            self._pool.reap(child)

    def close_inherited(self) -> None:
        """In a forked copy of the worker: close our copies of the original's descriptors."""
        for idle in self._idle.values():
            for child in idle:
                child.close()

    def _evict_stale(self) -> None:
        """End idle children that are too old or not idle."""
        with self._lock:
            programs = [
                child for key, idle in self._idle.items() if key.pool_key.subprocess for child in idle
            ]
        busy = [child for child in programs if _uses_cpu(child)]
        with self._lock:
            expired = [
                child
                for idle in self._idle.values()
                for child in idle
                if child in busy or not self._is_reusable(child) or not _is_quiet(child)
            ]
            self._idle = {
                key: kept
                for key, idle in self._idle.items()
                if (kept := [c for c in idle if c not in expired])
            }
            self._count -= len(expired)
        for child in expired:
            self._pool.reap(child)

    def _is_reusable(self, child: Child) -> bool:
        age = self._monotonic() - child.created_at
        return child.runs < self._options.reuse_calls and age < self._options.reuse_seconds


def _is_quiet(child: Child) -> bool:
    """Return True if an idle child has sent nothing, has not ended, and has used next to no CPU time."""
    used = cpu_seconds(child.pid) - child.idle_cpu_seconds
    return used <= _IDLE_CPU_SECONDS and not child.poll.poll(0)


def _uses_cpu(child: Child) -> bool:
    """Return True if an idle child and the programs it has started use CPU time since they were looked at first."""
    usage, before = child.idle_usage or (ResourceUsage(child.pid or 0), None)
    usage.sample()
    if before is None:
        before = usage.cpu_seconds
        child.idle_usage = usage, before
    return usage.cpu_seconds - before > _IDLE_CPU_SECONDS


def warm_key_of(job: Job, pool_key: PoolKey) -> WarmKey:
    """Build the key of a job."""
    codes = frozenset(
        (name, code.source, frozenset(code.modules.items())) for name, code in job.codes.items()
    )
    return WarmKey(job.entry, codes, pool_key, job.limits.bounds(reusable=True))

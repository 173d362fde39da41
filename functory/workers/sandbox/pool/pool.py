"""Keeps zygotes and spare children, so that most executions find a confined process waiting for them.

One zygote serves one pool key (environment, trust domain, grants). It starts at the first use. It is replaced
when it is old or has forked often (children of one zygote share the layout of their memory), and ended when
it was unused for long or when there are too many. A pool key in frequent use has spares: children that are
forked and confined ahead of time, and wait.

``ChildReaper`` removes ended children in the background. Every method may be called from any thread.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field

import structlog

from functory.engine import threads
from functory.engine.errors import Unavailable
from functory.engine.telemetry import sandbox_metrics
from functory.workers.sandbox.confinement import scratch
from functory.workers.sandbox.confinement.cgroups import Cgroups
from functory.workers.sandbox.network.connection_broker import ConnectionBroker, Traffic
from functory.workers.sandbox.pool.child import Child
from functory.workers.sandbox.pool.child_reaper import ChildReaper
from functory.workers.sandbox.pool.options import Options
from functory.workers.sandbox.pool.pool_key import PoolKey
from functory.workers.sandbox.pool.zygote_process import STARTING_TASKS, ZygoteProcess
from functory.workers.sandbox.protocol.plan import Bounds, Tier

_log = structlog.get_logger(__name__)
_HOT_SECONDS = 10.0  # a pool key that is used twice within this time gets spares
_SPARE_SECONDS = 30.0  # a spare that was not used for this long is ended
_TIDY_SECONDS = 5.0
_IDLE_SECONDS = 60.0  # a zygote past its age that was not used for this long is not replaced but ended
_CLOSE_SECONDS = 5.0


@dataclass
class _Entry:
    """The zygote and the spares of one pool key; ``since``, ``used`` and ``hot`` are times of the pool's clock.

    ``hot`` is the time of the last use that followed another one soon. ``users`` are threads that are getting a child
    from it: meanwhile it may not be removed.
    """

    key: PoolKey
    starting: threading.Lock = field(default_factory=threading.Lock)
    zygote: ZygoteProcess | None = None
    since: float = 0.0
    used: float = float("-inf")
    hot: float = float("-inf")
    renewing: bool = False
    users: int = 0
    spares: dict[Bounds, list[Child]] = field(default_factory=dict)

    def all_spares(self) -> list[Child]:
        return [child for children in self.spares.values() for child in children]

    def is_unused(self) -> bool:
        """Return True if it has no children but spares, no user, and no replacement on its way."""
        if self.users or self.renewing:
            return False
        return self.zygote is None or self.zygote.child_count() <= len(self.all_spares())


class Pool:
    """Children of confined zygotes of one tier.

    ``monotonic`` is the clock of ages, in seconds; ``groups`` are the control groups, None where there are none.
    """

    def __init__(
        self,
        tier: Tier,
        options: Options,
        monotonic: Callable[[], float],
        broker: ConnectionBroker,
        groups: Cgroups | None,
    ) -> None:
        self.tier: Tier = tier
        self._options = options
        self._monotonic = monotonic
        self._broker = broker
        self._groups = groups
        self._lock = threading.Lock()
        self._entries: dict[PoolKey, _Entry] = {}
        self._retired: list[ZygoteProcess] = []
        self._ending = threading.Event()
        self._maintenance_thread: threading.Thread | None = None
        self._child_reaper = ChildReaper(self._on_reaped)
        # Called in each round of maintenance; and when a zygote too many cannot be ended: kept children may hold it.
        self.on_maintenance: Callable[[], None] = lambda: None
        self.on_crowding: Callable[[], None] = lambda: None

    def start(self, key: PoolKey) -> ZygoteProcess:
        """Start a zygote of ``key``, if none lives. Raises ``Unavailable`` when it cannot start."""
        entry = self._acquire_entry(key)
        try:
            return self._ensure_zygote(entry)
        finally:
            self._release_entry(entry)

    def child(self, key: PoolKey, bounds: Bounds) -> Child:
        """Return a child that has run nothing: a spare, or one that is being forked.

        Raises ``Unavailable`` when none can be made.
        """
        entry = self._acquire_entry(key)
        try:
            return self._child(entry, bounds)
        finally:
            self._release_entry(entry)

    def _child(self, entry: _Entry, bounds: Bounds) -> Child:
        now = self._monotonic()
        with self._lock:
            if now - entry.used <= _HOT_SECONDS:
                entry.hot = now
            entry.used = now
            spares = entry.spares.get(bounds)
            child = spares.pop(0) if spares else None
        if child is None:
            child = self._fork(entry, bounds)
        self._replace_if_old(entry, now)
        return child

    def task_started(self, child: Child) -> None:
        """Start a spare for a pool key in frequent use; the child has its task, so its run does not wait for that."""
        if child.runs or not self._options.spares:
            return
        with self._lock:
            entry = self._entries.get(child.zygote.pool_key)
            if entry is None or entry.zygote is not child.zygote or entry.hot < entry.used:
                return
        self._top_up(entry, child.bounds)

    def pid_of(self, key: PoolKey) -> int | None:
        """Return the pid of the living zygote of ``key``, None if there is none."""
        entry = self._entries.get(key)
        zygote = entry.zygote if entry is not None else None
        return zygote.pid if zygote is not None and zygote.alive() else None

    def traffic(self, child: Child) -> Traffic | None:
        """Return the child's traffic with granted hosts since the last call; None where it has no network."""
        zygote = child.zygote
        return self._broker.open_period(_run_id(child)) if zygote.pool_key.hosts else None

    def reap(self, child: Child, seconds: float | None = None) -> None:
        """End the child and remove its traces; with ``seconds``, wait up to that time for its end."""
        self._child_reaper.reap(child, seconds)

    def close(self) -> None:
        """End every zygote, and with it every child."""
        self._ending.set()
        with self._lock:
            entries, self._entries = list(self._entries.values()), {}
            ending = [entry.zygote for entry in entries if entry.zygote] + self._retired
            self._retired = []
            # Taken out of the entries, or a thread that replaces a zygote would reap them once more.
            spares = [child for entry in entries for child in entry.all_spares()]
            for entry in entries:
                entry.spares = {}
        for child in spares:
            child.close()
        for zygote in ending:
            zygote.close(_CLOSE_SECONDS)
        self._child_reaper.close()
        if self._maintenance_thread is not None:
            self._maintenance_thread.join(timeout=_CLOSE_SECONDS)

    def close_inherited(self) -> None:
        """Close our copies of the original's descriptors in a forked copy of the worker, and end nothing."""
        self._ending = threading.Event()
        for entry in self._entries.values():
            for child in entry.all_spares():
                child.close()
            if entry.zygote is not None:
                entry.zygote.close_inherited()
        for zygote in self._retired:
            zygote.close_inherited()
        self._child_reaper.close_inherited()

    def _acquire_entry(self, key: PoolKey) -> _Entry:
        """Return the entry of a pool key, which stays until ``_release_entry``."""
        with self._lock:
            if self._ending.is_set():
                raise Unavailable(
                    "the runner is closed", "the worker is shutting down", "start another worker"
                )
            if self._maintenance_thread is None:
                thread = threading.Thread(target=self._maintain, name="functory-pool", daemon=True)
                # Where the system gives no more threads, the next run asks again.
                thread.start()
                self._maintenance_thread = thread
            entry = self._entries.setdefault(key, _Entry(key))
            entry.users += 1
            return entry

    def _release_entry(self, entry: _Entry) -> None:
        with self._lock:
            entry.users -= 1

    def _ensure_zygote(self, entry: _Entry) -> ZygoteProcess:
        """Return the zygote of an entry, or start one; only callers that need the same one wait for it."""
        with entry.starting:
            zygote = entry.zygote
            if zygote is not None and zygote.alive():
                return zygote
            if zygote is not None:
                _log.warning("zygote ended, starting another", pid=zygote.pid)
                sandbox_metrics.restarts.labels("crash").inc()
                self._drop_spares(entry)
                zygote.discard()
            entry.zygote = None
            self._make_room(entry)
            entry.zygote = zygote = self._new_zygote(entry.key)
            entry.since = self._monotonic()
            # Checked after it was stored: either ``close`` has found it, or this finds the pool closed.
            if self._ending.is_set():
                zygote.discard()
                raise Unavailable(
                    "the runner is closed", "the worker is shutting down", "start another worker"
                )
            return zygote

    def _new_zygote(self, key: PoolKey) -> ZygoteProcess:
        group = None
        if key.preload and self._groups is not None:
            group = self._groups.acquire(key.memory_bytes, STARTING_TASKS)
        return ZygoteProcess(key, self.tier, group)

    def _replace_if_old(self, entry: _Entry, now: float) -> None:
        """Replace a zygote that has served long enough. The next one starts beside it, and no caller waits."""
        with self._lock:
            old = entry.zygote
            if old is None or entry.renewing or not old.alive():
                return
            worn = old.forks >= self._options.zygote_executions
            if not worn and now - entry.since < self._options.zygote_seconds:
                return
            entry.renewing = True
        if threads.try_start(self._renew, "functory-zygote", entry, old) is None:
            entry.renewing = False

    def _renew(self, entry: _Entry, old: ZygoteProcess) -> None:
        try:
            zygote = self._new_zygote(entry.key)
        except (Unavailable, OSError) as error:
            # The old one stays in use; the next execution tries again.
            _log.warning("old zygote not replaced, it stays in use", pid=old.pid, reason=str(error))
            zygote = None
        with entry.starting:
            entry.renewing = False
            if zygote is None:
                return
            if entry.zygote is not old:
                zygote.discard()
                return
            entry.zygote, entry.since = zygote, self._monotonic()
            sandbox_metrics.restarts.labels("recycle").inc()
            if self._ending.is_set():
                zygote.discard()
        self._drop_spares(entry)
        self._retire(old)

    def _retire(self, zygote: ZygoteProcess) -> None:
        """Close a zygote once its last child has ended."""
        with self._lock:
            if not zygote.idle():
                self._retired.append(zygote)
                return
        zygote.close(_CLOSE_SECONDS)

    def _make_room(self, wanted: _Entry) -> None:
        """End the idle zygotes that were used the longest ago, if there are too many."""
        with self._lock:
            others = [p for p in self._entries.values() if p is not wanted and p.zygote is not None]
            # There is more than one when more pool keys were in use than zygotes may be kept.
            surplus = max(0, len(others) + 1 - self._options.zygotes)
            idle = sorted(filter(_Entry.is_unused, others), key=lambda p: p.used)
            victims = idle[:surplus]
            for victim in victims:
                del self._entries[victim.key]
        for victim in victims:
            self._end_entry(victim)
        if len(victims) < surplus:
            self.on_crowding()

    def _end_entry(self, entry: _Entry) -> None:
        """End an entry that was removed from the table."""
        self._drop_spares(entry)
        zygote, entry.zygote = entry.zygote, None
        if zygote is not None:
            self._retire(zygote)

    def _fork(self, entry: _Entry, bounds: Bounds) -> Child:
        for _ in range(3):
            zygote = self._ensure_zygote(entry)
            child = self._request(zygote, bounds)
            if child is not None:
                return child
        raise Unavailable(
            "no process for the execution",
            "the process that starts executions keeps ending",
            "look at the worker's log; functory doctor",
        )

    def _request(self, zygote: ZygoteProcess, bounds: Bounds, *, spare: bool = False) -> Child | None:
        slot = zygote.acquire_slot()
        if slot is None:
            raise Unavailable("no process for the execution", "one zygote has too many children")
        group = None
        broker = None
        folder: str | None = None
        try:
            folder = zygote.new_scratch()
            if folder is None:
                self._release_slot(zygote, slot)
                return None
            if self._groups is not None:
                group = self._groups.acquire(bounds.memory_bytes, bounds.threads + bounds.processes)
            if zygote.pool_key.hosts:
                broker = self._broker.open(
                    f"{zygote.pid}/{slot}", zygote.pool_key.hosts, self._options.traffic_bytes
                )
            child = Child(
                zygote,
                bounds,
                slot,
                folder,
                self._monotonic(),
                group=group,
                broker=broker,
                spare=spare,
                tickets=bounds.reusable and broker is None,
            )
        except BaseException:
            if group is not None:
                group.release()
            if folder:
                scratch.remove(folder)
            self._release_slot(zygote, slot)
            raise
        if child.fork():
            return child
        self._on_reaped(child)
        return None

    def _top_up(self, entry: _Entry, bounds: Bounds) -> None:
        """Request spares: the zygote forks them while the execution that took one runs."""
        zygote = entry.zygote
        with self._lock:
            missing = self._options.spares - len(entry.spares.get(bounds, ()))
        for _ in range(missing):
            if zygote is None or not zygote.alive():
                return
            try:
                child = self._request(zygote, bounds, spare=True)
            except (Unavailable, OSError):
                return
            if child is None:
                return
            with self._lock:
                if entry.zygote is zygote:
                    entry.spares.setdefault(bounds, []).append(child)
                    continue
            self.reap(child)

    def _drop_spares(self, entry: _Entry) -> None:
        with self._lock:
            children = entry.all_spares()
            entry.spares = {}
        for child in children:
            self.reap(child)

    def _on_reaped(self, child: Child) -> None:
        """Release the resources of a removed child."""
        child.close()
        if child.group is not None:
            child.group.release()
        if child.folder:
            scratch.remove(child.folder)
        zygote = child.zygote
        if zygote.pool_key.hosts:
            self._broker.close(_run_id(child))
        self._release_slot(zygote, child.slot)

    def _release_slot(self, zygote: ZygoteProcess, slot: int) -> None:
        """Release a child's slot; a retired zygote ends with its last child."""
        zygote.release_slot(slot)
        with self._lock:
            done = zygote in self._retired and zygote.idle()
            if done:
                self._retired.remove(zygote)
        if done:
            zygote.close(_CLOSE_SECONDS)

    def _maintain(self) -> None:
        ending = self._ending
        while not ending.wait(_TIDY_SECONDS):
            now = self._monotonic()
            expired: list[Child] = []
            old: list[_Entry] = []
            with self._lock:
                for entry in list(self._entries.values()):
                    if now - entry.used > _SPARE_SECONDS:
                        expired += entry.all_spares()
                        entry.spares = {}
                    aged = entry.zygote is not None and now - entry.since > self._options.zygote_seconds
                    if aged and now - entry.used > _IDLE_SECONDS and entry.is_unused():
                        del self._entries[entry.key]
                        old.append(entry)
            for child in expired:
                self.reap(child)
            for entry in old:
                self._end_entry(entry)
            self.on_maintenance()


def _run_id(child: Child) -> str:
    """Return the child's id at the connection broker."""
    return f"{child.zygote.pid}/{child.slot}"

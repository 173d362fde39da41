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

import msgspec
import structlog

from functory.engine.errors import Unavailable
from functory.workers.sandbox.confinement import scratch
from functory.workers.sandbox.confinement.cgroups import Cgroups
from functory.workers.sandbox.network.connection_broker import ConnectionBroker, Traffic
from functory.workers.sandbox.pool.child import Child
from functory.workers.sandbox.pool.child_reaper import ChildReaper
from functory.workers.sandbox.pool.pool_key import PoolKey
from functory.workers.sandbox.pool.zygote_process import ZygoteProcess
from functory.workers.sandbox.protocol.plan import Bounds, Tier

_log = structlog.get_logger(__name__)
_HOT_SECONDS = 10.0  # two uses within this time make a kind one that has spares
_SPARE_SECONDS = 30.0  # a spare that was not used for this long is ended
_TIDY_SECONDS = 5.0
_IDLE_SECONDS = 60.0  # a zygote past its age that was not used for this long is not replaced but ended
_CLOSE_SECONDS = 5.0


class Options(msgspec.Struct, frozen=True, kw_only=True):
    """Numbers of processes to keep, and their ages; see the settings of the same names."""

    zygotes: int = 8
    spares: int = 1
    zygote_executions: int = 1000
    zygote_seconds: float = 600.0
    reuse_calls: int = 1000
    reuse_seconds: float = 300.0
    traffic_bytes: int = 256 * 1024 * 1024


@dataclass
class _PoolEntry:
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
        self._entries: dict[PoolKey, _PoolEntry] = {}
        self._retired: list[ZygoteProcess] = []
        self._ending = threading.Event()
        self._maintenance_thread: threading.Thread | None = None
        self._child_reaper = ChildReaper(self._on_reaped)
        self._maintenance_hook: Callable[[], None] = lambda: None

    def start(self, key: PoolKey) -> ZygoteProcess:
        """Have a living zygote of ``kind``. Raises :class:`Unavailable` when it cannot start."""
        place = self._acquire_entry(key)
        try:
            return self._ensure_zygote(place)
        finally:
            self._release_entry(place)

    def child(self, key: PoolKey, bounds: Bounds) -> Child:
        """A child that has run nothing: a spare, or one that is being forked.

        Raises :class:`Unavailable` when there is none to be had.
        """
        place = self._acquire_entry(key)
        try:
            return self._child(place, bounds)
        finally:
            self._release_entry(place)

    def _child(self, place: _PoolEntry, bounds: Bounds) -> Child:
        now = self._monotonic()
        with self._lock:
            if now - place.used <= _HOT_SECONDS:
                place.hot = now
            place.used = now
            spares = place.spares.get(bounds)
            child = spares.pop(0) if spares else None
        if child is None:
            child = self._fork(place, bounds)
        self._replace_if_old(place, now)
        return child

    def task_started(self, child: Child) -> None:
        """Start a spare for a pool key in frequent use, now that the child has its task and this costs it no
        time."""
        if child.bounds.reusable or not self._options.spares:
            return
        with self._lock:
            place = self._entries.get(child.zygote.pool_key)
            if place is None or place.zygote is not child.zygote or place.hot < place.used:
                return
        self._top_up(place, child.bounds)

    def pid_of(self, key: PoolKey) -> int | None:
        """The pid of the living zygote of ``kind``."""
        place = self._entries.get(key)
        launcher = place.zygote if place is not None else None
        return launcher.pid if launcher is not None and launcher.alive() else None

    def traffic(self, child: Child) -> Traffic | None:
        """Return the child's traffic with granted hosts since the last call; None where it has no network."""
        launcher = child.zygote
        return self._broker.open_period(_run_id(child)) if launcher.pool_key.hosts else None

    def reap(self, child: Child, seconds: float | None = None) -> None:
        """See to it that the child ends and its traces go; with ``seconds`` wait for its end as long."""
        self._child_reaper.reap(child, seconds)

    def on_maintenance(self, call: Callable[[], None]) -> None:
        """Have ``call`` called whenever the pool looks for what is no longer needed."""
        self._maintenance_hook = call

    def close(self) -> None:
        """End every zygote, and with it every child."""
        self._ending.set()
        with self._lock:
            places, self._entries = list(self._entries.values()), {}
            launchers = [place.zygote for place in places if place.zygote] + self._retired
            self._retired = []
            # Taken from their places: a thread that replaces a zygote would have them buried once more.
            spares = [child for place in places for child in _spares_of(place)]
            for place in places:
                place.spares = {}
        for child in spares:
            child.close()
        for launcher in launchers:
            launcher.close(_CLOSE_SECONDS)
        self._child_reaper.close()
        if self._maintenance_thread is not None:
            self._maintenance_thread.join(timeout=_CLOSE_SECONDS)

    def close_inherited(self) -> None:
        """In a forked copy of the worker: let go of the original's processes."""
        self._ending = threading.Event()
        for place in self._entries.values():
            for child in _spares_of(place):
                child.close()
            if place.zygote is not None:
                place.zygote.close_inherited()
        for launcher in self._retired:
            launcher.close_inherited()
        self._child_reaper.close_inherited()

    def _acquire_entry(self, kind: PoolKey) -> _PoolEntry:
        """The place of a kind, which stays until ``_leave_place``."""
        with self._lock:
            if self._ending.is_set():
                raise Unavailable(
                    "the runner is closed", "the worker is shutting down", "start another worker"
                )
            if self._maintenance_thread is None:
                self._maintenance_thread = threading.Thread(
                    target=self._maintain, name="functory-pool", daemon=True
                )
                self._maintenance_thread.start()
            place = self._entries.setdefault(kind, _PoolEntry(kind))
            place.users += 1
            return place

    def _release_entry(self, place: _PoolEntry) -> None:
        with self._lock:
            place.users -= 1

    def _ensure_zygote(self, place: _PoolEntry) -> ZygoteProcess:
        """Return the zygote of a place, or start one; only callers that need the same one wait for it."""
        with place.starting:
            launcher = place.zygote
            if launcher is not None and launcher.alive():
                return launcher
            if launcher is not None:
                _log.warning("zygote_restarted", pid=launcher.pid)
                self._drop_spares(place)
                launcher.discard()
            place.zygote = None
            self._make_room(place)
            place.zygote = launcher = ZygoteProcess(place.key, self.tier)
            place.since = self._monotonic()
            # After it can be found: either ``close`` has seen it, or this sees that the pool is closed.
            if self._ending.is_set():
                launcher.discard()
                raise Unavailable(
                    "the runner is closed", "the worker is shutting down", "start another worker"
                )
            return launcher

    def _replace_if_old(self, place: _PoolEntry, now: float) -> None:
        """Replace a zygote that has served long enough. The next one starts beside it, and no caller waits."""
        with self._lock:
            old = place.zygote
            if old is None or place.renewing or not old.alive():
                return
            worn = old.forks >= self._options.zygote_executions
            if not worn and now - place.since < self._options.zygote_seconds:
                return
            place.renewing = True
        threading.Thread(target=self._renew, args=(place, old), name="functory-zygote", daemon=True).start()

    def _renew(self, place: _PoolEntry, old: ZygoteProcess) -> None:
        try:
            launcher = ZygoteProcess(place.key, self.tier)
        except (Unavailable, OSError) as error:
            # The old one goes on; the next execution tries again.
            _log.warning("zygote_not_renewed", reason=str(error))
            launcher = None
        with place.starting:
            place.renewing = False
            if launcher is None:
                return
            if place.zygote is not old:
                launcher.discard()
                return
            place.zygote, place.since = launcher, self._monotonic()
            if self._ending.is_set():
                launcher.discard()
        self._drop_spares(place)
        self._retire(old)

    def _retire(self, launcher: ZygoteProcess) -> None:
        """Close it once its last child has ended."""
        with self._lock:
            if not launcher.idle():
                self._retired.append(launcher)
                return
        launcher.close(_CLOSE_SECONDS)

    def _make_room(self, wanted: _PoolEntry) -> None:
        """End the idle zygotes that were used the longest ago, if there are too many."""
        with self._lock:
            others = [p for p in self._entries.values() if p is not wanted and p.zygote is not None]
            # More than one, when there were more kinds at work than zygotes may be kept.
            surplus = max(0, len(others) + 1 - self._options.zygotes)
            idle = sorted(filter(_unused, others), key=lambda p: p.used)
            victims = idle[:surplus]
            for victim in victims:
                del self._entries[victim.key]
        for victim in victims:
            self._end_entry(victim)

    def _end_entry(self, place: _PoolEntry) -> None:
        """End a place that has been taken out of the table."""
        self._drop_spares(place)
        launcher, place.zygote = place.zygote, None
        if launcher is not None:
            self._retire(launcher)

    def _fork(self, place: _PoolEntry, bounds: Bounds) -> Child:
        for _ in range(3):
            launcher = self._ensure_zygote(place)
            child = self._request(launcher, bounds)
            if child is not None:
                return child
        raise Unavailable(
            "no process for the execution",
            "the process that starts executions keeps ending",
            "look at the worker's log; functory doctor",
        )

    def _request(self, launcher: ZygoteProcess, bounds: Bounds) -> Child | None:
        slot = launcher.acquire_slot()
        if slot is None:
            raise Unavailable("no process for the execution", "one zygote has too many children")
        group = None
        broker = None
        folder: str | None = None
        try:
            folder = launcher.new_scratch()
            if folder is None:
                self._release_slot(launcher, slot)
                return None
            if self._groups is not None:
                group = self._groups.acquire(bounds.memory_bytes, bounds.threads + bounds.processes)
            if launcher.pool_key.hosts:
                broker = self._broker.open(
                    f"{launcher.pid}/{slot}", launcher.pool_key.hosts, self._options.traffic_bytes
                )
            child = Child(launcher, bounds, slot, folder, self._monotonic(), group=group, broker=broker)
        except BaseException:
            if group is not None:
                group.release()
            if folder:
                scratch.remove(folder)
            self._release_slot(launcher, slot)
            raise
        if child.fork():
            return child
        self._on_reaped(child)
        return None

    def _top_up(self, place: _PoolEntry, bounds: Bounds) -> None:
        """Ask for spares: the zygote forks them while the execution that took one runs."""
        launcher = place.zygote
        with self._lock:
            missing = self._options.spares - len(place.spares.get(bounds, ()))
        for _ in range(missing):
            if launcher is None or not launcher.alive():
                return
            try:
                child = self._request(launcher, bounds)
            except (Unavailable, OSError):
                return
            if child is None:
                return
            with self._lock:
                if place.zygote is launcher:
                    place.spares.setdefault(bounds, []).append(child)
                    continue
            self.reap(child)

    def _drop_spares(self, place: _PoolEntry) -> None:
        with self._lock:
            children = _spares_of(place)
            place.spares = {}
        for child in children:
            self.reap(child)

    def _on_reaped(self, child: Child) -> None:
        """A child is gone: what it had is free again."""
        child.close()
        if child.group is not None:
            child.group.release()
        if child.folder:
            scratch.remove(child.folder)
        launcher = child.zygote
        if launcher.pool_key.hosts:
            self._broker.close(_run_id(child))
        self._release_slot(launcher, child.slot)

    def _release_slot(self, launcher: ZygoteProcess, slot: int) -> None:
        """One child less; a zygote that is retired ends with its last."""
        launcher.release_slot(slot)
        with self._lock:
            done = launcher in self._retired and launcher.idle()
            if done:
                self._retired.remove(launcher)
        if done:
            launcher.close(_CLOSE_SECONDS)

    def _maintain(self) -> None:
        ending = self._ending
        while not ending.wait(_TIDY_SECONDS):
            now = self._monotonic()
            tired: list[Child] = []
            old: list[_PoolEntry] = []
            with self._lock:
                for place in list(self._entries.values()):
                    if now - place.used > _SPARE_SECONDS:
                        tired += _spares_of(place)
                        place.spares = {}
                    aged = place.zygote is not None and now - place.since > self._options.zygote_seconds
                    if aged and now - place.used > _IDLE_SECONDS and _unused(place):
                        del self._entries[place.key]
                        old.append(place)
            for child in tired:
                self.reap(child)
            for place in old:
                self._end_entry(place)
            self._maintenance_hook()


def _run_id(child: Child) -> str:
    """The child's name at the broker."""
    return f"{child.zygote.pid}/{child.slot}"


def _spares_of(place: _PoolEntry) -> list[Child]:
    return [child for children in place.spares.values() for child in children]


def _unused(place: _PoolEntry) -> bool:
    """Return True if its zygote has no children but spares, is not requested, and is not about to be
    replaced."""
    if place.users or place.renewing:
        return False
    launcher = place.zygote
    return launcher is None or launcher.child_count() <= len(_spares_of(place))

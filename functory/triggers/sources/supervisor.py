"""Runs the sources that have a ``run`` method (files, queues, plug-ins): each in one process at a time.

A supervisor claims enabled sources that no process runs, gives each a thread, and renews their leases every third of
``lease_seconds``. Supervisors know nothing of each other: run as many as you like. When one is killed, another takes
over its sources once their leases have ended. Events that the killed one had not acknowledged are delivered again, and
are still written once, by their keys. A supervisor that cannot renew in time (its database is away) stops its sources
before their leases end, so that two processes never read the same mailbox or folder at once.
"""

from __future__ import annotations

import contextlib
import os
import random
import threading
import time
from collections.abc import Callable, Mapping
from datetime import datetime

import structlog

from functory.engine.access.secrets import Secrets
from functory.engine.database.connection import Database
from functory.engine.errors import Unavailable
from functory.engine.host_name import host_name
from functory.engine.service import Service
from functory.engine.settings import Settings
from functory.engine.sources.store import ClaimedSource, Sources
from functory.triggers.sources.plugin import SourcePlugin
from functory.triggers.sources.registry import installed_plugins
from functory.triggers.sources.runner import SourceRunner

log = structlog.get_logger("functory.sources")

# Part of a lease after which it is renewed: two renewals may fail before the lease is lost.
RENEW_AT = 1 / 3
# Part of a lease after which its source is stopped: the rest is the time to stop in.
STOP_AT = 0.8
# How long :meth:`SourceSupervisor.close` waits for sources to stop. Roles have 10 s for it.
CLOSE_SECONDS = 8.0
CLAIMED_AT_ONCE = 100


class SourceSupervisor(Service):
    """Claims sources, runs each in a thread, renews their leases, and restarts failed ones.

    ``plugins`` are the plug-ins by kind (default: the entry points). ``monotonic`` and ``rng`` give the time of leases
    and the spread of pauses.
    """

    name, topic = "source_supervisor", "sources"

    def __init__(
        self,
        database: Database,
        settings: Settings,
        *,
        plugins: Mapping[str, SourcePlugin] | None = None,
        holder: str | None = None,
        monotonic: Callable[[], float] = time.monotonic,
        rng: random.Random | None = None,
    ) -> None:
        self.poll_seconds = settings.poll_seconds
        self._database = database
        self._settings = settings
        self._store = Sources(database)
        self._secrets = Secrets(database, settings)
        self._plugins = installed_plugins() if plugins is None else plugins
        self._idle: set[str] = set()
        self._holder = holder or f"{host_name()}:{os.getpid()}"
        self._monotonic = monotonic
        self._rng = rng or random.Random()  # noqa: S311  (spreads retries, guards nothing)
        self._runners: list[SourceRunner] = []
        # The last renewal, by the monotonic clock and by the engine's.
        self._renewed = 0.0
        self._renewed_at: datetime | None = None
        self._closing = threading.Event()
        self._guard: threading.Thread | None = None

    @property
    def running(self) -> list[str]:
        """The names of the sources that run here, as ``kind/name``."""
        return sorted(
            f"{one.held.row['kind']}/{one.held.row['name']}"
            for one in self._runners
            if one.is_alive() and not one.stop_event.is_set()
        )

    def run_once(self) -> bool:
        """Stop, renew and start sources once. True when more sources may be waiting. Raises :class:`Unavailable`."""
        self._stop_late()
        self._release_ended()
        self._renew()
        for one in self._runners:
            one.clear_old_failure()
        return self._start()

    def next_due(self) -> float | None:
        """Seconds until the next round, short enough to renew leases in time; None while no source runs here."""
        return self._settings.lease_seconds / 10 if self._runners else None

    def close(self) -> None:
        """Stop every source and release its lease."""
        self._closing.set()
        for one in self._runners:
            one.stop_event.set()
        until = time.monotonic() + CLOSE_SECONDS
        for one in self._runners:
            one.join(max(0.0, until - time.monotonic()))
        with contextlib.suppress(Unavailable):
            self._release_ended()
        for one in self._runners:
            log.warning(
                "source did not stop; its lease expires",
                kind=one.held.row["kind"],
                source=one.held.row["name"],
            )

    def _release_ended(self) -> None:
        """Release sources whose thread has ended, so that another process may claim them."""
        for one in [one for one in self._runners if not one.is_alive()]:
            self._store.release(one.held)
            self._runners.remove(one)

    def _renew(self) -> None:
        """Stop sources that were changed, paused, deleted or lost; renew the leases when it is time."""
        held = [one.held for one in self._runners if not one.stop_event.is_set()]
        if not held:
            return
        now, engine_now = self._monotonic(), self._database.clock.now()
        lease = self._settings.lease_seconds
        # A lease ends by the engine's clock, which may be set: this process would claim its own sources again.
        passed = max(now - self._renewed, (engine_now - (self._renewed_at or engine_now)).total_seconds())
        due = passed >= lease * RENEW_AT
        kept = {
            one.id: one
            for one in (self._store.renew(held, lease) if due else self._store.still_claimed(held))
        }
        for one in self._runners:
            if one.held not in held:
                continue
            if kept.get(one.held.id) is not one.held:
                one.stop_event.set()
            elif due:
                one.deadline = now + lease * STOP_AT
        if due:
            self._renewed, self._renewed_at = now, engine_now

    def _start(self) -> bool:
        names = [name for name in self._plugins if name not in self._idle]
        wanted = {name for name in self._store.unclaimed_kinds(names) if self._has_run(name)}
        if not wanted:
            return False
        now = self._monotonic()
        claimed = self._store.claim(wanted, self._holder, self._settings.lease_seconds, CLAIMED_AT_ONCE)
        for held in claimed:
            self._begin(held, now)
        return len(claimed) >= CLAIMED_AT_ONCE

    def _has_run(self, name: str) -> bool:
        """True if the kind's sources are to be claimed: they run, or the reason why they cannot has to be stored."""
        try:
            runs = self._plugins[name].runs
        except (Exception, SystemExit):
            # Its sources are claimed, and fail with the plug-in's error.
            return True
        if not runs:
            self._idle.add(name)
        return runs

    def _begin(self, held: ClaimedSource, now: float) -> None:
        one = SourceRunner(
            held,
            self._plugins.__getitem__,
            self._store,
            self._secrets,
            settings=self._settings,
            now=self._database.clock.now,
            monotonic=self._monotonic,
            rng=self._rng,
            on_end=lambda: self._database.wakeup.signal(["sources"]),
        )
        one.deadline = now + self._settings.lease_seconds * STOP_AT
        self._runners.append(one)
        if len(self._runners) == 1:
            # The claim counts as a renewal: the next one is a third of a lease away.
            self._renewed, self._renewed_at = now, self._database.clock.now()
        log.info("source started", kind=held.row["kind"], source=held.row["name"], fence=held.fence)
        one.start()
        if self._guard is None:
            self._guard = threading.Thread(target=self._watch, name="functory-source-guard", daemon=True)
            self._guard.start()

    def _stop_late(self) -> None:
        """Stop the sources whose lease could not be renewed in time."""
        now = self._monotonic()
        for one in list(self._runners):
            if now >= one.deadline and not one.stop_event.is_set():
                log.warning(
                    "lease not renewed in time; source stops",
                    kind=one.held.row["kind"],
                    source=one.held.row["name"],
                )
                one.stop_event.set()

    def _watch(self) -> None:
        # In a thread of its own: run_once may wait longer than a lease for a database that does not answer.
        pause = min(1.0, self._settings.lease_seconds / 20)
        while not self._closing.wait(pause):
            self._stop_late()

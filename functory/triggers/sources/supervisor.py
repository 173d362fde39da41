"""Runs the sources that have something to run (files, queues, plug-ins): each in one process at a time.

A keeper claims enabled sources that nobody runs, gives each a thread, and renews their leases every third of
``lease_seconds``. Keepers know nothing of each other: run as many as you like. When one is killed, another takes
its sources over once their leases have ended; what the dead one had in hand is heard of again and is one event
all the same, by its key. A keeper that cannot renew in time (its database is away) stops its sources before
their leases end, so that two processes never read the same mailbox or folder at once.
"""

from __future__ import annotations

import contextlib
import os
import random
import socket
import threading
import time
from collections.abc import Callable, Mapping

import structlog

from functory.engine.access.secrets import Secrets
from functory.engine.database.connection import Database
from functory.engine.errors import Unavailable
from functory.engine.service import Service
from functory.engine.settings import Settings
from functory.engine.sources.store import ClaimedSource, Sources
from functory.triggers.sources.plugin import SourcePlugin
from functory.triggers.sources.registry import installed_plugins
from functory.triggers.sources.runner import SourceRunner

log = structlog.get_logger("functory.keeper")

# Leases are renewed when this part of them is over: two renewals may fail before one is lost.
RENEW_AT = 1 / 3
# Sources are stopped when this part of their lease is over: the rest is for them to notice.
STOP_AT = 0.8
# How long :meth:`Keeper.close` waits for sources to end. Roles have 10 s for it.
CLOSE_SECONDS = 8.0
CLAIMED_AT_ONCE = 100


class SourceSupervisor(Service):
    """Claims sources, runs each in a thread, renews their leases, and starts again what has failed.

    ``installed`` gives the kinds by name (the entry points, without it); ``monotonic`` and ``rng`` are time and
    chance of leases and pauses.
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
        self._holder = holder or f"{socket.gethostname()}:{os.getpid()}"
        self._monotonic = monotonic
        self._rng = rng or random.Random()  # noqa: S311  (spreads retries, guards nothing)
        self._runners: list[SourceRunner] = []
        self._renewed = 0.0
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
        """One round: end, renew, start. True when there may be more at once. Raises :class:`Unavailable`."""
        self._stop_late()
        self._release_ended()
        self._renew()
        for one in self._runners:
            one.clear_old_failure()
        return self._start()

    def next_due(self) -> float:
        """Seconds until the next round, short enough to renew leases in time."""
        return self._settings.lease_seconds / 10

    def close(self) -> None:
        """End every source and let go of it."""
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
                "source did not end; its lease runs out",
                kind=one.held.row["kind"],
                source=one.held.row["name"],
            )

    def _release_ended(self) -> None:
        """Release what has ended, so that whoever looks next may run it."""
        for one in [one for one in self._runners if not one.is_alive()]:
            self._store.release(one.held)
            self._runners.remove(one)

    def _renew(self) -> None:
        """Find what was changed, paused, deleted or lost, and end it; renew the leases when it is time."""
        held = [one.held for one in self._runners if not one.stop_event.is_set()]
        if not held:
            return
        now = self._monotonic()
        lease = self._settings.lease_seconds
        due = now - self._renewed >= lease * RENEW_AT
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
            self._renewed = now

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
        """Whether the kind's sources are to be claimed: they run, or it has to be told why they cannot."""
        try:
            runs = self._plugins[name].runs
        except (Exception, SystemExit):
            # Its sources are claimed and fail with what the plug-in says.
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
            monotonic=self._monotonic,
            rng=self._rng,
            on_end=lambda: self._database.wakeup.signal(["sources"]),
        )
        one.deadline = now + self._settings.lease_seconds * STOP_AT
        self._runners.append(one)
        if len(self._runners) == 1:
            # Renewed now: the next renewal is a third of a lease away.
            self._renewed = now
        log.info("source runs here", kind=held.row["kind"], source=held.row["name"], fence=held.fence)
        one.start()
        if self._guard is None:
            self._guard = threading.Thread(target=self._watch, name="functory-source-guard", daemon=True)
            self._guard.start()

    def _stop_late(self) -> None:
        """End the sources whose lease could not be renewed in time."""
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
        # Beside the rounds: one of them may wait for a database that does not answer for longer than a lease.
        pause = min(1.0, self._settings.lease_seconds / 20)
        while not self._closing.wait(pause):
            self._stop_late()

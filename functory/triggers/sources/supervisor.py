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
from functory.engine.settings import Settings
from functory.engine.sources.store import Held, Sources
from functory.triggers.sources.plugin import Kind
from functory.triggers.sources.registry import kinds
from functory.triggers.sources.runner import Running

log = structlog.get_logger("functory.keeper")

# Leases are renewed when this part of them is over: two renewals may fail before one is lost.
RENEW_AT = 1 / 3
# Sources are stopped when this part of their lease is over: the rest is for them to notice.
STOP_AT = 0.8
# How long :meth:`Keeper.close` waits for sources to end. Roles have 10 s for it.
CLOSE_SECONDS = 8.0
CLAIMED_AT_ONCE = 100


class Keeper:
    """Claims sources, runs each in a thread, renews their leases, and starts again what has failed.

    ``installed`` gives the kinds by name (the entry points, without it); ``monotonic`` and ``rng`` are time and
    chance of leases and pauses.
    """

    def __init__(
        self,
        database: Database,
        settings: Settings,
        *,
        installed: Mapping[str, Kind] | None = None,
        holder: str | None = None,
        monotonic: Callable[[], float] = time.monotonic,
        rng: random.Random | None = None,
    ) -> None:
        self._database = database
        self._settings = settings
        self._rows = Sources(database)
        self._secrets = Secrets(database, settings)
        self._kinds = kinds() if installed is None else installed
        self._idle: set[str] = set()
        self._holder = holder or f"{socket.gethostname()}:{os.getpid()}"
        self._monotonic = monotonic
        self._rng = rng or random.Random()  # noqa: S311  (spreads retries, guards nothing)
        self._running: list[Running] = []
        self._renewed = 0.0
        self._closing = threading.Event()
        self._guard: threading.Thread | None = None

    @property
    def running(self) -> list[str]:
        """The names of the sources that run here, as ``kind/name``."""
        return sorted(
            f"{one.held.row['kind']}/{one.held.row['name']}"
            for one in self._running
            if one.is_alive() and not one.ending.is_set()
        )

    def look(self) -> bool:
        """One round: end, renew, start. True when there may be more at once. Raises :class:`Unavailable`."""
        self._stop_late()
        self._let_go()
        self._renew()
        for one in self._running:
            one.settle()
        return self._start()

    def close(self) -> None:
        """End every source and let go of it."""
        self._closing.set()
        for one in self._running:
            one.ending.set()
        until = time.monotonic() + CLOSE_SECONDS
        for one in self._running:
            one.join(max(0.0, until - time.monotonic()))
        with contextlib.suppress(Unavailable):
            self._let_go()
        for one in self._running:
            log.warning(
                "source did not end; its lease runs out",
                kind=one.held.row["kind"],
                source=one.held.row["name"],
            )

    def _let_go(self) -> None:
        """Release what has ended, so that whoever looks next may run it."""
        for one in [one for one in self._running if not one.is_alive()]:
            self._rows.release(one.held)
            self._running.remove(one)

    def _renew(self) -> None:
        """Find what was changed, paused, deleted or lost, and end it; renew the leases when it is time."""
        held = [one.held for one in self._running if not one.ending.is_set()]
        if not held:
            return
        now = self._monotonic()
        lease = self._settings.lease_seconds
        due = now - self._renewed >= lease * RENEW_AT
        kept = {one.id: one for one in (self._rows.beat(held, lease) if due else self._rows.standing(held))}
        for one in self._running:
            if one.held not in held:
                continue
            if kept.get(one.held.id) is not one.held:
                one.ending.set()
            elif due:
                one.deadline = now + lease * STOP_AT
        if due:
            self._renewed = now

    def _start(self) -> bool:
        names = [name for name in self._kinds if name not in self._idle]
        wanted = {name for name in self._rows.waiting(names) if self._has_run(name)}
        if not wanted:
            return False
        now = self._monotonic()
        claimed = self._rows.claim(wanted, self._holder, self._settings.lease_seconds, CLAIMED_AT_ONCE)
        for held in claimed:
            self._begin(held, now)
        return len(claimed) >= CLAIMED_AT_ONCE

    def _has_run(self, name: str) -> bool:
        """Whether the kind's sources are to be claimed: they run, or it has to be told why they cannot."""
        try:
            runs = self._kinds[name].runs
        except (Exception, SystemExit):
            # Its sources are claimed and fail with what the plug-in says.
            return True
        if not runs:
            self._idle.add(name)
        return runs

    def _begin(self, held: Held, now: float) -> None:
        one = Running(
            held,
            self._kinds.__getitem__,
            self._rows,
            self._secrets,
            settings=self._settings,
            monotonic=self._monotonic,
            rng=self._rng,
            ended=lambda: self._database.wakeup.signal(["sources"]),
        )
        one.deadline = now + self._settings.lease_seconds * STOP_AT
        self._running.append(one)
        if len(self._running) == 1:
            # Renewed now: the next renewal is a third of a lease away.
            self._renewed = now
        log.info("source runs here", kind=held.row["kind"], source=held.row["name"], fence=held.fence)
        one.start()
        if self._guard is None:
            self._guard = threading.Thread(target=self._watch, name="functory-keeper-guard", daemon=True)
            self._guard.start()

    def _stop_late(self) -> None:
        """End the sources whose lease could not be renewed in time."""
        now = self._monotonic()
        for one in list(self._running):
            if now >= one.deadline and not one.ending.is_set():
                log.warning(
                    "lease not renewed in time; source stops",
                    kind=one.held.row["kind"],
                    source=one.held.row["name"],
                )
                one.ending.set()

    def _watch(self) -> None:
        # Beside the rounds: one of them may wait for a database that does not answer for longer than a lease.
        pause = min(1.0, self._settings.lease_seconds / 20)
        while not self._closing.wait(pause):
            self._stop_late()

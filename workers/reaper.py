"""The reaper: ends what nobody owns any more, but not while the database itself was away.

After an outage longer than a lease every healthy attempt looks lost, because its heartbeats failed
too. So the reaper first lets one whole lease pass after its own start, and after each round that
it missed, before it believes any expired lease.
"""

from __future__ import annotations

import structlog

from engine import metrics, recovery
from engine.database import Database
from engine.settings import Settings

log = structlog.get_logger("functory.reaper")


class Reaper:
    """One round at a time; any number of reapers may run."""

    def __init__(self, database: Database, settings: Settings, *, trust_at_once: bool = False) -> None:
        self._database = database
        self._settings = settings
        clock = database.clock
        self._trusted_from = clock.monotonic() + (0.0 if trust_at_once else settings.lease_seconds)
        self._last_round = clock.monotonic()
        self._missed = False

    def reap(self) -> dict[str, int]:
        """One round. Returns what was done by kind; nothing while an outage is not long enough past.

        Raises :class:`Unavailable`.
        """
        now = self._database.clock.monotonic()
        if self._missed or now - self._last_round > self._settings.lease_seconds:
            self._trusted_from = now + self._settings.lease_seconds
        self._missed = True
        if now < self._trusted_from:
            # A round that only asks whether the database answers.
            self._database.ping()
            done: dict[str, int] = {}
        else:
            done = recovery.reap(self._database, cancel_grace=self._settings.lease_seconds)
            recovery.forget_workers(self._database, self._settings.lease_seconds * 4)
        self._missed = False
        self._last_round = now
        for kind, count in done.items():
            if count:
                metrics.executions_lost.labels(kind).inc(count)
                log.warning("reaped", kind=kind, count=count)
        return done

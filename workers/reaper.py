"""The reaper: ends what nobody owns any more, but not while the database itself was away.

After an outage longer than a lease every healthy attempt looks lost, because its heartbeats failed
too. So the reaper first lets one whole lease pass after its own start, and after each round that
it missed, before it believes any expired lease.
"""

from __future__ import annotations

import structlog

from engine import metrics, recovery
from engine.database import Database
from engine.errors import Unavailable
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

    def reap(self) -> dict[str, int]:
        """One round. Returns what was done by kind; nothing while an outage is not long enough past."""
        now = self._database.clock.monotonic()
        if now - self._last_round > self._settings.lease_seconds:
            self._trusted_from = now + self._settings.lease_seconds
        if now < self._trusted_from:
            self._touch(now)
            return {}
        try:
            done = recovery.reap(self._database, cancel_grace=self._settings.lease_seconds)
            recovery.forget_workers(self._database, self._settings.lease_seconds * 4)
        except Unavailable:
            # The round is missed: the next successful one waits for a lease first.
            raise
        self._last_round = now
        for kind, count in done.items():
            if count:
                metrics.executions_lost.labels(kind).inc(count)
                log.warning("reaped", kind=kind, count=count)
        return done

    def _touch(self, now: float) -> None:
        """A round that only asks whether the database answers."""
        self._database.ping()
        self._last_round = now

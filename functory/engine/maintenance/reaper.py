"""The reaper: requeues or ends executions without an owner, but not right after a database outage.

After an outage longer than a lease every healthy attempt looks lost, because its heartbeats failed
too. So the reaper first lets one whole lease pass after its own start, after each round that it
missed or that took long, and after a start of the database server, before it believes any expired lease.
What ran in a process of this machine that has ended is recovered at once.
"""

from __future__ import annotations

import structlog

from functory.engine.database.clock import REFRESH_SECONDS, ServerClock
from functory.engine.database.clock_offset import CATCH_UP
from functory.engine.database.connection import Database
from functory.engine.executions import worker_registry
from functory.engine.maintenance import lost_workers
from functory.engine.service import Service
from functory.engine.settings import Settings
from functory.engine.telemetry import metrics

log = structlog.get_logger("functory.reaper")

# A round that took more than this part of a lease met a database that did not answer: heartbeats failed too.
SLOW = 0.25


class Reaper(Service):
    """Runs one round at a time; any number of reapers may run."""

    name, topic = "reaper", None

    def __init__(self, database: Database, settings: Settings, *, trust_at_once: bool = False) -> None:
        self.poll_seconds = max(0.2, settings.lease_seconds / 6)
        self._database = database
        self._settings = settings
        clock = database.clock
        self._trusted_from = clock.monotonic() + (0.0 if trust_at_once else settings.lease_seconds)
        self._last_round = clock.monotonic()
        self._missed = False
        # Seconds that the clock of leases is ahead of the monotonic one, which is never set. None before a round.
        self._offset: float | None = None
        self._offset_at = 0.0

    def run_once(self) -> bool:
        """Run one round of :meth:`reap`. True when something was ended. Raises :class:`Unavailable`."""
        return any(self.reap().values())

    def reap(self) -> dict[str, int]:
        """Run one round. Returns the counts by kind; does nothing too soon after an outage.

        Raises :class:`Unavailable`.
        """
        now = self._database.clock.monotonic()
        if self._missed or now - self._last_round > self._settings.lease_seconds:
            self._trusted_from = now + self._settings.lease_seconds
        if self._clock_was_set():
            # A worker may renew its leases by the time before until it has asked for the clock again.
            late = REFRESH_SECONDS if isinstance(self._database.clock, ServerClock) else 0.0
            self._trusted_from = now + self._settings.lease_seconds + late
        self._missed = True
        age = lost_workers.server_uptime(self._database)
        # Of a server whose clock was set back since its start, the age is unknown.
        if age is not None and 0 <= age < self._settings.lease_seconds:
            # An outage may have come and gone between two rounds: heartbeats are more frequent than rounds.
            self._trusted_from = max(self._trusted_from, now + self._settings.lease_seconds - age)
        self._offset, self._offset_at = self._measure_clock_offset(), now
        done: dict[str, int] = {}
        grace, unseen = self._settings.lease_seconds, self._settings.lease_seconds * 4
        trusted = now >= self._trusted_from
        lost, workers = lost_workers.find_lost(self._database, cancel_grace=grace, unseen=unseen)
        # The end of a process is a fact: no lease has to be believed.
        ended = worker_registry.ended(workers)
        if ended or (trusted and lost):
            done = lost_workers.reap(
                self._database,
                cancel_grace=grace,
                leases_trusted=lambda: trusted and not (self._slow(now) or self._clock_was_set()),
                ended_workers=ended,
            )
            if trusted:
                lost_workers.remove_lost_workers(self._database, unseen)
        self._missed = self._slow(now) or self._clock_was_set()
        self._last_round = now
        for kind, count in done.items():
            if count:
                metrics.executions_lost.labels(kind).inc(count)
                log.warning("executions recovered by the reaper", kind=kind, count=count)
        return done

    def _slow(self, began: float) -> bool:
        return self._database.clock.monotonic() - began > SLOW * self._settings.lease_seconds

    def _clock_was_set(self) -> bool:
        """Return True when the clock of leases was set since this round or the one before began."""
        if self._offset is None:
            return False
        change = self._measure_clock_offset() - self._offset
        limit = SLOW * self._settings.lease_seconds
        # A time that comes back to a clock that was set back is slower than the monotonic one.
        slower = CATCH_UP * (self._database.clock.monotonic() - self._offset_at)
        return change > limit or change < -(limit + slower)

    def _measure_clock_offset(self) -> float:
        clock = self._database.clock
        return clock.now().timestamp() - clock.monotonic()

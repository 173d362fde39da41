"""State metrics: gauges that describe stored rows, shown by one process of a deployment.

If every process showed them, their sum would be wrong. So the schedulers that serve metrics compete for a lease. Its
holder reads the gauges every :data:`READ_SECONDS`, and a scrape shows the last reading: it asks no database.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from functory.engine.database.connection import Database
from functory.engine.maintenance import state_gauges
from functory.engine.maintenance.leader_lease import LeaderLease
from functory.engine.service import Service
from functory.engine.settings import Settings

LEASE = "leader: scheduler"
READ_SECONDS = 15.0
# The gauges of a killed holder are missing for this time at most.
LEASE_SECONDS = 3 * READ_SECONDS
# A reading that takes long is made less often: it takes at most this share of the time.
MAX_SHARE = 0.05


class StateMetrics(Service, Collector):
    """Reads the gauges while this process holds the lease, and shows them."""

    name, topic, poll_seconds = "state_metrics", None, READ_SECONDS

    def __init__(self, database: Database, settings: Settings) -> None:
        self._database = database
        self._settings = settings
        self._lease = LeaderLease(database, LEASE, LEASE_SECONDS, monotonic=database.clock.monotonic)
        self._read: Sequence[Metric] = ()
        self._next_read = 0.0

    def run_once(self) -> bool:
        """Renew or take the lease, and read the gauges. Always False. Raises :class:`Unavailable`."""
        held = self._lease.hold()
        began = self._database.clock.monotonic()
        if not held:
            self._read, self._next_read = (), 0.0
        elif began >= self._next_read:
            self._read = state_gauges.read(self._database, self._settings)
            self._next_read = began + (self._database.clock.monotonic() - began) / MAX_SHARE
        return False

    def close(self) -> None:
        """Let another scheduler show the gauges."""
        self._read = ()
        self._lease.release()

    def collect(self) -> Iterable[Metric]:
        """Return the last reading, and who holds the lease; without it only the latter."""
        held = self._lease.is_held
        return [state_gauges.leader("scheduler", held), *(self._read if held else ())]

    def describe(self) -> Iterable[Metric]:
        """Return the families without values."""
        return [state_gauges.leader("scheduler", False), *state_gauges.describe()]

"""Gauges of this process's connections to databases. A scrape counts them and asks no database."""

from __future__ import annotations

from collections.abc import Iterable

from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from functory.engine.database.connection import open_pools


class PoolGauges(Collector):
    """Connections of all pools of this process: in use, and those that may still be taken."""

    def collect(self) -> Iterable[GaugeMetricFamily]:
        """Count the connections."""
        used = free = 0
        for in_use, capacity in open_pools():
            used += in_use
            free += max(0, capacity - in_use)
        family = self._family()
        family.add_metric(["used"], used)
        family.add_metric(["free"], free)
        return [family]

    def describe(self) -> Iterable[GaugeMetricFamily]:
        """Return the family without values."""
        return [self._family()]

    def _family(self) -> GaugeMetricFamily:
        return GaugeMetricFamily(
            "functory_db_pool_connections",
            "Connections to databases: used, and free (open or not) for the next transactions.",
            labels=["state"],
        )

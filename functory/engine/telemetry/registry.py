"""The metric registry of a process: every family with the roles that move it.

A process shows the families of its own roles. A family of another role is shown as soon as it has moved here, so that
nothing that was counted is hidden.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Literal, TypeVar

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
from prometheus_client.metrics import MetricWrapperBase
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

F = TypeVar("F", bound=MetricWrapperBase)

ROLES = ("server", "router", "scheduler", "watcher", "worker", "gateway")


class MetricRegistry(CollectorRegistry):
    """A registry that shows what the roles of this process can move. Without :meth:`show_roles` it shows everything."""

    def __init__(self) -> None:
        super().__init__(auto_describe=True)
        self.roles: frozenset[str] = frozenset(ROLES)
        # Families of this module's functions with their roles, in the order of their definition.
        self.roles_of: dict[MetricWrapperBase, frozenset[str]] = {}
        # Called before each scrape.
        self.before_scrape: list[Callable[[], None]] = []
        self._registered: list[Collector] = []

    def register(self, collector: Collector) -> None:
        """Add a collector."""
        super().register(collector)
        self._registered.append(collector)

    def unregister(self, collector: Collector) -> None:
        """Remove a collector."""
        super().unregister(collector)
        self._registered.remove(collector)

    def show_roles(self, roles: Collection[str]) -> None:
        """Show the families that ``roles`` can move."""
        self.roles = frozenset(roles)

    def shown(self) -> list[Collector]:
        """Return the collectors that this process shows, for a scrape."""
        for prepare in self.before_scrape:
            prepare()
        return [
            one
            for one in self._registered
            if not isinstance(one, MetricWrapperBase)
            or self.roles & self.roles_of.get(one, self.roles)
            or has_moved(one)
        ]

    def collect(self) -> Iterable[Metric]:
        """Collect what this process shows."""
        for one in self.shown():
            yield from one.collect()


def has_moved(family: MetricWrapperBase) -> bool:
    """Return True when a family has a value other than zero."""
    return any(
        sample.value and not sample.name.endswith("_created")
        for metric in family.collect()
        for sample in metric.samples
    )


registry = MetricRegistry()


def counter(name: str, text: str, *labels: str, on: Sequence[str] = ROLES) -> Counter:
    """Define a counter that the roles ``on`` move."""
    return _registered(Counter(name, text, labels, registry=registry), on)


def gauge(
    name: str,
    text: str,
    *labels: str,
    on: Sequence[str] = ROLES,
    over_children: Literal["livemax", "livesum"] = "livemax",
) -> Gauge:
    """Define a gauge. ``over_children`` combines the values of the children of a prefork worker."""
    return _registered(Gauge(name, text, labels, registry=registry, multiprocess_mode=over_children), on)


def histogram(
    name: str, text: str, *labels: str, buckets: Sequence[float], on: Sequence[str] = ROLES
) -> Histogram:
    """Define a histogram, with buckets in the unit of its name."""
    return _registered(Histogram(name, text, labels, registry=registry, buckets=buckets), on)


def _registered(family: F, on: Sequence[str]) -> F:
    registry.roles_of[family] = frozenset(on)
    return family

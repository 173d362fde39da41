"""The same bursts in a deployment that has grown: with a history, many triggers, a long queue, many functions."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from benchmarks import workload
from benchmarks.speed import history, loads
from benchmarks.speed.client_process import GUARDS, NOOP
from benchmarks.speed.deployments import Deployment
from benchmarks.speed.options import Options
from functory.engine.database import clock
from functory.engine.database.connection import Database
from functory.engine.firings.trigger_store import Triggers
from functory.engine.functions.registry import Functions
from functory.triggers import definition

# Executions of the load whose rows are copied.
TEMPLATE = 500


def stages(deployment: Deployment, options: Options) -> Iterator[tuple[str, Callable[[], Any]]]:
    """What was asked for: a title, and a function that lets the deployment grow. They add up, in this order."""
    if options.history:
        past = _Past(deployment)
        for size in options.history:
            yield f"{size:,} executions of the past", lambda size=size: past.grow(size)
    if options.triggers:
        yield f"{options.triggers:,} more triggers", lambda: add_triggers(deployment, options.triggers)
    if options.queued:
        yield (
            f"{options.queued:,} executions queued for tomorrow",
            lambda: add_queued(deployment, options.queued),
        )
    if options.functions:
        yield (
            f"bursts to {options.functions:,} functions",
            lambda: add_functions(deployment, options.functions, reuse=options.reuse),
        )


class _Past:
    """A history that grows by copies of a load's rows."""

    def __init__(self, deployment: Deployment) -> None:
        self._deployment = deployment
        self._copies = 0
        self._load: history.Load | None = None

    def grow(self, size: int) -> dict[str, int]:
        """Fill in rows until there are those of ``size`` executions; return the new ones by table."""
        observer = self._deployment.observer
        if self._load is None:
            since = observer.now()
            loads.burst(self._deployment, TEMPLATE)
            self._load = history.Load(since, observer.now(), clock.time_of_id(since))
        copies = -(-size // TEMPLATE)
        made = history.extend(observer.url, self._load, self._copies + 1, copies - self._copies)
        self._copies = copies
        return made


def add_triggers(deployment: Deployment, count: int) -> None:
    """Save triggers as users have them, whose patterns match none of the load's events."""
    database = Database(deployment.observer.url)
    try:
        triggers = Triggers(database)
        for name, source in workload.triggers("broad", count):
            # Events of the load have no tenant.
            pattern = {"tenant": ["t-000"], **source}
            triggers.save(f"grown-{name}", definition.define(on=pattern, function="noop"))
    finally:
        database.close()
    deployment.settle(0)


def add_queued(deployment: Deployment, count: int) -> None:
    """Queue executions."""
    deployment.client.ask("queue", count=count)
    deployment.left_open = {"queued executions": count}
    deployment.settle(0)


def add_functions(deployment: Deployment, count: int, *, reuse: bool) -> None:
    """Save functions with a trigger each, to which the bursts go from now on."""
    database = Database(deployment.observer.url)
    try:
        functions, triggers = Functions(database, settings=deployment.roles.settings), Triggers(database)
        for number in range(count):
            name = f"noop_{number}"
            functions.save(NOOP.replace("noop", name), reuse=reuse)
            on = {"type": [f"bench.noop.{number}"]}
            triggers.save(f"bench-{name}", definition.define(on=on, function=name, guards=GUARDS))
    finally:
        database.close()
    deployment.settle(0)
    deployment.functions = count

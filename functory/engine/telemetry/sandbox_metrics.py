"""Metric families of sandboxes and of the packages that functions run with."""

from __future__ import annotations

from functory.engine.telemetry.registry import ROLES, counter, gauge, histogram

SERVER, ROUTER, SCHEDULER, WATCHER, WORKER, GATEWAY = ROLES

TIERS = ("A", "B", "C", "none")

sandbox_tier = gauge(
    "functory_sandbox_tier",
    "Confinement of functions in this process: 1 at its tier (A, B, C, or none for not at all), 0 at the others.",
    "tier",
    on=(WORKER,),
)
sandbox_start = histogram(
    "functory_sandbox_start_seconds",
    "Time until a new confined child has its task; cold: it is the first one of its fork server.",
    "tier",
    "cold",
    buckets=(0.0001, 0.0005, 0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1, 5, 10),
    on=(SERVER, WORKER),
)
sandbox_violations = counter(
    "functory_sandbox_violations_total",
    "Attempts that were ended at a limit of their sandbox, and requests that it refused, by kind.",
    "kind",
    on=(WORKER,),
)
restarts = counter(
    "functory_worker_restarts_total",
    "Processes that a worker replaced: crash and recycle of fork servers, child of a prefork pool.",
    "reason",
    on=(SERVER, WORKER),
)
environment_build = histogram(
    "functory_env_build_seconds",
    "Time to install the packages of one environment, by result.",
    "result",
    buckets=(1, 2, 5, 10, 30, 60, 120, 300, 600),
    on=(SERVER, WORKER),
)
environment_cache = counter(
    "functory_env_cache_total",
    "Environments that an execution or a save needed: there already (hit), or to be built (miss).",
    "result",
    on=(SERVER, WORKER),
)


def set_sandbox_tier(tier: str) -> None:
    """Set the isolation tier of this process (one of :data:`TIERS`)."""
    for known in TIERS:
        sandbox_tier.labels(known).set(known == tier)

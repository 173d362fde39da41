"""State metrics: one process shows them, and a scrape asks no database."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest
import sqlalchemy as sa

from functory.engine.database import schema as t
from functory.engine.database.clock import ManualClock
from functory.engine.executions import worker_registry
from functory.engine.maintenance.pool_gauges import PoolGauges
from functory.engine.maintenance.state_metrics import LEASE_SECONDS, READ_SECONDS, StateMetrics
from functory.engine.telemetry import exposition
from functory.engine.telemetry.registry import MetricRegistry
from tests.support.world import World

pytest_plugins = ["tests.support.world"]

Shown = dict[tuple[str, ...], float]


def shown(metrics: StateMetrics) -> Shown:
    return {
        (sample.name.removeprefix("functory_"), *sample.labels.values()): sample.value
        for family in metrics.collect()
        for sample in family.samples
    }


@pytest.fixture
def schedulers(make_world: Callable[..., World]) -> tuple[World, StateMetrics, StateMetrics]:
    """Two schedulers over one database, with one clock."""
    clock = ManualClock(datetime.now(UTC))
    first, second = (make_world(clock=clock) for _ in range(2))
    return (
        first,
        StateMetrics(first.database, first.settings),
        StateMetrics(second.database, second.settings),
    )


def test_one_scheduler_shows_the_gauges_until_it_ends_or_is_killed(schedulers: Any) -> None:
    world, first, second = schedulers
    first.run_once()
    second.run_once()
    assert shown(first)["leader", "scheduler"] == 1 and len(shown(first)) > 10
    assert shown(second) == {("leader", "scheduler"): 0}
    first.close()
    assert shown(first) == {("leader", "scheduler"): 0}
    second.run_once()
    assert shown(second)["leader", "scheduler"] == 1
    # Killed: it renews its lease no more.
    world.advance(LEASE_SECONDS - 1)
    first.run_once()
    assert shown(first) == {("leader", "scheduler"): 0} and shown(second)["leader", "scheduler"] == 1
    world.advance(2)
    assert shown(second) == {("leader", "scheduler"): 0}
    first.run_once()
    assert shown(first)["leader", "scheduler"] == 1
    second.run_once()
    assert shown(second) == {("leader", "scheduler"): 0}


def test_a_holder_that_renews_keeps_the_lease(schedulers: Any) -> None:
    world, first, second = schedulers
    for _ in range(8):
        first.run_once()
        second.run_once()
        assert (shown(first)["leader", "scheduler"], len(shown(second))) == (1, 1)
        world.advance(READ_SECONDS)


def test_a_scrape_asks_no_database(schedulers: Any) -> None:
    world, first, _ = schedulers
    first.run_once()
    registry = MetricRegistry()
    registry.register(first)
    registry.register(PoolGauges())
    with world.statements() as sent:
        text, _ = exposition.render(registry)
    assert b"functory_worker_up 0" in text and b"functory_db_pool_connections" in text
    assert sent == []


def test_the_gauges_say_where_executions_and_events_wait(world: World) -> None:
    world.function()
    rows = [world.start() for _ in range(4)]
    world.claim(rows[0])
    later = world.database.clock.now().replace(year=2999)
    with world.database.write() as tx:
        for row, changed in ((rows[1], {"run_at": later}), (rows[2], {"run_at": later, "attempt": 1})):
            tx.execute(
                sa.update(t.backlog)
                .where(t.backlog.c.execution_id == row["id"])
                .values(run_at=changed["run_at"])
            )
            tx.execute(sa.update(t.execution).where(t.execution.c.id == row["id"]).values(**changed))
    world.events.emit("order.placed")
    gauges = StateMetrics(world.database, world.settings)
    gauges.run_once()
    found = shown(gauges)
    states = {key[1]: value for key, value in found.items() if key[0] == "executions_in_state"}
    assert states == {"queued": 1, "delayed": 1, "waiting": 0, "retrying": 1, "running": 1}
    assert found["queue_depth", "executions"] == 1
    assert found["queue_depth", "events"] == len(world.rows(t.routing_queue)) > 0
    assert (found["functions", "user"], found["functions", "function"]) == (1, 0)
    assert found["function_versions", "user"] == 1


def test_a_worker_counts_while_its_heartbeat_is_younger_than_a_lease(world: World) -> None:
    worker_registry.record_heartbeat(world.database, "machine:1:a", 2, "A")
    world.advance(world.settings.lease_seconds - 1)
    worker_registry.record_heartbeat(world.database, "machine:2:b", 2, "A")
    gauges = StateMetrics(world.database, world.settings)
    gauges.run_once()
    assert shown(gauges)["worker_up",] == 2
    assert shown(gauges)["worker_heartbeat_age_seconds",] == world.settings.lease_seconds - 1
    world.advance(READ_SECONDS)
    gauges.run_once()
    assert shown(gauges)["worker_up",] == 1

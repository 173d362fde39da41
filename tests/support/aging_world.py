"""A world whose rows grow old: what pruning tests make, prune and compare."""

import itertools
from collections import Counter
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import sqlalchemy as sa

from functory.engine.database import schema
from functory.engine.database.clock import lowest_id
from functory.engine.database.connection import Database
from functory.engine.maintenance import tree_deletion
from functory.engine.maintenance.invariants import verify
from functory.engine.maintenance.tree_deletion import RetentionLimits
from tests.support.world import World

DAY = 86_400.0
MONTH = RetentionLimits(trees=timedelta(days=30))


def ids_of(database: Database) -> Callable[[], str]:
    """Ids that follow the test's clock, as real ones follow the real one."""
    numbers = itertools.count(1)
    return lambda: lowest_id(database.clock.now())[:-12] + f"{next(numbers):012x}"


def prune(world: World, limits: RetentionLimits = MONTH) -> Counter[str]:
    """A whole pass; nothing is violated after any of its steps."""
    gone: Counter[str] = Counter()
    for step in tree_deletion.prune(world.database, limits):
        gone += step
        assert broken(world) == {}
    return gone


def broken(world: World, **options: float) -> dict[str, tuple[str, ...]]:
    return {
        result.code: result.examples
        for result in verify(world.database, world.settings, patience=options.get("patience", 10_000_000.0))
        if result.count
    }


def publish(world: World) -> None:
    """What the publisher does once the broker has confirmed."""
    with world.database.write() as tx:
        tx.execute(sa.delete(schema.outbox))


def order(world: World, data: object = None) -> str:
    """An order that is worked off to its end; the root's id."""
    id_ = world.events.emit("order", data or {})
    world.run_all()
    publish(world)
    return id_


def roots(world: World) -> set[str]:
    return {row["root_id"] for row in world.rows(schema.event)}


def parts(world: World, root: str) -> dict[str, list[dict[str, Any]]]:
    """Every row of a tree."""
    ids = [row["id"] for row in world.rows(schema.execution, schema.execution.c.root_id == root)]
    found = {
        table.name: world.rows(table, table.c.root_id == root)
        for table in (
            schema.event,
            schema.execution,
            schema.firing,
            schema.buffered_match,
            schema.budget,
            schema.suppression,
        )
    }
    return found | {
        table.name: world.rows(table, table.c.execution_id.in_(ids))
        for table in (schema.attempt, schema.span, schema.log)
    }

"""What is not over is never pruned, however old it is."""

from collections import Counter
from collections.abc import Callable

import pytest
import sqlalchemy as sa

from functory.engine.database import schema
from functory.engine.events.event_publishing import OutboxOnly
from functory.engine.maintenance import tree_deletion
from tests.support.aging_world import DAY, MONTH, order, parts, publish, roots
from tests.support.world import World

pytest_plugins = ["tests.support.world"]


def leave_pending(world: World) -> str:
    return world.events.emit("order", {})


def leave_quarantined(world: World) -> str:
    root = order(world)
    _set(world, schema.event, schema.event.c.id == root, state="quarantined")
    with world.database.write() as tx:
        tx.execute(sa.delete(schema.firing))
        tx.execute(sa.update(schema.execution).values(cause="replay", trigger_id=None))
        tx.execute(sa.update(schema.budget).values(used=0))
    return root


def leave_unpublished(world: World) -> str:
    root = world.events.emit("order", {})
    world.router.publish_with(OutboxOnly())
    world.run_all()
    return root


def leave_queued(world: World) -> str:
    root = world.events.emit("order", {})
    world.route()
    publish(world)
    return root


def leave_running(world: World) -> str:
    root = leave_queued(world)
    world.worker.claim_any(10)
    world.route()
    publish(world)
    return root


def leave_waiting(world: World) -> str:
    world.trigger("late", "other", {"type": ["late"]}, flow={"debounce": {"period": "7d"}})
    root = world.events.emit("late", {})
    world.route()
    publish(world)
    return root


def leave_compensation(world: World) -> str:
    root = order(world)
    (row,) = world.rows(schema.execution)
    with world.database.write() as tx:
        tx.insert(
            schema.compensation,
            [
                {
                    "saga_id": row["id"],
                    "position": 1,
                    "step_id": row["id"],
                    "function": "work",
                    "compensate": "other",
                    "state": "failed",
                    "created_at": tx.now,
                    "updated_at": tx.now,
                }
            ],
        )
    return root


@pytest.mark.parametrize(
    ("leave", "reason"),
    [
        (leave_pending, "an event is pending"),
        (leave_quarantined, "an event is quarantined"),
        (leave_unpublished, "an event is not published"),
        (leave_queued, "an execution is open"),
        (leave_running, "an execution is open"),
        (leave_waiting, "a match waits"),
        (leave_compensation, "a compensation is open"),
    ],
)
def test_what_is_not_over_is_never_pruned_however_old_it_is(
    aging: World, leave: Callable[[World], str], reason: str
):
    root = leave(aging)
    before = parts(aging, root)
    aging.advance(80 * DAY)
    going, kept = tree_deletion.preview(aging.database, MONTH)
    assert kept == Counter({reason: 1})
    gone = Counter[str]()
    for step in tree_deletion.prune(aging.database, MONTH):
        gone += step
    assert parts(aging, root) == before
    assert roots(aging) == {root}
    assert gone["trees"] == going["trees"] > 0
    assert gone["event"] == going["event"]


def _set(world: World, table: sa.Table, condition: object, **values: object) -> None:
    with world.database.write() as tx:
        tx.execute(sa.update(table).where(condition).values(**values))  # type: ignore[arg-type]

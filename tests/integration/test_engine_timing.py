"""Two defects that cost time and not events: clocks that disagree, and rows that two roles wanted at once."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import sqlalchemy as sa

from engine import events, migrate, tables
from engine.clock import ServerClock
from engine.database import Database

if TYPE_CHECKING:
    from tests.engine import World

pytest_plugins = ["tests.engine"]


def test_the_servers_clock_is_read_off_the_moment_of_the_answer() -> None:
    server = datetime(2030, 1, 1, tzinfo=UTC)
    # The answer belongs to a moment ten seconds ago: a slow connection must not shift the clock.
    clock = ServerClock(lambda: (time.monotonic() - 10, server))
    assert 10 <= (clock.now() - server).total_seconds() < 11


def test_what_the_dispatcher_has_sent_is_claimed_by_a_worker_whose_clock_is_behind(world: World) -> None:
    world.function()
    row = world.start(delay=5)
    assert world.worker.claim([row["id"]]) == [], "not due, and nobody has sent it"
    with world.database.write() as tx:
        tx.execute(
            sa.update(tables.execution).where(tables.execution.c.id == row["id"]).values(dispatched_at=tx.now)
        )
    assert [claim.id for claim in world.worker.claim([row["id"]])] == [row["id"]]


def test_publisher_and_router_never_hide_events_from_each_other(postgres_url: str) -> None:
    database = Database(postgres_url)
    try:
        migrate.upgrade(database)
        id_ = events.Events(database).emit("order.placed", {})
        with database.write() as router:
            assert [row["id"] for row in events.take_pending(router, 10)] == [id_]
            with database.write() as publisher:
                assert [row["id"] for row in events.take_unpublished(publisher, 10)] == [id_]
    finally:
        database.close()

"""PostgreSQL updates the rows that every execution changes in place, without a new entry in an index (HOT)."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import sqlalchemy as sa

from functory.engine.database import migrations, schema
from functory.engine.executions import queue_rows
from functory.engine.executions.retry_or_dead import AttemptResult
from tests.services.postgres import Postgres
from tests.support.waiting import wait_for
from tests.support.world import World

pytest_plugins = ["tests.support.world"]

# What the engine changes after the insert.
CHANGING = {
    "execution": {
        "state", "attempt", "failures", "released", "fence", "run_at", "lease_until", "worker_id",
        "cancel_requested_at", "versions", "result", "result_kind", "warnings", "error", "started_at", "finished_at",
    },
    "attempt": {"ended_at", "outcome", "error", "duration_seconds", "waited_seconds"},
    "in_flight": {"claimed", "dispatched_at", "dispatch_count"},
}  # fmt: skip

UPDATES = sa.text(
    "SELECT relname, n_tup_upd, n_tup_hot_upd FROM pg_stat_user_tables WHERE relname IN"
    " ('execution', 'attempt', 'in_flight')"
)
EXECUTIONS = 400


@pytest.mark.parametrize("name", CHANGING)
def test_no_index_has_a_column_that_changes(name: str) -> None:
    table = schema.metadata.tables[name]
    assert {column.name for column in table.columns} >= CHANGING[name]
    for index in table.indexes:
        where = str(index.dialect_options["postgresql"]["where"])
        used = {column.name for column in index.columns} | {
            column.name for column in table.columns if column.name in where.split()
        }
        assert not used & CHANGING[name], index.name


def updates(world: World) -> dict[str, tuple[int, int]]:
    with world.database.read() as tx:
        return {row["relname"]: (row["n_tup_upd"], row["n_tup_hot_upd"]) for row in tx.rows(UPDATES)}


def run(world: World) -> dict[str, tuple[int, int]]:
    """Start, claim and finish executions. Returns by table how many updates there were, and how many in place."""
    before = updates(world)
    rows = [world.start() for _ in range(EXECUTIONS)]
    for first in range(0, EXECUTIONS, 50):
        ids = [row["id"] for row in rows[first : first + 50]]
        with world.database.write() as tx:
            queue_rows.mark_sent(tx, ids)
        claims = world.worker.claim(ids)
        world.worker.finish_many([(claim, AttemptResult("succeeded", result=1)) for claim in claims])
    expected = {"execution": 2 * EXECUTIONS, "attempt": EXECUTIONS, "in_flight": EXECUTIONS}

    def counted() -> dict[str, tuple[int, int]]:
        now = updates(world)
        return {name: (now[name][0] - before[name][0], now[name][1] - before[name][1]) for name in now}

    wait_for(lambda: all(counted()[name][0] >= number for name, number in expected.items()))
    return counted()


@pytest.fixture
def alone(own_postgres_server: Postgres, tmp_path: Path) -> Iterator[World]:
    """A world on a server that has no other work.

    PostgreSQL frees the place of an old row when no transaction of the whole server began before the update, and
    ANALYZE, which autovacuum runs, is such a transaction too.
    """
    own_postgres_server.settings = {**own_postgres_server.settings, "autovacuum": "off"}
    own_postgres_server.restart()
    with own_postgres_server.database() as url:
        world = World(url, tmp_path)
        migrations.upgrade(world.database)
        yield world
        world.close()


def test_nine_of_ten_updates_of_a_run_touch_no_index(alone: World) -> None:
    alone.function()
    found = run(alone)
    assert all(in_place >= 0.9 * all_ for all_, in_place in found.values()), found

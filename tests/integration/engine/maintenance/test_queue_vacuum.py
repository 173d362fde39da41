"""The queue tables are cleaned as soon as they have many dead rows, and not once a minute."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pytest
import sqlalchemy as sa

from functory.engine.database.connection import Database
from functory.engine.maintenance.queue_vacuum import QueueVacuum
from functory.engine.settings import Settings
from tests.services.missing_servers import require
from tests.services.pgbouncer import PgBouncer
from tests.support.waiting import wait_for
from tests.support.world import World

pytest_plugins = ["tests.support.world"]

DEAD = sa.text("SELECT relname, n_dead_tup FROM pg_stat_user_tables WHERE relname = 'backlog'")


@pytest.fixture
def used(emptied_postgres: str, tmp_path: Any) -> Iterator[World]:
    """A database whose backlog has dead rows, as the server has counted them."""
    world = World(emptied_postgres, tmp_path)
    world.function()
    for id_ in [world.start()["id"] for _ in range(20)]:
        world.executions.cancel(id_)
    wait_for(lambda: dead_rows(world) >= 20)
    yield world
    world.close()


def dead_rows(world: World) -> int:
    with world.database.read() as tx:
        return int(tx.pairs(DEAD).get("backlog", 0))


@pytest.mark.postgres
def test_dead_rows_of_a_queue_are_removed(used: World) -> None:
    cleaner = QueueVacuum(used.database, used.settings)
    assert "backlog" not in cleaner.vacuum(most=1_000_000)
    assert dead_rows(used) >= 20
    assert "backlog" in cleaner.vacuum(most=10)

    def is_clean() -> bool:
        # A transaction that began before, such as that of an autovacuum, keeps dead rows from the first one.
        cleaner.vacuum(most=0)
        return dead_rows(used) == 0

    wait_for(is_clean)


@pytest.mark.postgres
def test_it_works_through_a_pooler(used: World, emptied_postgres: str, postgres_server: Any) -> None:
    with (
        PgBouncer(require("pgbouncer").programs, postgres_server.start().port) as pgbouncer,
        closing(Database(pgbouncer.through(emptied_postgres), direct_url=emptied_postgres)) as pooled,
    ):
        assert "backlog" in QueueVacuum(pooled, used.settings).vacuum(most=10)
    wait_for(lambda: dead_rows(used) == 0)


@pytest.mark.postgres
def test_a_role_without_the_right_cleans_nothing_and_raises_nothing(
    used: World, emptied_postgres: str
) -> None:
    role = f"reader_{uuid.uuid4().hex[:8]}"
    with used.database.write() as tx:
        tx.execute(sa.text(f"CREATE ROLE {role} LOGIN"))
    try:
        url = sa.make_url(emptied_postgres).set(username=role).render_as_string(hide_password=False)
        with closing(Database(url)) as other:
            assert QueueVacuum(other, used.settings).vacuum(most=10) == []
        assert dead_rows(used) >= 20
    finally:
        with used.database.write() as tx:
            tx.execute(sa.text(f"DROP ROLE {role}"))


def test_sqlite_needs_no_vacuum(tmp_path: Any) -> None:
    with closing(Database(f"sqlite:///{tmp_path / 'x.db'}")) as database:
        assert QueueVacuum(database, Settings()).vacuum(most=0) == []

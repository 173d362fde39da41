"""A pooler in transaction mode in front of PostgreSQL: the real pgbouncer."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import pytest
import sqlalchemy as sa

from functory.engine.database import migrations, schema
from functory.engine.database.connection import Database
from functory.engine.errors import Conflict
from tests.services.missing_servers import require
from tests.services.pgbouncer import PgBouncer
from tests.support.waiting import wait_for
from tests.support.world import World

pytest_plugins = ["tests.support.world"]
pytestmark = [pytest.mark.postgres, pytest.mark.timeout(300)]


@pytest.fixture(scope="module")
def pgbouncer(postgres_server: Any) -> Iterator[PgBouncer]:
    """A pgbouncer of this module in front of the shared PostgreSQL server."""
    with PgBouncer(require("pgbouncer").programs, postgres_server.start().port) as found:
        yield found


def test_work_goes_through_a_pooler_in_transaction_mode(
    pgbouncer: PgBouncer, emptied_postgres: str, tmp_path: Any
) -> None:
    """Statements are repeated often enough to be prepared, by clients that share the sessions of the server."""
    worlds = [World(pgbouncer.through(emptied_postgres), tmp_path) for _ in range(3)]
    worlds[0].function("work")
    worlds[0].trigger("placed", "work", {"type": ["order.placed"]}, input={})
    failed: list[BaseException] = []

    def use(world: World) -> None:
        try:
            for n in range(12):
                world.events.emit("order.placed", {"n": n})
                world.router.route_batch()
                for claim in world.worker.claim_any(3):
                    world.finish(claim)
        except BaseException as error:
            failed.append(error)

    threads = [threading.Thread(target=use, args=(world,)) for world in worlds]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failed
    worlds[0].run_all()
    done = worlds[0].rows(schema.execution, schema.execution.c.state == "succeeded")
    assert len(done) == 36
    for world in worlds:
        world.close()


def test_nothing_of_a_session_is_left_to_the_next_client(pgbouncer: PgBouncer, emptied_postgres: str) -> None:
    database = Database(pgbouncer.through(emptied_postgres), idle_seconds=7)
    timeout = sa.text("SELECT current_setting('idle_in_transaction_session_timeout')")
    for _ in range(8):
        with database.write() as tx:
            assert tx.scalar(timeout) == "7s"
    with database.engine.connect() as connection:
        assert connection.scalar(timeout) == "0"
        assert connection.scalar(sa.text("SELECT count(*) FROM pg_prepared_statements")) == 0
    database.close()


def test_a_migration_through_a_pooler_is_refused_without_a_direct_url(
    pgbouncer: PgBouncer, postgres_url: str
) -> None:
    pooled = Database(pgbouncer.through(postgres_url))
    with pytest.raises(Conflict, match=r"(?s)through a pooler.*FUNCTORY_DATABASE_DIRECT_URL"):
        migrations.upgrade(pooled)
    pooled.close()
    both = Database(pgbouncer.through(postgres_url), direct_url=postgres_url)
    assert migrations.upgrade(both) == migrations.HEAD
    # Pooled again: there is nothing to migrate.
    assert migrations.upgrade(pooled) == migrations.HEAD
    pooled.close()
    both.close()


def test_wake_ups_take_the_direct_url(pgbouncer: PgBouncer, emptied_postgres: str) -> None:
    through = pgbouncer.through(emptied_postgres)
    listener, sender = Database(through, direct_url=emptied_postgres), Database(through)
    listener.listen_for_wakeups()

    def heard() -> bool:
        seen = listener.wakeup.generation("events")
        with sender.write() as tx:
            tx.wake("events")
        return listener.wakeup.wait("events", seen, 0.5) != seen

    wait_for(heard, "a wake-up")
    listener.close()
    sender.close()


def test_without_a_direct_url_roles_poll(
    pgbouncer: PgBouncer, emptied_postgres: str, capsys: pytest.CaptureFixture[str]
) -> None:
    database = Database(pgbouncer.through(emptied_postgres))
    database.listen_for_wakeups()
    wait_for(lambda: "FUNCTORY_DATABASE_DIRECT_URL" in "".join(capsys.readouterr()), "a warning")
    assert database.wakeup.poll_multiplier == 1.0
    database.close()

"""PostgreSQL's plans: a kept plan may be of an empty table, unless the process only makes plans that use indexes."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import sqlalchemy as sa

from functory.engine.database import schema
from functory.engine.database.connection import Database
from functory.engine.database.id_lists import one_of
from functory.engine.executions.attempts import Attempts
from functory.engine.executions.retry_or_dead import AttemptResult
from tests.support.world import LEASE, World, on_postgresql

pytest_plugins = ["tests.support.world"]

OF_IDS = sa.select(sa.func.count()).select_from(schema.execution).where(one_of(schema.execution.c.id))
PREPARED = sa.text("SELECT count(*) FROM pg_prepared_statements WHERE statement LIKE '%ANY(CAST(%'")


@pytest.mark.postgres
@pytest.mark.parametrize(("ids", "kept"), [(1, 1), (200, 0)])
def test_only_plans_for_a_few_rows_are_kept(emptied_postgres: str, ids: int, kept: int) -> None:
    database = Database(emptied_postgres)
    given = [f"00000000-0000-0000-0000-{number:012}" for number in range(ids)]
    with database.read() as tx:
        for _ in range(20):
            assert tx.scalar(OF_IDS, {"ids": given}) == 0
        assert tx.scalar(PREPARED) == kept
    database.close()


@pytest.mark.postgres
def test_a_process_that_finds_rows_by_keys_keeps_all_plans(emptied_postgres: str) -> None:
    database = Database(emptied_postgres, by_keys=True)
    given = [f"00000000-0000-0000-0000-{number:012}" for number in range(200)]
    with database.read() as tx:
        for _ in range(20):
            assert tx.scalar(OF_IDS, {"ids": given}) == 0
        assert tx.scalar(PREPARED) == 1
    database.close()


@on_postgresql
@pytest.mark.parametrize("together", [1, 50])
def test_claims_and_results_read_no_table_as_a_whole(make_world: Callable[..., World], together: int) -> None:
    world = make_world()
    database = Database(world.url, clock=world.clock, by_keys=True, pool_size=1)
    attempts = Attempts(database, "worker", lease_seconds=LEASE)
    world.function()

    def run() -> None:
        claims = attempts.claim([world.start()["id"] for _ in range(together)])
        attempts.finish_many([(claim, AttemptResult("succeeded", result=1)) for claim in claims])

    def whole_reads() -> int:
        with database.write() as tx:
            tx.execute(sa.text("SELECT pg_stat_force_next_flush()"))
        with world.database.read() as tx:
            read = "SELECT sum(seq_scan) FROM pg_stat_user_tables WHERE relname IN ('execution', 'attempt')"
            return tx.scalar(sa.text(read))

    # The tables are empty at first, and nothing has counted their rows.
    run()
    before = whole_reads()
    for _ in range(8):
        run()
    assert whole_reads() == before
    assert len(world.rows(schema.attempt)) == 9 * together
    database.close()

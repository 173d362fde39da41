"""PostgreSQL plans a statement about many rows for the tables as they are now: a kept plan may be of an empty table."""

from __future__ import annotations

import pytest
import sqlalchemy as sa

from functory.engine.database import schema
from functory.engine.database.connection import Database
from functory.engine.database.id_lists import one_of

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

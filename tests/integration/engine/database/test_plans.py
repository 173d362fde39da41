"""PostgreSQL plans each statement for the tables as they are now: a plan that is kept may be one of an empty table."""

from __future__ import annotations

import pytest
import sqlalchemy as sa

from functory.engine.database.connection import Database

pytest_plugins = ["tests.support.world"]


@pytest.mark.postgres
def test_no_session_keeps_plans(emptied_postgres: str) -> None:
    database = Database(emptied_postgres)
    with database.read() as tx, database.write() as other:
        for each in (tx, other):
            assert each.scalar(sa.text("SELECT current_setting('plan_cache_mode')")) == "force_custom_plan"
    database.close()

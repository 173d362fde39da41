"""A server that has no connections left: a role says so, is not ready, and starts when there are enough."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg import sql

from tests.services.postgres import ROLE
from tests.support.processes import Roles


@pytest.fixture
def limited(postgres_server: Any) -> Iterator[tuple[str, Any]]:
    """The name of a database role with three connections, and the function that sets another limit."""
    name = f"few_{uuid.uuid4().hex[:12]}"
    limit = sql.SQL("ALTER ROLE {} CONNECTION LIMIT {}")
    with postgres_server.start().connect() as connection:
        # PostgreSQL does not limit superusers.
        role = sql.Identifier(name)
        connection.execute(sql.SQL("CREATE ROLE {} LOGIN CONNECTION LIMIT 3").format(role))
        connection.execute(sql.SQL("GRANT {} TO {}").format(sql.Identifier(ROLE), role))
        yield name, lambda number: connection.execute(limit.format(role, sql.Literal(number)))
        connection.execute(
            "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity WHERE usename = %s", [name]
        )
        connection.execute(sql.SQL("DROP ROLE {}").format(role))


@pytest.mark.postgres
@pytest.mark.timeout(300)
@pytest.mark.parametrize("role", ["router", "worker"])
def test_a_role_without_its_connections_is_not_ready_and_says_so(
    tmp_path: Path, postgres_url: str, limited: tuple[str, Any], role: str
) -> None:
    name, set_limit = limited
    with Roles(tmp_path, database_url=postgres_url, broker_url="none://") as roles:
        roles.migrate()
        url = postgres_url.replace(f"{ROLE}@", f"{name}@")
        started = roles.start(role, wait=False, database_url=url)
        started.wait_for("max_connections", 120)
        assert not started.ready and "ready  " not in started.output
        set_limit(50)
        started.wait_ready(120)
        with psycopg.connect(postgres_url.replace("+psycopg", "")) as connection:
            count = connection.execute(
                "SELECT count(*) FROM pg_stat_activity WHERE usename = %s", [name]
            ).fetchone()
        # Those that it keeps, and at most two more.
        assert count is not None and count[0] <= {"router": 6, "worker": 8}[role] + 2
        assert started.stop(60) == 0

"""A failover of PostgreSQL: its codes mean "unavailable", finished results wait, and the pool finds the new server."""

from __future__ import annotations

import contextlib
import threading
from typing import Any

import psycopg
import pytest
import sqlalchemy as sa
from sqlalchemy.exc import DBAPIError

from functory.engine.database import schema
from functory.engine.database.connection import Database
from functory.engine.database.driver_errors import translate_driver_error, unknown_commit_outcome
from functory.engine.errors import Unavailable
from functory.workers.execution.unavailable_retry import retry_while_unavailable
from tests.support.world import World, on_postgresql

pytest_plugins = ["tests.support.world"]

# Shutdown and crash of the server, a standby, lost connections, no resources, rolled-back transactions.
CODES = (
    *("25006", "25P03", "57P01", "57P02", "57P03", "57014"),
    *("08000", "08001", "08003", "08004", "08006", "08P01"),
    *("53000", "53100", "53200", "53300", "53400", "58000", "58030", "40001", "40P01", "40003"),
)


def _wrapped(code: str) -> DBAPIError:
    """The error of this code as SQLAlchemy raises it."""
    original = psycopg.errors.lookup(code)(f"the server said {code}")
    wrapped = DBAPIError.instance("UPDATE x", {}, original, psycopg.Error, dialect=_dialect())
    assert isinstance(wrapped, DBAPIError)
    return wrapped


def _dialect() -> Any:
    return sa.create_engine("postgresql+psycopg://").dialect


@pytest.mark.parametrize("code", CODES)
def test_every_code_of_a_failover_means_unavailable(code: str) -> None:
    meant = translate_driver_error("db", _wrapped(code))
    assert isinstance(meant, Unavailable) and code in meant.why
    assert meant.try_


@pytest.mark.parametrize(
    ("code", "unknown"),
    [("08006", True), ("08P01", True), ("57P01", True), ("25006", False), ("40001", False), ("53100", False)],
)
def test_only_a_lost_connection_leaves_a_commit_unknown(code: str, unknown: bool) -> None:
    # A pooler reports a server that was lost during COMMIT as 08P01.
    assert (unknown_commit_outcome("db", _wrapped(code)) is not None) is unknown


def test_a_full_server_says_what_to_change() -> None:
    meant = translate_driver_error("db", _wrapped("53300"))
    assert meant is not None and "max_connections" in meant.try_


@on_postgresql
def test_a_finished_result_is_kept_while_the_server_is_read_only(world: World, postgres_server: Any) -> None:
    world.function("work")
    started = world.start()
    claim = world.claim(started)
    waits: list[str] = []

    def over(error: Unavailable) -> None:
        waits.append(error.why)
        stack.close()

    with contextlib.ExitStack() as stack:
        stack.enter_context(postgres_server.read_only(world.url))
        done = retry_while_unavailable(lambda: world.finish(claim, result=7), threading.Event(), on_wait=over)
    # The session that met the read-only server was replaced: the next try reached the one that takes writes.
    assert len(waits) == 1 and "read-only" in waits[0]
    assert done.state == "succeeded"
    assert world.executions.get(started["id"])["result"] == 7


@pytest.mark.postgres
def test_connections_that_the_server_has_ended_are_not_used_again(
    emptied_postgres: str, postgres_server: Any
) -> None:
    database = Database(emptied_postgres)
    with database.write() as tx:
        tx.insert(schema.counter, [{"name": "before", "value": 1}])
    assert postgres_server.backends(emptied_postgres)
    postgres_server.terminate(postgres_server.backends(emptied_postgres))
    # Without an error: a lost connection of the pool is found and replaced before the transaction.
    with database.write() as tx:
        tx.insert(schema.counter, [{"name": "after", "value": 1}])
    database.close()

"""States are compared in the text of a statement, so that partial indexes are found; what people ask for is not."""

from __future__ import annotations

from typing import Any

import pytest
import sqlalchemy as sa
from sqlalchemy.dialects import postgresql, sqlite

from functory.engine.database.connection import Database
from functory.engine.database.schema import event, execution, metadata
from functory.engine.events.routing_queue import take_pending


def compiled(condition: sa.ColumnElement[bool]) -> tuple[str, dict[str, object]]:
    found = condition.compile(dialect=sqlite.dialect())
    return str(found), found.params


@pytest.mark.parametrize(
    ("condition", "text"),
    [
        (execution.c.state == "queued", "execution.state = 'queued'"),
        (execution.c.state != "queued", "execution.state != 'queued'"),
        (execution.c.state.in_(("running", "queued")), "execution.state IN ('queued', 'running')"),
        (execution.c.state.in_({"running"}), "execution.state IN ('running')"),
        (execution.c.state.not_in(["dead"]), "(execution.state NOT IN ('dead'))"),
        (execution.alias("other").c.state == "dead", "other.state = 'dead'"),
    ],
)
def test_a_state_is_written_into_the_text(condition: sa.ColumnElement[bool], text: str) -> None:
    assert compiled(condition) == (text, {})


@pytest.mark.parametrize("given", ["queue", "", "queued'; DROP TABLE execution; --", "QUEUED", "é"])
def test_what_is_no_state_is_a_parameter(given: str) -> None:
    for condition in (execution.c.state == given, execution.c.state.in_(["queued", given])):
        text, values = compiled(condition)
        assert given == "" or given not in text
        assert given in (values.get("state_1") or ()) or values["state_1"] == given


def test_a_state_of_another_table_is_no_state() -> None:
    assert compiled(event.c.state == "queued") == ("event.state = ?", {"state_1": "queued"})


def test_postgres_gets_the_same_text() -> None:
    condition = execution.c.state == "queued"
    assert str(condition.compile(dialect=postgresql.dialect())) == "execution.state = 'queued'"


def test_the_router_looks_into_the_index_of_what_is_pending() -> None:
    database = Database("sqlite:///:memory:")
    with database.connection(write=True) as connection, connection.begin():
        metadata.create_all(connection)
    asked: list[str] = []

    @sa.event.listens_for(database.engine, "before_cursor_execute")
    def note(_connection: Any, _cursor: Any, statement: str, *_: Any) -> None:
        asked.append(statement)

    with database.write() as tx:
        take_pending(tx, 10)
    (statement,) = (one for one in asked if "FROM routing_queue" in one or "JOIN routing_queue" in one)
    with database.connection() as connection:
        # Nothing is given beside the text: the plan must not depend on it.
        nothing = (None,) * statement.count("?")
        plan = connection.exec_driver_sql(f"EXPLAIN QUERY PLAN {statement}", nothing).all()
    assert "SCAN" not in str(plan) and "routing_queue" in str(plan) and "TEMP B-TREE" not in str(plan)
    database.close()

"""PostgreSQL with other settings than its own: each is set for the session, or it is named with what changes it."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from psycopg import sql
from sqlalchemy.engine import make_url

from functory.engine.database import migrations, postgres_server, schema
from functory.engine.database.connection import Database
from functory.engine.errors import Invalid, Unavailable
from functory.engine.server_problem import ServerProblem
from tests.services.missing_servers import require
from tests.services.pgbouncer import PgBouncer
from tests.support.cli_shell import Shell
from tests.support.world import World

pytest_plugins = ["tests.support.world"]
pytestmark = [pytest.mark.postgres, pytest.mark.timeout(300)]

# What changes the meaning of a statement, the form of a value, or ends a statement.
ODD = {
    "default_transaction_isolation": "serializable",
    "default_transaction_deferrable": "on",
    "timezone": "Asia/Kathmandu",
    "datestyle": "SQL, DMY",
    "intervalstyle": "sql_standard",
    "bytea_output": "escape",
    "extra_float_digits": "-15",
    "standard_conforming_strings": "off",
    "array_nulls": "off",
    "transform_null_equals": "on",
    "client_encoding": "LATIN1",
    "statement_timeout": "1min",
    "lock_timeout": "1min",
    "idle_in_transaction_session_timeout": "1min",
    "plan_cache_mode": "force_custom_plan",
    "jit": "on",
    "jit_above_cost": "0",
}


@contextmanager
def setting(server: Any, url: str, **values: str) -> Iterator[None]:
    """Give the database at ``url`` defaults for the sessions that begin inside of the block."""
    name = sql.Identifier(make_url(url).database or "")
    with server.connect() as session:
        for key, value in values.items():
            session.execute(
                sql.SQL("ALTER DATABASE {} SET {} = {}").format(name, sql.Identifier(key), sql.Literal(value))
            )
        try:
            yield
        finally:
            session.execute(sql.SQL("ALTER DATABASE {} RESET ALL").format(name))


@pytest.fixture(scope="module")
def pgbouncer(postgres_server: Any) -> Iterator[PgBouncer]:
    """A pgbouncer of this module in front of the shared PostgreSQL server."""
    with PgBouncer(require("pgbouncer").programs, postgres_server.start().port) as found:
        yield found


@pytest.mark.parametrize("pooled", [False, True], ids=["direct", "through a pooler"])
def test_work_is_the_same_under_any_settings_of_a_session(
    postgres_server: Any, emptied_postgres: str, tmp_path: Path, request: pytest.FixtureRequest, pooled: bool
) -> None:
    url = emptied_postgres
    with setting(postgres_server, url, **ODD):
        if pooled:
            url = request.getfixturevalue("pgbouncer").through(url)
        world = World(url, tmp_path)
        world.function("work")
        world.trigger("placed", "work", {"type": ["order.placed"]}, input={"text": "{{ event.data.text }}"})
        text = "grüße \\ '€ 𝄞"
        sent = world.events.emit("order.placed", {"text": text, "number": 0.1 + 0.2})
        world.run_all()
        (event,) = world.rows(schema.event, schema.event.c.id == sent)
        assert event["data"] == {"text": text, "number": 0.1 + 0.2}
        assert event["time"] == world.clock.now()
        (done,) = world.rows(schema.execution, schema.execution.c.state == "succeeded")
        assert done["input"] == {"text": text}
        with world.database.write() as tx:
            found = {name: tx.scalar(sa.text(f"SHOW {name}")) for name in (*ODD, "transaction_isolation")}
        assert found | {"transaction_isolation": "read committed", "timezone": "UTC"} == found
        assert (found["statement_timeout"], found["lock_timeout"]) == ("0", "0")
        assert (found["client_encoding"], found["bytea_output"]) == ("UTF8", "hex")
        # A page that PostgreSQL compiles takes three times as long.
        assert found["jit"] == "off"
        for snapshot, level in ((False, "read committed"), (True, "repeatable read")):
            with world.database.read(snapshot=snapshot) as tx:
                assert tx.scalar(sa.text("SHOW transaction_isolation")) == level
        world.close()
        server = Database(url)
        assert abs((server.clock.now() - datetime.now(UTC)).total_seconds()) < 60
        server.close()


def test_a_migration_works_under_any_settings_of_a_session(postgres_server: Any, postgres_url: str) -> None:
    database = Database(postgres_url)
    with setting(postgres_server, postgres_url, **ODD):
        assert migrations.upgrade(database) == migrations.HEAD
    database.close()


@pytest.fixture
def role(postgres_server: Any, emptied_postgres: str) -> Iterator[Callable[..., str]]:
    """A function that makes a role without rights, with options. Returns the URL for it."""
    made: list[sql.Identifier] = []
    numbers = itertools.count()
    url = make_url(emptied_postgres)
    with postgres_server.connect() as session:

        def make(options: str = "") -> str:
            name = f"{url.database}_{next(numbers)}"
            made.append(sql.Identifier(name))
            session.execute(sql.SQL("CREATE ROLE {} LOGIN " + options).format(made[-1]))
            return url.set(username=name).render_as_string(hide_password=False)

        yield make
        for one in made:
            postgres_server.session(emptied_postgres).execute(sql.SQL("DROP OWNED BY {}").format(one))
            session.execute(sql.SQL("DROP ROLE {}").format(one))


def doctor(folder: Path, url: str) -> list[tuple[str, str, str]]:
    """The faults that ``functory doctor database`` finds: verdict, text, advice."""
    folder.mkdir(exist_ok=True)
    shell = Shell(folder)
    shell.environment["FUNCTORY_DATABASE_URL"] = url
    found = shell.json("doctor", "database", status=None)
    return [(one["verdict"], one["found"], one["advice"]) for one in found if "fsync" not in one["found"]]


def faults(folder: Path, url: str) -> list[tuple[str, str, str]]:
    return [one for one in doctor(folder, url) if one[0] != "ok" and "full_page_writes" not in one[1]]


@pytest.mark.parametrize(
    ("name", "value", "verdict", "what"),
    [
        ("default_transaction_read_only", "on", "fail", "the database takes no writes"),
        ("search_path", "elsewhere", "fail", "there is no schema for the tables"),
        ("synchronous_commit", "off", "warn", "a crash of the server loses what was stored just before"),
        ("session_replication_role", "replica", "warn", "triggers of the database do not run"),
    ],
)
def test_a_setting_of_the_operator_is_named_until_the_advised_command_ran(
    postgres_server: Any,
    emptied_postgres: str,
    tmp_path: Path,
    name: str,
    value: str,
    verdict: str,
    what: str,
) -> None:
    with setting(postgres_server, emptied_postgres, **{name: value}):
        (found,) = [one for one in faults(tmp_path, emptied_postgres) if one[1].startswith(what)]
        assert found[0] == verdict and name in found[2]
    # ALTER DATABASE … RESET is what is advised.
    assert faults(tmp_path, emptied_postgres) == []


def test_a_role_that_may_not_create_tables_gets_the_grant_that_it_lacks(
    postgres_server: Any, emptied_postgres: str, tmp_path: Path, role: Callable[..., str]
) -> None:
    session = postgres_server.session(emptied_postgres)
    session.execute("REVOKE CREATE ON SCHEMA public FROM PUBLIC")
    url = role()
    (found,) = [one for one in faults(tmp_path, url) if "create tables" in one[1]]
    session.execute(sql.SQL(found[2]))
    assert not [one for one in faults(tmp_path, url) if "create tables" in one[1]]
    # Its tables belong to another role.
    shell = Shell(tmp_path)
    shell.environment["FUNCTORY_DATABASE_URL"] = url
    said = shell.run("status", status=6).stderr
    assert "permission denied" in said and "own the tables" in said and "Traceback" not in said


def test_rows_that_a_policy_hides_are_an_error(
    postgres_server: Any, emptied_postgres: str, tmp_path: Path, role: Callable[..., str]
) -> None:
    url = role()
    session = postgres_server.session(emptied_postgres)
    name = sql.Identifier(make_url(url).username or "")
    session.execute(sql.SQL("GRANT ALL ON ALL TABLES IN SCHEMA public TO {}").format(name))
    session.execute("ALTER TABLE function ENABLE ROW LEVEL SECURITY")
    database = Database(url)
    try:
        with pytest.raises(Unavailable, match="row-level security"), database.read() as tx:
            tx.rows(sa.select(schema.function))
    finally:
        database.close()
        session.execute("ALTER TABLE function DISABLE ROW LEVEL SECURITY")


def test_a_limit_of_connections_is_named(
    emptied_postgres: str, tmp_path: Path, role: Callable[..., str]
) -> None:
    (found,) = [one for one in faults(tmp_path, role("CONNECTION LIMIT 3")) if "connections" in one[1]]
    assert found[0] == "warn" and found[1].startswith("2 connections are free")
    assert not faults(tmp_path, emptied_postgres)


@pytest.mark.parametrize("encoding", ["SQL_ASCII", "LATIN1"])
def test_a_database_of_another_encoding_is_refused_before_it_has_tables(
    postgres_server: Any, tmp_path: Path, encoding: str
) -> None:
    name = f"encoding_{encoding.lower()}_{tmp_path.name[-8:].replace('-', '_')}"
    with postgres_server.start().connect() as session:
        session.execute(
            sql.SQL("CREATE DATABASE {} TEMPLATE template0 ENCODING {}").format(
                sql.Identifier(name), sql.Literal(encoding)
            )
        )
        url = make_url(postgres_server.url).set(database=name)
        database = Database(url.render_as_string(hide_password=False))
        try:
            with pytest.raises(Invalid, match=rf"(?s)encoding is {encoding}.*createdb --encoding=UTF8"):
                migrations.upgrade(database)
            assert [one.grave for one in postgres_server_problems(database)] == [True]
        finally:
            database.close()
            session.execute(sql.SQL("DROP DATABASE {} WITH (FORCE)").format(sql.Identifier(name)))


def postgres_server_problems(database: Database) -> list[ServerProblem]:
    return [one for one in postgres_server.problems(database) if "crash" not in one.what]

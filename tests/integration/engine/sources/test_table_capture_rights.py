"""Rights around a watched table, and what is refused with a reason."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from uuid import uuid4

import psycopg
import pytest
import sqlalchemy as sa

from functory.engine.errors import Conflict, Invalid, Refused
from functory.engine.sources import table_capture
from functory.triggers.sources.tables import TableSource
from tests.support.source_world import keeping
from tests.support.user_tables import Shop, connect
from tests.support.world import World, on_postgresql, on_sqlite

pytest_plugins = ["tests.support.world"]

pytestmark = pytest.mark.postgres


@contextmanager
def ordinary_role(shop: Shop) -> Iterator[psycopg.Connection[Any]]:
    """A database role without any right on Functory's tables. Roles belong to the server, which other tests use too."""
    name = f"clerk_{uuid4().hex}"
    shop.sql(f"CREATE ROLE {name} LOGIN PASSWORD 'clerk'")
    shop.sql(f"GRANT USAGE, CREATE ON SCHEMA shop TO {name}", f"ALTER TABLE shop.orders OWNER TO {name}")
    try:
        with psycopg.connect(
            shop.connection.info.dsn + f" user={name} password=clerk", autocommit=True
        ) as clerk:
            yield clerk
    finally:
        shop.sql(f"DROP OWNED BY {name} CASCADE", f"DROP ROLE {name}")


@on_postgresql
def test_an_ordinary_role_writes_events_only_by_writing_the_table(shop: Shop) -> None:
    with ordinary_role(shop) as clerk:
        row = shop.watch()
        clerk.execute("INSERT INTO shop.orders (id) VALUES (1)")
        assert shop.types() == ["inserted"]
        for statement in ("SELECT * FROM event", "INSERT INTO routing_queue (event_id) SELECT id FROM event"):
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                clerk.execute(statement)
        clerk.execute("CREATE TABLE shop.forged (id int PRIMARY KEY)")
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            called = f"EXECUTE FUNCTION {table_capture._name(row)}()"
            clerk.execute(f"CREATE TRIGGER t AFTER INSERT ON shop.forged FOR EACH ROW {called}")  # type: ignore[arg-type]


@on_postgresql
def test_nothing_that_the_tables_owner_defines_runs_with_functorys_rights(shop: Shop) -> None:
    with ordinary_role(shop) as clerk:
        clerk.execute("CREATE TABLE shop.ran (who text)")
        clerk.execute("GRANT ALL ON shop.ran TO PUBLIC")
        clerk.execute("CREATE TYPE shop.trap AS (x int)")
        for target in ("json", "jsonb", "text"):
            clerk.execute(
                f"CREATE FUNCTION shop.to_{target}(shop.trap) RETURNS {target} LANGUAGE plpgsql AS "  # type: ignore[arg-type]
                "$$ BEGIN INSERT INTO shop.ran VALUES (current_user); RETURN '\"x\"'; END $$"
            )
            clerk.execute(
                f"CREATE CAST (shop.trap AS {target}) WITH FUNCTION shop.to_{target}(shop.trap) AS ASSIGNMENT"
            )  # type: ignore[arg-type]
        # What may hide in the search path.
        clerk.execute(
            "CREATE FUNCTION shop.to_json(anyelement) RETURNS json LANGUAGE plpgsql AS "
            "$$ BEGIN INSERT INTO shop.ran VALUES (current_user); RETURN 'null'; END $$"
        )
        shop.watch()
        clerk.execute("ALTER TABLE shop.orders ADD COLUMN t shop.trap, ADD COLUMN ts shop.trap[]")
        clerk.execute("SET search_path = shop, pg_catalog")
        clerk.execute("INSERT INTO shop.orders (id, t, ts) VALUES (1, ROW(5), ARRAY[ROW(6)::shop.trap])")
        clerk.execute("UPDATE shop.orders SET t = ROW(7)")
        assert shop.types() == ["inserted", "updated"]
        assert shop.seen()[1][2]["new"]["t"] == "(7)"
        assert clerk.execute("SELECT * FROM shop.ran").fetchall() == []


@on_postgresql
def test_functory_needs_the_right_to_watch_a_table(shop: Shop) -> None:
    role = f"functory_{uuid4().hex}"
    shop.sql(f"CREATE ROLE {role} LOGIN PASSWORD 'x'")
    shop.sql(f"GRANT ALL ON ALL TABLES IN SCHEMA public TO {role}", f"GRANT ALL ON SCHEMA public TO {role}")
    shop.sql(f"GRANT USAGE ON SCHEMA shop TO {role}")
    url = sa.make_url(shop.world.url).set(username=role, password="x").render_as_string(hide_password=False)
    other = World(url, shop.world.home)
    try:
        with pytest.raises(Refused, match=r"GRANT TRIGGER ON shop\.orders"):
            other.sources.save("table", "orders", {"table": "shop.orders"})
        assert other.sources.list() == []
        shop.sql(f"GRANT TRIGGER ON shop.orders TO {role}")
        other.sources.save("table", "orders", {"table": "shop.orders"})
        shop.sql("INSERT INTO shop.orders (id) VALUES (1)")
        assert shop.types() == ["inserted"]
        # Only the owner of a table may drop a trigger of it; pausing works all the same.
        other.sources.pause("table", "orders")
        shop.sql("INSERT INTO shop.orders (id) VALUES (2)")
        assert shop.types() == ["inserted"]
    finally:
        other.close()
        shop.sql(f"DROP OWNED BY {role} CASCADE", f"DROP ROLE {role}")


@on_postgresql
@pytest.mark.parametrize(
    ("config", "why"),
    [
        ({"table": "shop.nothing"}, "there is no table"),
        ({"table": "shop..x"}, "there is no table"),
        ({"table": 'shop."x'}, "there is no table"),
        ({"table": "a.b.c.d"}, "there is no table"),
        ({"table": "shop.orders; DROP TABLE event"}, "there is no table"),
        ({"table": "123"}, "there is no table"),
        ({"table": ""}, "table"),
        ({"table": "shop.or\x00ders"}, "printable"),
        ({"table": "\ud800"}, "table"),
        ({"table": 5}, "table"),
        ({"table": "x" * 301}, "table"),
        ({"table": "event"}, "cannot be watched"),
        ({"table": "public.execution"}, "cannot be watched"),
        ({"table": "pg_catalog.pg_class"}, "cannot be watched"),
        ({"table": "shop.view"}, "is no table"),
        ({"table": "shop.plain"}, "primary key"),
        ({"table": "shop.orders", "columns": ["nope"]}, "no column 'nope'"),
        ({"table": "shop.orders", "columns": []}, "columns"),
        ({"table": "shop.orders", "exclude": ["card", "x"]}, "no column 'x'"),
        ({"table": "shop.orders", "key": ["k"]}, "no column 'k'"),
        ({"table": "shop.orders", "columns": ["id"], "exclude": ["card"]}, "columns or exclude"),
        ({"table": "shop.orders", "events": ["truncate"]}, "truncate"),
        ({"table": "shop.orders", "events": []}, "some of"),
        ({"table": "shop.orders", "max_bytes": 1}, "max_bytes"),
        ({"table": "shop.orders", "tabel": 1}, "tabel"),
    ],
)
def test_what_cannot_be_watched_is_refused_with_the_reason(
    shop: Shop, config: dict[str, Any], why: str
) -> None:
    shop.sql("CREATE VIEW shop.view AS SELECT 1 AS id", "CREATE TABLE shop.plain (a int)")
    with pytest.raises(Invalid, match=why):
        shop.world.sources.save("table", "orders", config)
    assert shop.world.sources.list() == []


@on_postgresql
def test_a_busy_table_is_an_error_instead_of_a_wait(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(table_capture, "LOCK_MILLISECONDS", 200)
    with connect(shop.world) as writer, writer.transaction():
        writer.execute("INSERT INTO shop.orders (id) VALUES (1)")
        with pytest.raises(Conflict, match="is busy"):
            shop.watch()
    shop.watch()


@on_sqlite
def test_sqlite_is_refused(world: World) -> None:
    with pytest.raises(Invalid, match="on PostgreSQL only"):
        world.sources.save("table", "orders", {"table": "orders"})


@on_postgresql
@pytest.mark.parametrize(
    ("change", "why"),
    [
        ("DROP TABLE shop.orders", "no longer exists"),
        ("ALTER TABLE shop.orders RENAME TO bills", "is called shop.bills now"),
        ("ALTER TABLE shop.orders DISABLE TRIGGER USER", "is disabled"),
    ],
)
def test_a_table_that_is_gone_renamed_or_silenced_is_reported(shop: Shop, change: str, why: str) -> None:
    shop.watch()
    shop.sql(change)
    with keeping(shop.world, {"table": TableSource()}) as kept:
        kept.until(lambda: why in (shop.world.sources.get("table", "orders")["problem"] or ""), "the problem")

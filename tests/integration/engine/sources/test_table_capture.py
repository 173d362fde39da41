"""Rows of a user's table become events, in the user's own transaction and whatever the row holds."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psycopg
import pytest
import sqlalchemy as sa

from functory.engine.database import schema
from functory.engine.errors import Conflict, Invalid, Refused
from functory.engine.sources import table_capture
from functory.triggers.sources.tables import TableSource
from tests.support.source_world import keeping
from tests.support.waiting import wait_for
from tests.support.world import World

pytest_plugins = ["tests.support.world"]

on_postgres = pytest.mark.parametrize("database_url", ["postgresql"], indirect=True)
pytestmark = pytest.mark.postgres


class Shop:
    """A user's schema beside Functory's tables, seen through a connection of his own."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.connection = connect(world)
        self.sql("DROP SCHEMA IF EXISTS shop CASCADE", "CREATE SCHEMA shop")
        self.sql("CREATE TABLE shop.orders (id int PRIMARY KEY, sku text, price numeric(12,2), card text)")

    def sql(self, *statements: str) -> None:
        for statement in statements:
            self.connection.execute(statement)  # type: ignore[arg-type]

    def watch(self, table: str = "shop.orders", name: str = "orders", **config: Any) -> dict[str, Any]:
        return self.world.sources.save("table", name, {"table": table} | config)

    def events(self) -> list[dict[str, Any]]:
        return [row for row in self.world.rows(schema.event) if row["type"].startswith("row.")]

    def seen(self) -> list[tuple[str, str, Any]]:
        return [(row["type"], row["subject"], row["data"]) for row in self.events()]

    def types(self) -> list[str]:
        return [row["type"].removeprefix("row.") for row in self.events()]

    def close(self) -> None:
        self.sql("DROP SCHEMA shop CASCADE")
        for source in self.world.sources.list("table"):
            self.world.sources.delete("table", source["name"])
        self.connection.close()


def connect(world: World, **options: Any) -> psycopg.Connection[Any]:
    url = sa.make_url(world.url).set(drivername="postgresql").update_query_dict(options)
    return psycopg.connect(url.render_as_string(hide_password=False), autocommit=True)


@pytest.fixture
def shop(world: World) -> Iterator[Shop]:
    made = Shop(world)
    yield made
    made.close()


@on_postgres
def test_insert_update_and_delete_are_events_with_what_changed(shop: Shop) -> None:
    shop.watch()
    shop.sql("INSERT INTO shop.orders VALUES (7, 'B-1', 9.90, NULL)")
    shop.sql("UPDATE shop.orders SET price = 8.5, sku = sku")
    shop.sql("DELETE FROM shop.orders")
    first = {"id": 7, "sku": "B-1", "price": 9.9, "card": None}
    head = {"table": "shop.orders", "key": {"id": 7}}
    assert shop.seen() == [
        ("row.inserted", "shop.orders/7", head | {"new": first}),
        (
            "row.updated",
            "shop.orders/7",
            head | {"changed": ["price"], "old": first, "new": first | {"price": 8.5}},
        ),
        ("row.deleted", "shop.orders/7", head | {"old": first | {"price": 8.5}}),
    ]
    event = shop.events()[0]
    assert event["source"] == "/functory/table/orders"
    assert (event["root_id"], event["depth"], event["chain"], event["state"]) == (
        event["id"],
        0,
        [],
        "pending",
    )
    assert event["id"][14] == "7"
    assert event["id"][19] in "89ab"
    assert len(shop.world.rows(schema.outbox)) >= 3


@on_postgres
def test_a_row_starts_a_function_like_any_event(shop: Shop) -> None:
    shop.world.function("ship")
    shop.world.trigger(
        "ship-orders", "ship", {"type": ["row.inserted"], "data": {"new": {"price": [{"numeric": [">", 5]}]}}}
    )
    shop.watch()
    shop.sql("INSERT INTO shop.orders (id, price) VALUES (1, 4), (2, 6)")
    assert shop.world.route() == [("ship-orders", None)]
    (execution,) = shop.world.rows(schema.execution)
    assert execution["root_id"] == shop.events()[1]["id"]


@on_postgres
def test_rolled_back_changes_are_no_events(shop: Shop) -> None:
    shop.watch()
    with pytest.raises(ZeroDivisionError), shop.connection.transaction():
        shop.sql("INSERT INTO shop.orders (id) VALUES (1)")
        raise ZeroDivisionError
    with shop.connection.transaction():
        shop.sql("INSERT INTO shop.orders (id) VALUES (2)")
        with pytest.raises(ZeroDivisionError), shop.connection.transaction():
            shop.sql("INSERT INTO shop.orders (id) VALUES (3)")
            raise ZeroDivisionError
        shop.sql("INSERT INTO shop.orders (id) VALUES (4)")
        assert shop.events() == []
    assert [row["subject"] for row in shop.events()] == ["shop.orders/2", "shop.orders/4"]


@on_postgres
def test_an_update_that_changes_nothing_is_no_event(shop: Shop) -> None:
    shop.watch(columns=["id", "sku"])
    shop.sql("INSERT INTO shop.orders VALUES (1, 'a', 1, '4111')", "UPDATE shop.orders SET sku = 'a'")
    shop.sql("UPDATE shop.orders SET card = '4222'")
    assert shop.types() == ["inserted"]
    shop.sql("UPDATE shop.orders SET sku = NULL, card = '4333'")
    assert shop.types() == ["inserted", "updated"]
    assert shop.seen()[1][2]["changed"] == ["sku"]


@on_postgres
@pytest.mark.parametrize("config", [{"columns": ["id", "sku"]}, {"exclude": ["card", "price"]}])
def test_columns_that_are_not_to_be_shown_are_nowhere_in_the_event(
    shop: Shop, config: dict[str, Any]
) -> None:
    shop.watch(**config)
    shop.sql("INSERT INTO shop.orders VALUES (1, 'a', 1, '4111')")
    shop.sql("UPDATE shop.orders SET card = '4222', sku = 'b'", "DELETE FROM shop.orders")
    assert [data.get("new") or data["old"] for _, _, data in shop.seen()] == [
        {"id": 1, "sku": "a"},
        {"id": 1, "sku": "b"},
        {"id": 1, "sku": "b"},
    ]
    assert "4222" not in json.dumps([data for _, _, data in shop.seen()])


@on_postgres
def test_only_the_chosen_happenings_are_events(shop: Shop) -> None:
    shop.watch(events=["delete", "insert"])
    shop.sql(
        "INSERT INTO shop.orders (id) VALUES (1)",
        "UPDATE shop.orders SET sku = 'x'",
        "DELETE FROM shop.orders",
    )
    assert shop.types() == ["inserted", "deleted"]


@on_postgres
@pytest.mark.parametrize(
    ("type_", "value", "shown"),
    [
        ("bigint", "9223372036854775807", 9223372036854775807),
        ("numeric", "'NaN'", "NaN"),
        ("numeric", "'Infinity'", "Infinity"),
        ("numeric", "1.10", 1.1),
        ("numeric", "12345678901234567890.123", "12345678901234567890.123"),
        ("numeric", "1e400", "1" + "0" * 400),
        ("numeric", "1e-400", "0." + "0" * 399 + "1"),
        ("numeric", "0.1", 0.1),
        ("float8", "'-Infinity'", "-Infinity"),
        ("float8", "0.1::float8 + 0.2::float8", 0.30000000000000004),
        ("float8", "1.5e300", "1.5e+300"),
        ("float8", "1.5e200", 1.5e200),
        ("real", "0.1", 0.1),
        ("bytea", r"'\x00ff'", r"\x00ff"),
        ("timestamptz", "'2026-03-01 10:00:00.5+02'", "2026-03-01T08:00:00.5+00:00"),
        ("timestamptz", "'infinity'", "infinity"),
        ("date", "'0044-03-15 BC'", "0044-03-15 BC"),
        ("interval", "'1 day 02:03'", "P1DT2H3M"),
        ("int[]", "'{{1,2},{3,NULL}}'", [[1, 2], [3, None]]),
        ("text", r"E'\u00e4 \"q\" \\ \n \x01 \U0001F600'", 'ä "q" \\ \n \x01 \U0001f600'),
        ("boolean", "true", True),
        ("uuid", "'01998c5e-0000-7000-8000-000000000000'", "01998c5e-0000-7000-8000-000000000000"),
        ("json", "'{\"a\": [1, 2.50], \"a\": \"x\"}'", {"a": "x"}),
        (
            "json",
            r"""'{"nul": "\u0000", "lone": "\ud800", "pair": "\ud83d\ude00"}'""",
            {"nul": "\ufffd", "lone": "\ufffd", "pair": "\U0001f600"},
        ),
        ("json", "'9e999'", "9e999"),
        ("json", "'9e9999999'", "9e9999999"),
        ("json", "'[9e999]'", "[9e999]"),
        ("json", "'{\"id\": \"3e4567\"}'", {"id": "3e4567"}),
        ("jsonb", "'{\"a\": {\"b\": null}}'", {"a": {"b": None}}),
        ("jsonb", "(repeat('[', 190) || repeat(']', 190))::jsonb", json.loads("[" * 190 + "]" * 190)),
("jsonb", "to_jsonb(array_fill('{}'::jsonb, ARRAY[300]))", [{}] * 300),
("json", "'[\"\\u0041\"]'", ["A"]),
        ("jsonb", "(repeat('[', 300) || repeat(']', 300))::jsonb", "[" * 300 + "]" * 300),
        ("jsonb", "jsonb_build_array(1e400, 2)", "[1" + "0" * 400 + ", 2]"),
        ("json", "(repeat('[', 300) || '\"\\u0000\"' || repeat(']', 300))::json", "[" * 300 + '"\\ufffd"' + "]" * 300),
        ("shop.colour", "'red'", "red"),
        ("shop.amount", "12.5", 12.5),
        ("shop.point", "ROW(1, 'x')", "(1,x)"),
        ("shop.colour[]", "'{red,blue}'", "{red,blue}"),
        ("inet", "'10.0.0.1'", "10.0.0.1"),
        ("money", "'$2.50'", "$2.50"),
    ],
)  # fmt: skip
def test_values_of_every_type_are_json(shop: Shop, type_: str, value: str, shown: Any) -> None:
    shop.sql(
        "CREATE TYPE shop.colour AS ENUM ('red', 'blue')",
        "CREATE DOMAIN shop.amount AS numeric CHECK (VALUE > 0)",
    )
    shop.sql("CREATE TYPE shop.point AS (x int, y text)")
    shop.sql(f"CREATE TABLE shop.things (id int PRIMARY KEY, value {type_})")
    shop.watch("shop.things")
    shop.sql("SET lc_monetary = 'C'", f"INSERT INTO shop.things VALUES (1, {value})")
    assert shop.seen()[0][2]["new"]["value"] == shown


@on_postgres
def test_settings_of_the_users_session_change_nothing(shop: Shop) -> None:
    shop.sql("CREATE TABLE shop.things (id int PRIMARY KEY, a timestamptz, b bytea, c float8, d text)")
    shop.watch("shop.things")
    shop.sql("SET timezone = 'Asia/Tokyo'", "SET bytea_output = 'escape'", "SET extra_float_digits = -5")
    shop.sql("SET standard_conforming_strings = off", "SET search_path = shop")
    shop.sql(
        "INSERT INTO things VALUES (1, '2026-01-01 00:00Z', decode('00ff','hex'), 0.1::float8 + 0.2::float8, 'x.5')"
    )
    assert shop.seen()[0][2]["new"] == {
        "id": 1, "a": "2026-01-01T00:00:00+00:00", "b": "\\x00ff", "c": 0.30000000000000004, "d": "x.5",
    }  # fmt: skip


@on_postgres
def test_a_row_too_large_for_an_event_is_reported_without_its_values(shop: Shop) -> None:
    shop.watch(max_bytes=2000)
    shop.sql(
        "INSERT INTO shop.orders (id, sku) VALUES (1, repeat('x', 3000))", "UPDATE shop.orders SET sku = 'y'"
    )
    first, second = (data for _, _, data in shop.seen())
    assert first == {
        "table": "shop.orders",
        "key": {"id": 1},
        "note": "the values are larger than max_bytes and were left out",
    }
    assert second["changed"] == ["sku"]
    assert "new" not in second


@on_postgres
def test_awkward_names_and_composite_keys_are_quoted_by_the_driver(shop: Shop) -> None:
    shop.sql(
        """CREATE TABLE shop."Order ""It%ems'; --" """
        """("a%s {x}" int, "Ü 'q'" text, v text, PRIMARY KEY ("Ü 'q'", "a%s {x}"))"""
    )
    shop.watch('''shop."Order ""It%ems'; --"''', exclude=["v"])
    shop.sql("""INSERT INTO shop."Order ""It%ems'; --" VALUES (1, 'o"/x', 'secret')""")
    ((_, subject, data),) = shop.seen()
    assert subject == """shop."Order ""It%ems'; --"/o"/x,1"""
    assert data["key"] == {"Ü 'q'": 'o"/x', "a%s {x}": 1}
    assert data["new"] == {"a%s {x}": 1, "Ü 'q'": 'o"/x'}


@on_postgres
def test_a_change_of_the_key_shows_both(shop: Shop) -> None:
    shop.watch()
    shop.sql("INSERT INTO shop.orders (id) VALUES (1)", "UPDATE shop.orders SET id = 2")
    _, subject, data = shop.seen()[1]
    assert (subject, data["old"]["id"], data["changed"]) == ("shop.orders/2", 1, ["id"])


@on_postgres
def test_partitions_are_the_table_that_they_belong_to(shop: Shop) -> None:
    shop.sql("CREATE TABLE shop.days (day date, n int, PRIMARY KEY (day)) PARTITION BY RANGE (day)")
    shop.sql(
        "CREATE TABLE shop.days_1 PARTITION OF shop.days FOR VALUES FROM ('2026-01-01') TO ('2026-07-01')"
    )
    shop.watch("shop.days")
    shop.sql(
        "CREATE TABLE shop.days_2 PARTITION OF shop.days FOR VALUES FROM ('2026-07-01') TO ('2027-01-01')"
    )
    shop.sql("INSERT INTO shop.days VALUES ('2026-02-03', 1)", "UPDATE shop.days SET n = 2")
    shop.sql("UPDATE shop.days SET day = '2026-08-03'")
    assert [(type_, subject) for type_, subject, _ in shop.seen()] == [
        ("row.inserted", "shop.days/2026-02-03"),
        ("row.updated", "shop.days/2026-02-03"),
        ("row.deleted", "shop.days/2026-02-03"),
        ("row.inserted", "shop.days/2026-08-03"),
    ]


@on_postgres
def test_columns_that_come_and_go_later_are_no_trouble(shop: Shop) -> None:
    shop.watch()
    shop.sql("ALTER TABLE shop.orders ADD COLUMN colour text DEFAULT 'red', DROP COLUMN card")
    shop.sql(
        "ALTER TABLE shop.orders RENAME COLUMN sku TO article", "INSERT INTO shop.orders (id) VALUES (1)"
    )
    assert shop.seen()[0][2]["new"] == {"id": 1, "article": None, "price": None, "colour": "red"}


@on_postgres
def test_truncate_is_no_event(shop: Shop) -> None:
    shop.watch()
    shop.sql("INSERT INTO shop.orders (id) VALUES (1)", "TRUNCATE shop.orders")
    assert shop.types() == ["inserted"]


@on_postgres
def test_pausing_takes_the_trigger_away_and_resuming_puts_it_back(shop: Shop) -> None:
    shop.watch()
    shop.world.sources.pause("table", "orders")
    shop.sql("INSERT INTO shop.orders (id) VALUES (1)")
    shop.world.sources.resume("table", "orders")
    shop.sql("INSERT INTO shop.orders (id) VALUES (2)")
    shop.world.sources.delete("table", "orders")
    shop.sql("INSERT INTO shop.orders (id) VALUES (3)")
    assert [row["subject"] for row in shop.events()] == ["shop.orders/2"]
    left = shop.connection.execute(
        "SELECT count(*) FROM pg_proc WHERE proname LIKE 'functory_rows%'"
    ).fetchone()
    assert left == (0,)


@on_postgres
def test_a_changed_configuration_replaces_the_trigger(shop: Shop) -> None:
    shop.watch()
    shop.sql("CREATE TABLE shop.other (id int PRIMARY KEY)")
    shop.watch("shop.other")
    shop.sql("INSERT INTO shop.orders (id) VALUES (1)", "INSERT INTO shop.other VALUES (2)")
    assert [row["subject"] for row in shop.events()] == ["shop.other/2"]


@on_postgres
def test_two_sources_may_watch_one_table(shop: Shop) -> None:
    shop.watch(name="all")
    shop.watch(name="gone", events=["delete"])
    shop.sql("INSERT INTO shop.orders (id) VALUES (1)", "DELETE FROM shop.orders")
    assert sorted((row["type"], row["source"]) for row in shop.events()) == [
        ("row.deleted", "/functory/table/all"),
        ("row.deleted", "/functory/table/gone"),
        ("row.inserted", "/functory/table/all"),
    ]


@contextmanager
def ordinary_role(shop: Shop) -> Iterator[psycopg.Connection[Any]]:
    """A database role without any right on Functory's tables."""
    shop.sql("DROP ROLE IF EXISTS clerk", "CREATE ROLE clerk LOGIN PASSWORD 'clerk'")
    shop.sql("GRANT USAGE, CREATE ON SCHEMA shop TO clerk", "ALTER TABLE shop.orders OWNER TO clerk")
    try:
        with psycopg.connect(
            shop.connection.info.dsn + " user=clerk password=clerk", autocommit=True
        ) as clerk:
            yield clerk
    finally:
        shop.sql("DROP OWNED BY clerk CASCADE", "DROP ROLE clerk")


@on_postgres
def test_an_ordinary_role_writes_events_only_by_writing_the_table(shop: Shop) -> None:
    with ordinary_role(shop) as clerk:
        row = shop.watch()
        clerk.execute("INSERT INTO shop.orders (id) VALUES (1)")
        assert shop.types() == ["inserted"]
        for statement in ("SELECT * FROM event", "INSERT INTO outbox SELECT id, now() FROM event"):
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                clerk.execute(statement)
        clerk.execute("CREATE TABLE shop.forged (id int PRIMARY KEY)")
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            called = f"EXECUTE FUNCTION {table_capture._name(row)}()"
            clerk.execute(f"CREATE TRIGGER t AFTER INSERT ON shop.forged FOR EACH ROW {called}")  # type: ignore[arg-type]


@on_postgres
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


@on_postgres
def test_functory_needs_the_right_to_watch_a_table(shop: Shop) -> None:
    role = "functory_role"
    shop.sql(f"DROP ROLE IF EXISTS {role}", f"CREATE ROLE {role} LOGIN PASSWORD 'x'")
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


@on_postgres
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


@on_postgres
def test_a_table_without_primary_key_is_watched_by_columns(shop: Shop) -> None:
    shop.sql("CREATE TABLE shop.plain (a int, b text)")
    shop.watch("shop.plain", key=["b", "a"])
    shop.sql("INSERT INTO shop.plain VALUES (1, NULL)")
    assert shop.seen()[0][1] == "shop.plain/null,1"


@on_postgres
def test_a_busy_table_is_an_error_instead_of_a_wait(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(table_capture, "LOCK_MILLISECONDS", 200)
    with connect(shop.world) as writer, writer.transaction():
        writer.execute("INSERT INTO shop.orders (id) VALUES (1)")
        with pytest.raises(Conflict, match="is busy"):
            shop.watch()
    shop.watch()


@pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)
def test_sqlite_is_refused(world: World) -> None:
    with pytest.raises(Invalid, match="on PostgreSQL only"):
        world.sources.save("table", "orders", {"table": "orders"})


@on_postgres
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


@on_postgres
def test_ten_thousand_copied_rows_are_ten_thousand_events_in_their_order(shop: Shop) -> None:
    shop.watch()
    with (
        shop.connection.cursor() as cursor,
        cursor.copy("COPY shop.orders (id, sku, price) FROM STDIN") as copy,
    ):
        for number in range(10_000):
            copy.write_row((number, f"sku-{number}", number / 100))
    with shop.world.database.read() as tx:
        event = schema.event.c
        rows = tx.rows(sa.select(event.subject).where(event.type == "row.inserted").order_by(event.id))
    assert [row["subject"] for row in rows] == [f"shop.orders/{number}" for number in range(10_000)]


@on_postgres
def test_the_router_is_woken(shop: Shop, tmp_path: Path) -> None:
    shop.watch()
    shop.world.database.listen_for_wakeups()
    listening = "SELECT 1 FROM pg_stat_activity WHERE query LIKE 'LISTEN%' AND datname = current_database()"
    wait_for(lambda: shop.connection.execute(listening).fetchone(), "a connection that listens")
    seen = shop.world.database.wakeup.generation("events")
    shop.sql("INSERT INTO shop.orders (id) VALUES (1)")
    assert shop.world.database.wakeup.wait("events", seen, 20) > seen

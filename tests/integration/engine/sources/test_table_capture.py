"""Rows of a user's table become events, in the user's own transaction."""

from pathlib import Path

import pytest
import sqlalchemy as sa

from functory.engine.database import schema
from tests.support.user_tables import Shop
from tests.support.waiting import wait_for
from tests.support.world import on_postgresql

pytest_plugins = ["tests.support.world"]

pytestmark = pytest.mark.postgres


@on_postgresql
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
    assert len(shop.world.rows(schema.routing_queue)) >= 3


@on_postgresql
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


@on_postgresql
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


@on_postgresql
def test_an_update_that_changes_nothing_is_no_event(shop: Shop) -> None:
    shop.watch(columns=["id", "sku"])
    shop.sql("INSERT INTO shop.orders VALUES (1, 'a', 1, '4111')", "UPDATE shop.orders SET sku = 'a'")
    shop.sql("UPDATE shop.orders SET card = '4222'")
    assert shop.types() == ["inserted"]
    shop.sql("UPDATE shop.orders SET sku = NULL, card = '4333'")
    assert shop.types() == ["inserted", "updated"]
    assert shop.seen()[1][2]["changed"] == ["sku"]


@on_postgresql
def test_only_the_chosen_happenings_are_events(shop: Shop) -> None:
    shop.watch(events=["delete", "insert"])
    shop.sql(
        "INSERT INTO shop.orders (id) VALUES (1)",
        "UPDATE shop.orders SET sku = 'x'",
        "DELETE FROM shop.orders",
    )
    assert shop.types() == ["inserted", "deleted"]


@on_postgresql
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


@on_postgresql
def test_truncate_is_no_event(shop: Shop) -> None:
    shop.watch()
    shop.sql("INSERT INTO shop.orders (id) VALUES (1)", "TRUNCATE shop.orders")
    assert shop.types() == ["inserted"]


@on_postgresql
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


@on_postgresql
def test_a_changed_configuration_replaces_the_trigger(shop: Shop) -> None:
    shop.watch()
    shop.sql("CREATE TABLE shop.other (id int PRIMARY KEY)")
    shop.watch("shop.other")
    shop.sql("INSERT INTO shop.orders (id) VALUES (1)", "INSERT INTO shop.other VALUES (2)")
    assert [row["subject"] for row in shop.events()] == ["shop.other/2"]


@on_postgresql
def test_two_sources_may_watch_one_table(shop: Shop) -> None:
    shop.watch(name="all")
    shop.watch(name="gone", events=["delete"])
    shop.sql("INSERT INTO shop.orders (id) VALUES (1)", "DELETE FROM shop.orders")
    assert sorted((row["type"], row["source"]) for row in shop.events()) == [
        ("row.deleted", "/functory/table/all"),
        ("row.deleted", "/functory/table/gone"),
        ("row.inserted", "/functory/table/all"),
    ]


@on_postgresql
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


@on_postgresql
def test_the_router_is_woken(shop: Shop, tmp_path: Path) -> None:
    shop.watch()
    shop.world.database.listen_for_wakeups()
    listening = "SELECT 1 FROM pg_stat_activity WHERE query LIKE 'LISTEN%' AND datname = current_database()"
    wait_for(lambda: shop.connection.execute(listening).fetchone(), "a connection that listens")
    seen = shop.world.database.wakeup.generation("events")
    shop.sql("INSERT INTO shop.orders (id) VALUES (1)")
    assert shop.world.database.wakeup.wait("events", seen, 20) > seen

"""Values, columns, names and keys of a user's table in the events of its rows."""

import json
from typing import Any

import pytest

from tests.support.user_tables import Shop
from tests.support.world import on_postgresql

pytest_plugins = ["tests.support.world"]

pytestmark = pytest.mark.postgres


@on_postgresql
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


@on_postgresql
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


@on_postgresql
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


@on_postgresql
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


@on_postgresql
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


@on_postgresql
def test_a_change_of_the_key_shows_both(shop: Shop) -> None:
    shop.watch()
    shop.sql("INSERT INTO shop.orders (id) VALUES (1)", "UPDATE shop.orders SET id = 2")
    _, subject, data = shop.seen()[1]
    assert (subject, data["old"]["id"], data["changed"]) == ("shop.orders/2", 1, ["id"])


@on_postgresql
def test_columns_that_come_and_go_later_are_no_trouble(shop: Shop) -> None:
    shop.watch()
    shop.sql("ALTER TABLE shop.orders ADD COLUMN colour text DEFAULT 'red', DROP COLUMN card")
    shop.sql(
        "ALTER TABLE shop.orders RENAME COLUMN sku TO article", "INSERT INTO shop.orders (id) VALUES (1)"
    )
    assert shop.seen()[0][2]["new"] == {"id": 1, "article": None, "price": None, "colour": "red"}


@on_postgresql
def test_a_table_without_primary_key_is_watched_by_columns(shop: Shop) -> None:
    shop.sql("CREATE TABLE shop.plain (a int, b text)")
    shop.watch("shop.plain", key=["b", "a"])
    shop.sql("INSERT INTO shop.plain VALUES (1, NULL)")
    assert shop.seen()[0][1] == "shop.plain/null,1"

"""A user's schema beside Functory's tables, whose rows become events."""

from typing import Any

import psycopg
import sqlalchemy as sa

from functory.engine.database import schema
from tests.support.world import World


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

"""Schedules in a world whose clock the test moves."""

from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any

from functory.client.schedules import Schedules
from functory.engine.database import schema
from functory.triggers import definition
from functory.triggers.sources.schedules.ticker import Ticker
from tests.support.world import World

START = datetime(2026, 1, 1, tzinfo=UTC)


def service(world: World) -> Schedules:
    """The service over the world's registries; a trigger is saved as the engine saves it, without its checks."""

    def save_trigger(name: str, *, author: str | None = None, **fields: Any) -> dict[str, Any]:
        return world.triggers.save(name, definition.parse(fields)) | {"warnings": []}

    return Schedules(
        SimpleNamespace(  # type: ignore[arg-type]
            database=world.database,
            sources=world.sources,
            triggers=world.triggers,
            save_trigger=save_trigger,
            author="ada",
        )
    )


def tick(world: World, ticker: Ticker | None = None) -> list[str]:
    """Run a ticker until it has nothing more to do. Returns the times that it wrote, in the order of the events."""
    before = {row["id"] for row in world.rows(schema.event)}
    while (ticker or world.ticker).run_once():
        pass
    return [row["data"]["fire_time"] for row in due_events(world) if row["id"] not in before]


def due_events(world: World) -> list[dict[str, Any]]:
    rows = world.rows(schema.event, schema.event.c.type == "schedule.due")
    return sorted(rows, key=lambda row: row["id"])


def at(text: str) -> str:
    """A time of the first of January 2026, as events have it."""
    return f"2026-01-01T{text}Z" if len(text) == 8 else f"2026-01-01T{text}:00Z"


def row_of(world: World, name: str) -> dict[str, Any]:
    return service(world).get(name)

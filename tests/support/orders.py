"""The event pattern of an order, and the firings that were suppressed."""

from typing import TYPE_CHECKING, Any

from functory.engine.database import schema

if TYPE_CHECKING:
    from tests.support.world import World

ORDER = {"type": ["order.created"]}


def suppressed(world: "World") -> list[dict[str, Any]]:
    return world.rows(schema.firing, schema.firing.c.decision == "suppressed")

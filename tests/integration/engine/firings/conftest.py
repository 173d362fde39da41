"""A shop whose orders run a function."""

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.support.world import World
from tests.support.orders import ORDER


@pytest.fixture
def shop(world: "World") -> "World":
    """A world in which an order.created runs `work`."""
    world.function("work")
    world.trigger("on-order", "work", ORDER)
    world.route()
    return world

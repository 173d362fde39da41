"""A shop whose orders have steps that can be undone."""

import pytest

from tests.support.world import World


@pytest.fixture
def shop(world: World) -> World:
    """Two steps with what undoes them, and what calls them."""
    for name in ("undo_reserve", "undo_charge"):
        world.function(name, "input, result, execution_id, error")
    world.function("reserve", "order", compensate="undo_reserve")
    world.function("charge", "order", compensate="undo_charge")
    world.function("order", "order")
    return world

"""The world of the tests of pruning."""

from collections.abc import Callable

import pytest

from tests.support.aging_world import ids_of, publish
from tests.support.world import World


@pytest.fixture
def aging(make_world: Callable[..., World]) -> World:
    """A world whose ids are as old as its clock says."""
    world = make_world()
    world.database.new_id = ids_of(world.database)
    world.function()
    world.function("other")
    world.trigger("first", "work", {"type": ["order"]})
    world.route()
    publish(world)
    return world

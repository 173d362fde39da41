"""The world of the tests of tallies."""

from collections.abc import Callable

import pytest

from functory.engine.tallies.tallier import Tallier
from tests.support.aging_world import ids_of
from tests.support.world import World


@pytest.fixture
def counted(make_world: Callable[..., World]) -> World:
    """A world with a function, whose ids are as old as its clock says."""
    world = make_world()
    world.database.new_id = ids_of(world.database)
    world.function()
    return world


@pytest.fixture
def tallier(counted: World) -> Tallier:
    """A tallier of this world that checks the earliest hour that it may."""
    return Tallier(counted.database, counted.settings, choose=lambda hours: hours[0])

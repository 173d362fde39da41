"""A user's schema with a table of orders, on PostgreSQL."""

from collections.abc import Iterator

import pytest

from tests.support.user_tables import Shop
from tests.support.world import World


@pytest.fixture
def shop(world: World) -> Iterator[Shop]:
    made = Shop(world)
    yield made
    made.close()

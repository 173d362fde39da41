"""A world with one function that tests start executions of."""

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.support.world import World

# Its asserts say what they compared.
pytest.register_assert_rewrite("tests.support.state_rules")


@pytest.fixture
def ready(world: "World") -> "World":
    """A world with a function that may be retried twice."""
    world.function("work", limits={"retries": 2, "retry_delay": 10, "max_attempts": 4})
    return world

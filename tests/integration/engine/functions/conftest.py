"""A world in which authors grant only some kinds."""

import pytest

from tests.support.granted_claims import SERVED


@pytest.fixture
def served(make_world):
    """A world as on servers: files and programs wait for an operator."""
    return make_world(**SERVED)

"""Fixtures: a broker of connections, and the table of names that it resolves with."""

from collections.abc import Iterator

import pytest

from functory.workers.sandbox.network.connection_broker import ConnectionBroker
from tests.support.network_world import LOOPBACK, Names


@pytest.fixture
def names() -> Names:
    """The addresses that names resolve to; a test may change the table. Other names resolve to loopback."""
    return Names()


@pytest.fixture
def broker(names: Names) -> Iterator[ConnectionBroker]:
    """A connection broker that treats loopback like any other network."""
    with_loopback = ConnectionBroker(LOOPBACK, resolve=names)
    yield with_loopback
    with_loopback.stop()

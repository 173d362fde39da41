"""Fixtures: a broker of connections, and the table of names that it resolves with."""

from collections.abc import Iterator

import pytest

from functory.workers.sandbox.network.connection_broker import ConnectionBroker
from tests.support.network_world import LOOPBACK, Names


@pytest.fixture
def names() -> Names:
    """What names resolve to; everything to loopback unless a test says otherwise."""
    return Names()


@pytest.fixture
def broker(names: Names) -> Iterator[ConnectionBroker]:
    """A broker for which loopback is a network like any other."""
    with_loopback = ConnectionBroker(LOOPBACK, resolve=names)
    yield with_loopback
    with_loopback.stop()

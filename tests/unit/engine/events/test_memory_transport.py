"""The in-memory transport: a message wakes its consumer."""

from __future__ import annotations

import threading
import time
import uuid
from collections.abc import Iterator

import pytest
from kombu import Connection

from functory.engine.events.memory_transport import TRANSPORT
from tests.support.patience import patient


@pytest.fixture
def connection() -> Iterator[Connection]:
    with Connection("memory://localhost/", transport=TRANSPORT) as found:
        yield found


def test_a_message_is_delivered_while_its_consumer_waits(connection: Connection) -> None:
    name = f"q-{uuid.uuid4().hex}"
    queue = connection.SimpleQueue(name)
    found: list[str] = []

    def consume() -> None:
        with Connection("memory://localhost/", transport=TRANSPORT) as other:
            message = other.SimpleQueue(name).get(timeout=patient(60))
            found.append(message.payload)
            message.ack()

    waiting = threading.Thread(target=consume)
    waiting.start()
    queue.put("hello")
    waiting.join(patient(60))
    assert found == ["hello"]


def test_a_wait_without_a_message_ends_in_time(connection: Connection) -> None:
    queue = connection.SimpleQueue(f"q-{uuid.uuid4().hex}")
    began = time.monotonic()
    with pytest.raises(queue.Empty):
        queue.get(timeout=0.05)
    assert time.monotonic() - began >= 0.05


def test_messages_of_others_do_not_end_the_wait(connection: Connection) -> None:
    queue, other = (connection.SimpleQueue(f"q-{uuid.uuid4().hex}") for _ in range(2))
    other.put("not for you")
    with pytest.raises(queue.Empty):
        queue.get(timeout=0.05)

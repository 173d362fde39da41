"""The in-memory transport: a message wakes its consumer."""

from __future__ import annotations

import sys
import threading
import time
import uuid
from collections.abc import Iterator
from typing import Any

import pytest
from kombu.connection import Connection
from kombu.entity import Exchange, Queue
from kombu.messaging import Producer

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


@pytest.fixture
def eager_switches() -> Iterator[None]:
    """Threads take turns after a few instructions."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


@pytest.mark.usefixtures("eager_switches")
@pytest.mark.parametrize("exchange", ["", "topic"])
def test_two_threads_that_declare_the_same_lose_no_message(exchange: str) -> None:
    rounds = 500
    names = [f"q-{uuid.uuid4().hex}" for _ in range(rounds)]
    both = threading.Barrier(2)
    failures: list[BaseException] = []

    def publish() -> None:
        try:
            for name in names:
                with Connection("memory://localhost/", transport=TRANSPORT) as own:
                    channel: Any = own.channel()
                    made = Exchange(f"x-{name}", type=exchange) if exchange else None
                    queue = Queue(name, exchange=made, routing_key=name)
                    both.wait(patient(60))
                    queue(channel).declare()
                    Producer(channel, exchange=made, routing_key=name).publish(name)
        except BaseException as error:
            failures.append(error)
            both.abort()

    threads = [threading.Thread(target=publish) for _ in range(2)]
    for one in threads:
        one.start()
    for one in threads:
        one.join(patient(120))
    assert not failures
    with Connection("memory://localhost/", transport=TRANSPORT) as found:
        channel: Any = found.channel()
        counts = [channel.queue_declare(name, passive=True).message_count for name in names]
    assert counts == [2] * rounds

"""Anyone may bind a queue of their own to the exchange: here with plain kombu, as a stranger would."""

from __future__ import annotations

import uuid

import kombu
import pytest
from cloudevents.v1.conversion import from_json
from cloudevents.v1.http import CloudEvent

from functory.client.functory import Functory
from tests.acceptance.conftest import ON_SERVERS
from tests.support.patience import patient

# The in-memory transport has no subscribers outside of its process.
pytestmark = pytest.mark.parametrize("functory", ON_SERVERS, indirect=True)


@pytest.fixture
def subscriber(functory: Functory):
    """A function that binds a queue with a routing key and yields a receiver of envelopes."""
    with kombu.Connection(functory.settings.broker) as connection:
        received: list[kombu.Message] = []

        def subscribe(routing_key: str):
            exchange = kombu.Exchange(f"{functory.settings.namespace}.events", type="topic", durable=True)
            queue = kombu.Queue(
                f"mine-{uuid.uuid4().hex[:8]}", exchange, routing_key=routing_key, auto_delete=True
            )
            consumer = connection.Consumer([queue], on_message=lambda m: (received.append(m), m.ack()))
            consumer.consume()

            def receive(count: int) -> list[kombu.Message]:
                try:
                    while len(received) < count:
                        connection.drain_events(timeout=patient(20))
                except TimeoutError:
                    pytest.fail(f"only {len(received)} of {count} messages came")
                return received[:count]

            return receive

        yield subscribe


def test_events_come_as_cloudevents_with_their_type_as_routing_key(
    functory: Functory, name: str, subscriber
) -> None:
    receive = subscriber(f"shop.{name}.*")
    ids = [
        functory.emit(f"shop.{name}.{what}", {"n": n, "text": "ä\U0001f600"}, subject=f"order/{n}")
        for n, what in enumerate(("placed", "paid", "shipped"))
    ]
    messages = receive(3)
    assert [m.delivery_info["routing_key"] for m in messages] == [
        f"shop.{name}.{w}" for w in ("placed", "paid", "shipped")
    ]
    assert all(m.content_type == "application/cloudevents+json" for m in messages)
    events = [from_json(CloudEvent, m.body) for m in messages]
    assert [event["id"] for event in events] == ids
    assert events[1]["subject"] == "order/1"
    assert events[1].data == {"n": 1, "text": "ä\U0001f600"}
    assert {event["specversion"] for event in events} == {"1.0"}
    assert events[0]["functoryroot"] == ids[0]
    assert int(events[0]["functorydepth"]) == 0


def test_the_life_of_an_execution_can_be_followed_from_outside(
    functory: Functory, name: str, subscriber
) -> None:
    functory.functions.save(f"def {name}(x):\n    return x + 1\n", output_patterns={})
    receive = subscriber("execution.#")
    functory.call(name, 1)
    while True:
        events = [from_json(CloudEvent, m.body) for m in receive(2)]
        if {event["subject"] for event in events} == {name}:
            break
    assert [event["type"] for event in events] == ["execution.started", "execution.succeeded"]
    assert events[1].data["output"] == 2
    assert events[0]["functorycause"] == events[1].data["execution_id"]

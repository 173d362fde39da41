"""What subscribers get from a batch is what kombu would have sent them message by message."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import kombu
import pytest

from functory.engine.errors import Unavailable
from functory.engine.events import store as event_store
from functory.engine.events.event_row import EventRow
from functory.engine.events.exchange import EventPublisher, connect, topic_exchange
from functory.engine.serialization import json_codec
from functory.engine.settings import Settings, load_settings
from tests.services.faulty_proxy import FaultyProxy
from tests.support.event_rows import event_row

BROKERS = [
    pytest.param("redis", marks=pytest.mark.redis),
    pytest.param("rabbitmq", marks=pytest.mark.rabbitmq),
]
ID = "01998c5e-0000-7000-8000-{:012x}"


def row(number: int, type_: str = "order.placed", data: Any = None, **fields: Any) -> EventRow:
    time = datetime(2026, 1, 2, 3, 4, 5, number, UTC)
    return event_row(ID.format(number), type=type_, time=time, data=data, root_id=ID.format(0), **fields)


ROWS = [
    row(1),
    row(2, data={"n": 1, "text": "ä\U0001f600", "nothing": None}, subject="order/1"),
    row(3, "a", data="x" * 400_000),
    row(4, "a.b-c.d_e", data=[1, 2.5, True], cause_execution_id=ID.format(9), depth=3),
    row(5, "t" * 255, data={"deep": [[[[[]]]]]}),
    row(6, data="\ud800 alone", extensions={"traceparent": "00-1", "datacontenttype": "text/plain"}),
    row(7, data=2**70),
    # As large as a frame of RabbitMQ, with one byte less and one more.
    *(row(20 + n, data="y" * (131_072 - 400 + n)) for n in range(0, 800, 100)),
]


@pytest.fixture
def settings(request: pytest.FixtureRequest, tmp_path: Any) -> Settings:
    url = request.getfixturevalue(f"{request.param}_url")
    return load_settings(home=tmp_path, broker_url=url, namespace=f"n{uuid.uuid4().hex[:8]}")


class Subscriber:
    """A queue that is bound to the exchange, as a stranger would bind it."""

    def __init__(self, settings: Settings, key: str = "#", **arguments: Any) -> None:
        self.connection = kombu.Connection(settings.broker)
        self.queue = kombu.Queue(
            f"mine-{uuid.uuid4().hex[:8]}",
            topic_exchange(settings.namespace),
            routing_key=key,
            queue_arguments=arguments or None,
        )
        self.bound = self.queue(self.connection.channel())
        self.bound.declare()

    def all(self) -> list[kombu.Message]:
        found = []
        while (message := self.bound.get(no_ack=True)) is not None:
            found.append(message)
        return found

    def close(self) -> None:
        self.bound.delete()
        self.connection.release()


@pytest.fixture
def subscriber(settings: Settings) -> Iterator[Subscriber]:
    made = Subscriber(settings)
    yield made
    made.close()


@pytest.fixture
def publisher(settings: Settings) -> Iterator[EventPublisher]:
    made = EventPublisher(settings)
    yield made
    made.close()


def publish_with_kombu(settings: Settings, rows: list[dict[str, Any]]) -> None:
    """Publish each event on its own, with a confirm of its own."""
    with connect(settings.broker) as connection:
        producer = kombu.Producer(connection.channel(), exchange=topic_exchange(settings.namespace))
        for one in rows:
            producer.publish(
                json_codec.encode(event_store.envelope(one)),
                routing_key=one.type,
                content_type="application/cloudevents+json",
                content_encoding="utf-8",
                delivery_mode=2,
                message_id=one.id,
                retry=False,
            )


def shown(message: kombu.Message) -> dict[str, Any]:
    properties = {name: value for name, value in message.properties.items() if name != "delivery_tag"}
    properties.get("delivery_info", {}).pop("delivery_tag", None)
    return {
        "body": message.body,
        "content_type": message.content_type,
        "content_encoding": message.content_encoding,
        "headers": message.headers,
        "properties": properties,
        "routing_key": message.delivery_info["routing_key"],
        "exchange": message.delivery_info["exchange"],
    }


@pytest.mark.parametrize("settings", BROKERS, indirect=True)
def test_a_batch_is_what_kombu_sends_one_by_one(
    settings: Settings, subscriber: Subscriber, publisher: EventPublisher
) -> None:
    publish_with_kombu(settings, ROWS)
    expected = [shown(message) for message in subscriber.all()]
    assert len(expected) == len(ROWS)
    sizes = publisher.publish(ROWS)
    found = [shown(message) for message in subscriber.all()]
    assert found == expected
    assert sizes == [len(json_codec.encode(event_store.envelope(one))) for one in ROWS]
    assert [json.loads(one["body"])["id"] for one in found] == [one.id for one in ROWS]


@pytest.mark.redis
@pytest.mark.parametrize("settings", BROKERS[:1], indirect=True)
def test_the_lists_of_redis_hold_what_kombu_puts_there(settings: Settings, subscriber: Subscriber) -> None:
    import redis

    client = redis.Redis.from_url(settings.broker)

    def stored() -> list[dict[str, Any]]:
        found = [json.loads(text) for text in client.lrange(subscriber.queue.name, 0, -1)]  # type: ignore[union-attr]
        client.delete(subscriber.queue.name)
        for one in found:
            assert uuid.UUID(one["properties"].pop("delivery_tag"))
        return found

    publish_with_kombu(settings, ROWS)
    expected = stored()
    publisher = EventPublisher(settings)
    publisher.publish(ROWS)
    assert stored() == expected
    publisher.close()
    client.close()


@pytest.mark.parametrize("settings", BROKERS, indirect=True)
def test_many_events_arrive_in_order_over_several_batches(
    settings: Settings, subscriber: Subscriber, publisher: EventPublisher
) -> None:
    rows = [row(number, f"type.{number % 7}", {"n": number}) for number in range(3000)]
    publisher.publish(rows[:1000])
    publisher.publish([])
    publisher.publish(rows[1000:])
    assert [json.loads(one.body)["data"]["n"] for one in subscriber.all()] == list(range(3000))


@pytest.mark.parametrize("settings", BROKERS, indirect=True)
def test_a_new_subscriber_gets_the_next_batch(settings: Settings, publisher: EventPublisher) -> None:
    publisher.publish([row(1)])
    found = [Subscriber(settings, key) for key in ("order.*", "other.*", "order.placed")]
    publisher.publish([row(2), row(3, "order.paid"), row(4, "other.thing")])
    ids = [[json.loads(one.body)["id"] for one in each.all()] for each in found]
    assert ids == [[ID.format(2), ID.format(3)], [ID.format(4)], [ID.format(2)]]
    for each in found:
        each.close()


@pytest.mark.rabbitmq
@pytest.mark.parametrize("settings", BROKERS[1:], indirect=True)
def test_a_batch_that_the_broker_refuses_fails(settings: Settings, publisher: EventPublisher) -> None:
    full = Subscriber(settings, **{"x-max-length": 1, "x-overflow": "reject-publish"})
    with pytest.raises(Unavailable, match="refused"):
        publisher.publish([row(number) for number in range(5)])
    full.close()
    other = Subscriber(settings)
    publisher.publish([row(7)])
    assert [json.loads(one.body)["id"] for one in other.all()] == [ID.format(7)]
    other.close()


@pytest.mark.rabbitmq
@pytest.mark.parametrize("settings", BROKERS[1:], indirect=True)
def test_a_broker_that_blocks_publishers_gets_no_message(
    settings: Settings, subscriber: Subscriber, publisher: EventPublisher
) -> None:
    publisher.publish([row(1)])
    connection = publisher._publisher._connection  # type: ignore[union-attr]
    connection.on_blocked("low on memory")
    with pytest.raises(Unavailable, match="short of memory or disk"):
        publisher.publish([row(2)])
    # The next try has a new connection.
    publisher.publish([row(3)])
    assert [json.loads(one.body)["id"] for one in subscriber.all()] == [ID.format(1), ID.format(3)]


@pytest.mark.parametrize("settings", BROKERS, indirect=True)
def test_a_connection_that_was_closed_meanwhile_is_replaced(
    settings: Settings, subscriber: Subscriber
) -> None:
    with FaultyProxy(settings.broker) as proxy:
        behind = load_settings(home=settings.home, broker_url=proxy.url, namespace=settings.namespace)
        publisher = EventPublisher(behind)
        publisher.publish([row(1)])
        proxy.reset()
        publisher.publish([row(2)])
        assert [json.loads(one.body)["id"] for one in subscriber.all()] == [ID.format(1), ID.format(2)]
        publisher.close()

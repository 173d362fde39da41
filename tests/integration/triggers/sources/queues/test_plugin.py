"""Queues and streams of real brokers: each message one event, whatever dies, and poison never blocks the queue."""

import json
import pickle
import uuid
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from kombu.connection import Connection
from kombu.entity import Exchange, Queue
from kombu.messaging import Producer

from functory.engine.database import schema
from functory.engine.errors import Invalid, Unavailable
from functory.engine.sources.store import Sources
from functory.triggers.sources.queues.kombu_consumer import connect
from functory.triggers.sources.queues.plugin import QueueSource as QueueKind
from tests.services.tcp_proxy import Door
from tests.support.processes import Roles
from tests.support.source_world import Kept, keeping
from tests.support.waiting import wait_for
from tests.support.world import World, on_sqlite

pytest_plugins = ["tests.support.world"]
pytestmark = on_sqlite


@pytest.fixture(params=["rabbitmq", "redis"])
def broker_url(request: pytest.FixtureRequest) -> str:
    """The URL of an empty place on each broker."""
    return request.getfixturevalue(f"{request.param}_url")


@contextmanager
def producing(url: str, queue: str = "orders", **arguments: Any) -> Iterator[Producer]:
    """Somebody else's program, which makes the queue and writes into it."""
    with Connection(url) as connection:
        channel: Any = connection.channel()
        Queue(queue, durable=True, queue_arguments=arguments or None)(channel).declare()
        yield Producer(channel, routing_key=queue)


def send(producer: Producer, *numbers: int) -> None:
    for number in numbers:
        producer.publish(json.dumps({"number": number}), content_type="application/json",
                         content_encoding="utf-8", message_id=f"m{number}")  # fmt: skip


def save(world: World, url: str, name: str = "orders", **config: Any) -> None:
    world.secrets.set("BROKER", url)
    world.sources.save("queue", name, {"url_secret": "BROKER", "queue": "orders"} | config)


@contextmanager
def reading(world: World) -> Iterator[Kept]:
    with keeping(world, {"queue": QueueKind()}) as kept:
        yield kept


def received(world: World, type_: str = "queue.received") -> list[dict[str, Any]]:
    return [row for row in world.rows(schema.event) if row["type"] == type_]


def numbers(world: World) -> list[int]:
    return [row["data"]["body"]["number"] for row in received(world)]


def problem(world: World, name: str = "orders") -> str:
    return world.sources.get("queue", name)["problem"] or ""


def test_messages_become_events_once_and_leave_the_queue(world: World, broker_url: str) -> None:
    save(world, broker_url)
    with producing(broker_url) as producer:
        send(producer, *range(300))
        with reading(world) as kept:
            kept.until(lambda: len(numbers(world)) == 300, "the events")
            send(producer, 7, 300)
            kept.until(lambda: 300 in numbers(world), "the new one")
    assert numbers(world) == list(range(301))
    first = received(world)[0]
    assert (first["source"], first["subject"]) == ("/functory/queue/orders", "orders")
    with reading(world) as kept, producing(broker_url) as producer:
        send(producer, 301)
        kept.until(lambda: 301 in numbers(world), "the one after the restart")
    assert numbers(world) == list(range(302))


def test_messages_that_wait_and_those_that_were_rejected_are_on_the_source(
    world: World, broker_url: str
) -> None:
    save(world, broker_url, prefetch=1)
    with producing(broker_url) as producer:
        send(producer, 1)
        # No event: it is not JSON.
        producer.publish("{", content_type="application/json", content_encoding="utf-8", message_id="p2")
        with reading(world) as kept:
            kept.until(lambda: world.sources.get("queue", "orders")["refused"] == 1, "the rejected one")
            world.advance(60)
            shown = kept.until(
                lambda: (
                    (row := world.sources.get("queue", "orders"))["looked_at"] == world.clock.now() and row
                ),
                "the report",
            )
            assert shown["waiting"] == 0
    with producing(broker_url) as producer:
        send(producer, *range(10, 30))
        with reading(world) as kept:
            # The first report comes after the first batch.
            shown = kept.until(lambda: (row := world.sources.get("queue", "orders"))["waiting"] and row, "it")
            assert 0 < shown["waiting"] < 20
            kept.until(lambda: numbers(world)[-1] == 29, "the last one")


def test_poison_is_rejected_and_reported_and_never_blocks_the_queue(world: World, rabbitmq_url: str) -> None:
    save(world, rabbitmq_url)
    with producing(
        rabbitmq_url, **{"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead"}
    ) as producer:
        dead = Queue("dead", durable=True)(producer.channel)
        dead.declare()
        producer.publish(pickle.dumps({"x": 1}), content_type="application/x-python-serialize",
                         content_encoding="binary", message_id="p1")  # fmt: skip
        producer.publish("{", content_type="application/json", content_encoding="utf-8", message_id="p2")
        producer.publish(zlib.compress(b"0" * 50_000_000), content_type="text/plain", content_encoding="utf-8",
                         headers={"compression": "application/x-gzip"}, message_id="p3")  # fmt: skip
        producer.publish("no id", content_type="text/plain", content_encoding="utf-8")
        producer.publish(
            "x" * 2_000_000, content_type="text/plain", content_encoding="utf-8", message_id="p5"
        )
        send(producer, 1)
        with reading(world) as kept:
            kept.until(lambda: numbers(world) == [1], "the good one")
            rejected = {
                row["data"]["message_id"]: row["data"]["reason"] for row in received(world, "source.rejected")
            }
            assert rejected["p1"].startswith("bodies of type application/x-python-serialize are not read")
            assert "not JSON" in rejected["p2"]
            assert "compressed" in rejected["p3"]
            assert "no id" in rejected[None]
            assert "too large" in rejected["p5"]
            wait_for(lambda: "was rejected" in problem(world), "the problem")
            wait_for(lambda: dead.queue_declare(passive=True).message_count == 5, "the dead letters")


def test_a_message_in_memory_whose_transaction_failed_is_read_again(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    failures = [Unavailable("the database does not answer")]
    written = Sources.ingest

    def ingest(self: Sources, *given: Any, **named: Any) -> Any:
        if failures:
            raise failures.pop()
        return written(self, *given, **named)

    monkeypatch.setattr(Sources, "ingest", ingest)
    queue = f"q{uuid.uuid4().hex}"
    world.sources.save("queue", "orders", {"broker": "own", "queue": queue, "declare": True})
    with reading(world) as kept, connect("memory://") as connection:
        send(Producer(connection.channel(), routing_key=queue), 1)
        kept.until(lambda: numbers(world) == [1], "the event")
    assert failures == []


def test_what_was_put_into_redis_by_hand_does_not_stop_the_source(
    world: World, redis_url: str, redis_server: Any
) -> None:
    save(world, redis_url)
    with producing(redis_url) as producer:
        with redis_server.connect(int(redis_url.rsplit("/", 1)[1])) as client:
            client.lpush(
                "orders", "not json", "[]", "{}", '{"body": "x", "properties": {"body_encoding": "base64"}}'
            )
        send(producer, 1)
        with reading(world) as kept:
            kept.until(lambda: numbers(world) == [1], "the good one")
    assert len(received(world, "source.rejected")) == 4


def test_a_binding_is_declared_and_expressions_make_the_event(world: World, rabbitmq_url: str) -> None:
    made = {"type": '"my." + properties.routing_key', "subject": "string(body.number)", "data": "body"}
    save(world, rabbitmq_url, exchange="shop", routing_keys=["order.*", "bill.#"], key="body.number", **made)
    with reading(world) as kept, Connection(rabbitmq_url) as connection:
        kept.runs("queue/orders")
        channel: Any = connection.channel()
        exchange = Exchange("shop", type="topic", durable=True)
        wait_for(lambda: _is_read(rabbitmq_url), "the queue")
        producer = Producer(channel, exchange=exchange)
        for key, number in (("order.new", 1), ("other", 2), ("bill.a.b", 3), ("order.new", 1)):
            producer.publish({"number": number}, routing_key=key, serializer="json")
        kept.until(lambda: len(received(world, "my.bill.a.b")) == 1, "the last")
    found = [row for row in world.rows(schema.event) if row["type"].startswith("my.")]
    assert [(row["type"], row["subject"], row["data"]) for row in found] == [
        ("my.order.new", "1", {"number": 1}),
        ("my.bill.a.b", "3", {"number": 3}),
    ]


def _is_read(url: str) -> bool:
    """Whether the queue has a reader: what it declares is there by then."""
    with Connection(url) as connection:
        channel: Any = connection.channel()
        try:
            return Queue("orders")(channel).queue_declare(passive=True).consumer_count > 0
        except channel.connection.channel_errors:
            return False


def test_a_missing_queue_is_reported_and_read_once_it_exists(world: World, rabbitmq_url: str) -> None:
    save(world, rabbitmq_url)
    with reading(world) as kept:
        kept.until(lambda: "NOT_FOUND" in problem(world), "the problem")
        with producing(rabbitmq_url) as producer:
            send(producer, 1)
            kept.until(lambda: numbers(world) == [1], "the event")
        kept.until(lambda: problem(world) == "", "the end of the problem")


def test_a_broker_that_goes_away_is_waited_for(world: World, rabbitmq_url: str) -> None:
    with Door(rabbitmq_url) as door:
        door.open()
        save(world, door.url)
        with reading(world) as kept, producing(rabbitmq_url) as producer:
            send(producer, 1)
            kept.until(lambda: numbers(world) == [1], "the event")
            door.close()
            found = kept.until(lambda: problem(world), "the problem")
            assert "guest" not in found
            send(producer, 2)
            door.open()
            kept.until(lambda: numbers(world) == [1, 2], "the event after it")
            kept.until(lambda: problem(world) == "", "the end of the problem")


def test_a_stream_is_read_from_its_beginning_and_goes_on_where_it_was(
    world: World, rabbitmq_url: str
) -> None:
    save(world, rabbitmq_url, stream="first")
    with producing(rabbitmq_url, **{"x-queue-type": "stream"}) as producer:
        for number in range(50):
            producer.publish({"number": number}, serializer="json")
        with reading(world) as kept:
            kept.until(lambda: len(numbers(world)) == 50, "the events")
        assert world.sources.get("queue", "orders")["cursor"] == 49
        for number in range(50, 60):
            producer.publish({"number": number}, serializer="json")
        with reading(world) as kept:
            kept.until(lambda: len(numbers(world)) == 60, "the later events")
    assert numbers(world) == list(range(60))


def test_the_brokers_own_queue_in_memory(world: World) -> None:
    world.sources.save("queue", "orders", {"broker": "own", "queue": "inside", "declare": True})
    with producing("memory://", "inside") as producer, reading(world) as kept:
        send(producer, 1, 2)
        kept.until(lambda: numbers(world) == [1, 2], "the events")


def test_a_secret_that_is_no_address_is_reported_without_being_shown(world: World) -> None:
    save(world, "http://ada:pass-word@example.org")
    with reading(world) as kept:
        found = kept.until(lambda: problem(world), "the problem")
    assert "the scheme of its URL is unknown" in found
    assert "pass-word" not in found


@pytest.mark.parametrize(
    ("config", "why"),
    [
        ({"queue": "q"}, "url_secret"),
        ({"queue": "q", "broker": "own", "url_secret": "X"}, "url_secret"),
        ({"queue": "q", "broker": "amqp://guest:guest@x"}, "own"),
        ({"queue": "", "broker": "own"}, "queue"),
        ({"queue": "a\x00b", "broker": "own"}, "printable"),
        ({"queue": 5, "broker": "own"}, "queue"),
        ({"queue": "q", "broker": "own", "stream": "first", "exchange": "x"}, "stream"),
        ({"queue": "q", "broker": "own", "type": "headers."}, "type"),
        ({"queue": "q", "broker": "own", "prefetch": 0}, "prefetch"),
        ({"queue": "q", "broker": "own", "routing_keys": []}, "routing_keys"),
        ({"queue": "q", "broker": "own", "accept": ["pickle"]}, "accept"),
    ],
)
def test_a_configuration_that_cannot_work_is_refused(world: World, config: dict[str, Any], why: str) -> None:
    with pytest.raises(Invalid, match=why) as refused:
        world.sources.save("queue", "orders", config)
    assert "guest:guest" not in str(refused.value)
    assert world.sources.list() == []


@pytest.mark.postgres
def test_a_reader_that_is_killed_before_it_acknowledges_loses_and_doubles_nothing(
    tmp_path: Path, database_url: str, postgres_url: str, broker_url: str
) -> None:
    with Roles(
        tmp_path, database_url=postgres_url, broker_url=broker_url, lease_seconds=3, heartbeat_seconds=1
    ) as roles, roles.client() as client, producing(broker_url) as producer:  # fmt: skip
        roles.migrate()
        client.sources.save("queue", "orders", {"broker": "own", "queue": "orders", "prefetch": 20})
        watchers = [roles.start("watcher")]
        sent = 0
        for round_ in (1, 2):
            send(producer, *range(sent, sent + 300))
            sent += 300
            wait_for(lambda least=sent - 290: _count(client) > least, "some events")
            if round_ == 1:
                watchers[0].kill()
                watchers.append(roles.start("watcher"))
        wait_for(lambda: _count(client) >= sent, "all events", seconds=60)
        rows = client.events.scan(client.sources.get("queue", "orders")["created_at"])
        found = [row.data["body"]["number"] for row in rows if row.type == "queue.received"]
        assert sorted(found) == list(range(sent))


def _count(client: Any) -> int:
    return client.events.count(client.sources.get("queue", "orders")["created_at"], ["queue.received"])

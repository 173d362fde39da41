"""Events that come back over a queue: own events, those of another installation, and what a function has caused.

The broker is in memory; messages are those that an installation publishes.
"""

from __future__ import annotations

import shutil
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from kombu.entity import Exchange, Queue
from kombu.messaging import Producer

from functory.engine.database import schema
from functory.engine.errors import Invalid
from functory.engine.events import event_row
from functory.engine.events.lineage_tokens import HEADER, TRACESTATE, LineageTokens
from functory.engine.events.messages import CONTENT_TYPE, message_of
from functory.engine.maintenance.invariants import verify
from functory.triggers.sources.queues.kombu_consumer import connect
from functory.triggers.sources.queues.plugin import QueueSource
from tests.support.source_world import Kept, keeping
from tests.support.world import World, on_sqlite

pytest_plugins = ["tests.support.world"]
pytestmark = on_sqlite


@pytest.fixture
def queue() -> str:
    """A queue that no other test uses; the broker's memory is that of the process."""
    return f"q{uuid.uuid4().hex}"


@pytest.fixture
def other(tmp_path: Path, migrated_file: Path) -> Iterator[World]:
    """Another installation, with a database of its own."""
    file = tmp_path / "other.db"
    shutil.copy(migrated_file, file)
    made = World(f"sqlite:///{file}", tmp_path / "other")
    yield made
    made.close()


@contextmanager
def reading(world: World, queue: str, **config: Any) -> Iterator[Kept]:
    world.sources.save("queue", "in", {"broker": "own", "queue": queue, "declare": True} | config)
    with keeping(world, {"queue": QueueSource()}) as kept:
        kept.runs("queue/in")
        yield kept


def events(world: World, *, of_the_queue: bool = True) -> list[dict[str, Any]]:
    """The events that the queue has written, or the others."""
    here = [row for row in world.rows(schema.event) if row["type"] != "source.created"]
    return [row for row in here if (row["source"] == "/functory/queue/in") == of_the_queue]


def publish(row: dict[str, Any], queue: str, exchange: str = "", **more: Any) -> None:
    """Put the message of an event onto a queue, as an exchange of this name would."""
    message = message_of(event_row.from_mapping(row))
    given = {"content_type": CONTENT_TYPE, "content_encoding": "utf-8", "message_id": message.id} | more
    with connect("memory://") as connection:
        channel: Any = connection.channel()
        if exchange:
            made = Exchange(exchange, type="topic", durable=True)
            Queue(queue, exchange=made, routing_key="#", durable=True)(channel).declare()
            Producer(channel, exchange=made).publish(message.body, routing_key=message.routing_key, **given)
        else:
            Queue(queue, durable=True)(channel).declare()
            Producer(channel, routing_key=queue).publish(message.body, **given)


def refused(world: World) -> int:
    return int(world.sources.get("queue", "in")["refused"])


def problem(world: World) -> str:
    return str(world.sources.get("queue", "in")["problem"])


def is_sound(world: World) -> bool:
    return not [one for one in verify(world.database, world.settings) if one.count]


def test_a_queue_on_the_exchange_of_the_own_events_is_refused_when_it_is_saved(world: World) -> None:
    own = f"{world.settings.namespace}.events"
    with pytest.raises(Invalid, match="would receive Functory's own events") as refusal:
        world.sources.save("queue", "in", {"broker": "own", "queue": "in", "exchange": own})
    assert "use a trigger" in refusal.value.try_
    world.sources.save("queue", "in", {"broker": "own", "queue": "in", "exchange": f"other-{own}"})
    # The same name on another broker is that of another installation.
    world.sources.save("queue", "far", {"url_secret": "FAR", "queue": "in", "exchange": own})


@pytest.mark.parametrize("by", ["the own exchange", "another exchange", "no exchange"])
def test_an_own_event_makes_no_event_whatever_way_it_comes_back(world: World, queue: str, by: str) -> None:
    own = f"{world.settings.namespace}.events"
    exchange = {"the own exchange": own, "another exchange": f"dead-{queue}", "no exchange": ""}[by]
    world.events.emit("order.placed", {"n": 1})
    (sent,) = events(world, of_the_queue=False)
    before = len(world.rows(schema.event))
    with reading(world, queue) as kept:
        publish(sent, queue, exchange)
        kept.until(lambda: refused(world) == 1, "the refusal")
        kept.until(lambda: "one of Functory's own events" in problem(world), "the reason")
    assert len(world.rows(schema.event)) == before + 1, "the source's own, and none of the message"


def test_what_another_program_puts_onto_the_own_exchange_makes_no_event(world: World, queue: str) -> None:
    row = {"id": str(uuid.uuid4()), "root_id": str(uuid.uuid4()), "depth": 0, "type": "a.b", "source": "/x"}
    row |= {"subject": None, "time": world.clock.now(), "data": {}, "cause_execution_id": None, "chain": []}
    row |= {"extensions": None, "state": "pending", "routed_at": None}
    with reading(world, queue) as kept:
        publish(row, queue, f"{world.settings.namespace}.events")
        kept.until(lambda: refused(world) == 1, "the refusal")
    assert events(world) == []


@pytest.mark.parametrize("config", [{}, {"data": "body.missing"}], ids=["accepted", "rejected"])
def test_two_installations_that_read_each_other_s_events_end_at_the_depth(
    world: World, other: World, queue: str, config: dict[str, str]
) -> None:
    names = {id(world): f"{queue}a", id(other): f"{queue}b"}
    limit = world.settings.max_depth
    with (
        reading(world, names[id(world)], **config) as here,
        reading(other, names[id(other)], **config) as there,
    ):
        world.events.emit("order.placed", {"n": 1})
        (sent,) = events(world, of_the_queue=False)
        for turn in range(limit):
            to, kept = ((other, there), (world, here))[turn % 2]
            publish(sent, names[id(to)])
            number = turn // 2 + 1
            kept.until(lambda to=to, number=number: len(events(to)) == number, f"turn {turn}")
            sent = max(events(to), key=lambda row: row["id"])
            assert sent["depth"] == turn + 1
        publish(sent, names[id(other)])
        there.until(lambda: "too many installations" in problem(other), "the end")
    assert len(events(world)) + len(events(other)) == limit == 16
    assert is_sound(world) and is_sound(other)


def test_a_trigger_counts_the_depth_that_another_installation_began(
    world: World, other: World, queue: str
) -> None:
    world.function("work")
    world.trigger("t", "work", {"type": ["queue.received"]}, guards={"max_depth": 1})
    other.events.emit("order.placed", {"n": 1})
    (sent,) = events(other, of_the_queue=False)
    with reading(world, queue) as kept:
        publish(sent, queue)
        kept.until(lambda: events(world), "the event")
    assert [reason for _, reason in world.route() if reason] == ["depth"]


@pytest.mark.parametrize("carrier", [HEADER, TRACESTATE, "attribute"])
@pytest.mark.parametrize("config", [{}, {"data": "body.missing"}], ids=["accepted", "rejected"])
def test_a_message_with_a_lineage_token_continues_the_tree(
    world: World, other: World, queue: str, carrier: str, config: dict[str, str]
) -> None:
    world.function("work")
    claim = world.claim(world.start())
    row = claim.row
    token = LineageTokens(world.secrets.derive_keys).headers(row, world.clock.now())
    other.events.emit("order.placed", {"n": 1})
    (sent,) = events(other, of_the_queue=False)
    more: dict[str, Any] = {"headers": {carrier: token[carrier]}} if carrier in token else {}
    extensions = {TRACESTATE: token[TRACESTATE]} if carrier == "attribute" else None
    with reading(world, queue, **config) as kept:
        publish(sent | {"extensions": extensions}, queue, **more)
        (made,) = kept.until(lambda: events(world), "the event")
    assert (made["root_id"], made["cause_execution_id"], made["depth"]) == (
        row.root_id,
        row.id,
        row.depth,
    )
    assert is_sound(world)


def test_a_forged_token_is_ignored(world: World, other: World, queue: str) -> None:
    world.secrets.set("ANY", "so that there is a key")
    other.events.emit("order.placed", {"n": 1})
    (sent,) = events(other, of_the_queue=False)
    with reading(world, queue) as kept:
        publish(sent, queue, headers={HEADER: "v1.00000000.forged"})
        (made,) = kept.until(lambda: events(world), "the event")
    assert (made["root_id"], made["cause_execution_id"], made["depth"]) == (made["id"], None, 1)

"""Reads queues on Redis, as kombu's transport writes them: lists of JSON envelopes.

A message is moved into a list of this source's own in one command (LMOVE), and taken from there once its event is
committed. A killed process leaves it in that list, where the next holder finds it: a message is
always in one of the two lists. Redis 6.2 or newer.
"""

from __future__ import annotations

import base64
import contextlib
from typing import Any

import redis

from functory.engine.errors import Invalid
from functory.engine.serialization import json_codec
from functory.triggers.sources.plugin import SourceContext
from functory.triggers.sources.queues.config import QueueConfig
from functory.triggers.sources.queues.ingest import write_events
from functory.triggers.sources.queues.kombu_consumer import POLL_SECONDS, connect, declare
from functory.triggers.sources.queues.message import Message
from functory.triggers.sources.queues.message_mapping import MessageMapping

# kombu keeps a list for each step of priority, the most urgent first (kombu.transport.redis, PRIORITY_STEPS).
PRIORITIES = ("", "\x06\x163", "\x06\x166", "\x06\x169")


class RedisConsumer:
    """One connection to Redis, and the list of taken messages."""

    def __init__(self, context: SourceContext, url: str) -> None:
        self._context = context
        self._config: QueueConfig = context.config
        self._mapping = MessageMapping(context.config)
        self._url = url
        self._redis: Any = redis.Redis.from_url(
            url, socket_timeout=30, socket_connect_timeout=5, health_check_interval=25
        )
        self._queues = [f"{context.config.queue}{priority}" for priority in PRIORITIES]
        self._taken = f"functory_source_{context.name}_taken"

    def open(self) -> None:
        """Connect, and declare the queue's bindings as kombu stores them."""
        if self._config.declare or self._config.exchange is not None:
            with connect(self._url) as connection:
                declare(connection.channel(), self._config)
        self._redis.ping()

    def close(self) -> None:
        """Disconnect; taken messages stay in their list."""
        with contextlib.suppress(Exception):
            self._redis.close()

    def consume_batch(self) -> None:
        """Take messages, write their events, delete them."""
        size = self._config.prefetch
        # The oldest is at the right end, whichever list it is in.
        in_hand = self._redis.lrange(self._taken, -size, -1)[::-1]
        for queue in self._queues:
            if (room := size - len(in_hand)) > 0:
                with self._redis.pipeline(transaction=False) as pipeline:
                    for _ in range(min(room, self._redis.llen(queue))):
                        pipeline.lmove(queue, self._taken, "RIGHT", "LEFT")
                    in_hand += [one for one in pipeline.execute() if one is not None]
        if not in_hand:
            self._redis.blmove(self._queues[0], self._taken, POLL_SECONDS, "RIGHT", "LEFT")
            return
        mapped = write_events(self._context, self._mapping, [parse_envelope(one) for one in in_hand])
        with self._redis.pipeline(transaction=False) as pipeline:
            for one in in_hand:
                pipeline.lrem(self._taken, -1, one)
            pipeline.execute()
        if mapped.problem is not None:
            self._context.report_problem(mapped.problem)

    def waiting(self) -> int:
        """How many messages are not taken yet."""
        with self._redis.pipeline(transaction=False) as pipeline:
            for queue in self._queues:
                pipeline.llen(queue)
            return sum(pipeline.execute())


def parse_envelope(raw: bytes) -> Message:
    """A message from its envelope. Anything else becomes a body without an id, and is rejected as such."""
    try:
        found = json_codec.loads(raw)
        properties = dict(found["properties"])
        delivery = dict(properties.pop("delivery_info", None) or {})
        body = found["body"]
        if properties.get("body_encoding") == "base64":
            body = base64.b64decode(body, validate=True)
        else:
            body = body.encode("utf-8", "surrogatepass")
        headers = dict(found.get("headers") or {})
    except (Invalid, ValueError, TypeError, KeyError, AttributeError):
        return Message(bytes(raw), "not an envelope")
    # kombu gives each message an id of its own.
    id_ = properties.get("message_id") or properties.get("delivery_tag")
    shown = {
        name: value
        for name, value in properties.items()
        if name not in ("body_encoding", "delivery_tag", "delivery_mode") and value is not None
    }
    shown |= {name: delivery[name] for name in ("exchange", "routing_key") if delivery.get(name)}
    return Message(
        body,
        found.get("content-type"),
        found.get("content-encoding"),
        headers,
        shown if id_ is None else shown | {"message_id": id_},
    )

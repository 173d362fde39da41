"""Batches of messages over Redis, on the topic exchange that kombu emulates there.

The exchange is a set of bindings, and a queue is a list. For a batch the bindings are read once, so a new subscriber
gets the events of the next batch, and all messages are pushed in one pipeline. The messages and their keys are kombu's.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import orjson

from functory.engine.events.messages import CONTENT_TYPE, EventMessage

# Commands of one pipeline.
MAX_COMMANDS = 1000


class RedisPublisher:
    """Publishes over one channel of kombu's transport for Redis."""

    def __init__(self, channel: Any, exchange: str) -> None:
        self._channel = channel
        self._exchange = exchange

    def publish(self, messages: Sequence[EventMessage]) -> None:
        """Push messages in order onto the queues that are bound. Raises an error of the driver."""
        queues = self._bound_queues({message.routing_key for message in messages})
        with self._channel.conn_or_acquire() as client, client.pipeline(transaction=False) as pipeline:
            for message in messages:
                if found := queues[message.routing_key]:
                    text = self._encode(message)
                    for queue in found:
                        pipeline.lpush(queue, text)
                    if len(pipeline) >= MAX_COMMANDS:
                        pipeline.execute()
            pipeline.execute()

    def _bound_queues(self, routing_keys: set[str]) -> dict[str, list[str]]:
        """Return the queues that get the messages of each routing key."""
        channel = self._channel
        table = channel.get_table(self._exchange)
        lookup = channel.typeof(self._exchange).lookup
        default = channel.deadletter_queue
        found: dict[str, list[str]] = {}
        for key in routing_keys:
            names = lookup(table, self._exchange, key, default)
            found[key] = sorted(channel._q_for_pri(name, 0) for name in names if name and name != default)
        return found

    def _encode(self, message: EventMessage) -> bytes:
        """Return a message as kombu stores it."""
        channel = self._channel
        prepared = channel.prepare_message(
            message.body,
            content_type=CONTENT_TYPE,
            content_encoding="utf-8",
            headers={},
            properties={"delivery_mode": 2, "message_id": message.id},
        )
        channel._inplace_augment_message(prepared, self._exchange, message.routing_key)
        return orjson.dumps(prepared)

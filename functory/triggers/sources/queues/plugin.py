"""Queues and streams of the brokers that kombu reaches (RabbitMQ, Redis, memory): each message becomes an event.

A message is acknowledged after the transaction that wrote its event. After a kill in between it is delivered again; its
id is then known and nothing is written. A message that cannot become an event is rejected, so that it never blocks the
queue: it goes to the broker's dead letter exchange, if there is one, and an event ``source.rejected`` records it. AMQP
and memory are read through kombu (:mod:`functory.triggers.sources.queues.kombu_consumer`). Redis is read without kombu
(:mod:`functory.triggers.sources.queues.redis_consumer`), because kombu can lose the messages of a killed reader there.
"""

from __future__ import annotations

import contextlib
from typing import ClassVar

from functory.engine.errors import Invalid
from functory.engine.events.event_types import SOURCE_REJECTED
from functory.triggers.sources.plugin import SourceConfig, SourceContext, SourcePlugin
from functory.triggers.sources.queues.config import RECEIVED, QueueConfig
from functory.triggers.sources.queues.kombu_consumer import KombuConsumer
from functory.triggers.sources.queues.message_mapping import MessageMapping
from functory.triggers.sources.queues.redis_consumer import RedisConsumer

SCHEMES = ("amqp", "amqps", "pyamqp", "redis", "rediss", "memory")


class QueueSource(SourcePlugin):
    """A queue or a stream."""

    kind = "queue"
    summary = "messages of a queue or stream on RabbitMQ or Redis"
    types = (RECEIVED, SOURCE_REJECTED, "*")
    Config: ClassVar[type[SourceConfig]] = QueueConfig
    runs = True

    def check(self, config: QueueConfig) -> None:
        MessageMapping(config)

    def check_exchange(self, config: QueueConfig, own_exchange: str) -> None:
        if config.broker == "own" and config.exchange == own_exchange:
            raise Invalid(
                "the queue would receive Functory's own events",
                f"{own_exchange} is the exchange that they are published on, and each would make the next one",
                "use a trigger: it sees them without a queue; or name the exchange of another program",
            )

    def run(self, context: SourceContext) -> None:
        """Read messages until ``context.stop_event`` is set. Raises the errors of the broker."""
        config: QueueConfig = context.config
        url = context.broker if config.url_secret is None else context.secret(config.url_secret)
        if url.split(":", 1)[0] not in SCHEMES:
            raise Invalid(
                "this broker is not supported",
                "the scheme of its URL is unknown",
                f"use {', '.join(SCHEMES)}",
            )
        if url.startswith("redis") and config.stream is not None:
            raise Invalid("Redis has no such streams", "stream is for RabbitMQ", "leave stream out")
        make = RedisConsumer if url.startswith("redis") else KombuConsumer
        with contextlib.closing(make(context, url)) as reader:
            reader.open()
            context.clear_problem()
            while not context.stop_event.is_set():
                reader.consume_batch()
                context.report_progress(reader.waiting)

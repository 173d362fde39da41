"""Queues and streams of any broker that kombu reaches (RabbitMQ, Redis, memory): a message becomes an event.

A message is acknowledged after the transaction that wrote its event, so that whoever is killed in between hears of
it again; by its id it is then known, and nothing is written. What cannot become an event is rejected, so that it
never blocks the line: the broker's dead letter exchange gets it, if there is one, and an event ``source.rejected``
tells of it. AMQP and memory are read through kombu (:mod:`triggers.sources.queues.kombu_consumer`); Redis is not
(:mod:`triggers.sources.queues.redis_consumer`), because there kombu can lose the message in the hands of a
reader that is killed.
"""

from __future__ import annotations

import contextlib
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import Field, field_validator, model_validator

from functory.engine.errors import Invalid
from functory.triggers.sources import plugin
from functory.triggers.sources.plugin import SourceContext, SourcePlugin
from functory.triggers.sources.queues.kombu_consumer import KombuConsumer
from functory.triggers.sources.queues.message_mapping import RECEIVED, REJECTED, MessageMapping
from functory.triggers.sources.queues.redis_consumer import RedisConsumer

SCHEMES = ("amqp", "amqps", "pyamqp", "redis", "rediss", "memory")

Name = Annotated[str, Field(min_length=1, max_length=255)]


class QueueConfig(plugin.SourceConfig):
    """What ``functory source add queue`` takes."""

    url_secret: str | None = Field(
        None, min_length=1, max_length=200, description="name of a stored secret that holds the broker's URL"
    )
    broker: Literal["own"] | None = Field(
        None, description="own: Functory's own broker, instead of url_secret"
    )
    queue: Name = Field(description="the queue or stream to read")
    exchange: Name | None = Field(None, description="declare the queue, and bind it to this exchange")
    exchange_type: Literal["topic", "direct", "fanout", "headers"] = "topic"
    routing_keys: tuple[Name, ...] = Field(("#",), min_length=1, max_length=100)
    declare: bool = Field(False, description="make the queue (durable) if it is not there")
    stream: Literal["first", "next"] | None = Field(
        None,
        description="a RabbitMQ stream, read from its first message or from the next one on; it goes on where it was",
    )
    type: str | None = Field(None, description=f"CEL: type of the event; {RECEIVED} without")
    subject: str | None = Field(None, description="CEL: subject of the event; routing key or queue without")
    data: str | None = Field(
        None, description="CEL: data of the event; queue, headers, body and properties without"
    )
    key: str | None = Field(
        None, description="CEL: what a message is known by; its message_id without; null for nothing"
    )
    prefetch: int = Field(100, ge=1, le=1000, description="messages taken at a time")

    @field_validator("queue", "exchange", "routing_keys", "url_secret")
    @classmethod
    def _text(cls, value: Any) -> Any:
        for one in (value,) if isinstance(value, str) else value or ():
            if not one.isprintable():
                raise ValueError("names are printable text")
        return value

    @model_validator(mode="after")
    def _together(self) -> Self:
        if (self.url_secret is None) == (self.broker is None):
            raise ValueError("give url_secret (the name of a stored secret) or broker = own")
        if self.stream and self.exchange:
            raise ValueError("a stream is read as it is; bind it to its exchange where it is made")
        return self


class QueueSource(SourcePlugin):
    """A queue or a stream."""

    kind = "queue"
    summary = "messages of a queue or stream on RabbitMQ or Redis"
    types = (RECEIVED, REJECTED, "*")
    Config: ClassVar[type[plugin.SourceConfig]] = QueueConfig
    runs = True

    def check(self, config: Any) -> None:
        MessageMapping(config)

    def run(self, context: SourceContext) -> None:
        """Read messages until told to end. Whatever the broker says against it is raised."""
        config = context.config
        url = context.broker if config.broker == "own" else context.secret(config.url_secret)
        if url.split(":", 1)[0] not in SCHEMES:
            raise Invalid(
                "no such broker is read", "the URL begins with another scheme", f"{', '.join(SCHEMES)} can be"
            )
        if url.startswith("redis") and config.stream is not None:
            raise Invalid("Redis has no such streams", "stream is for RabbitMQ", "leave stream out")
        make = RedisConsumer if url.startswith("redis") else KombuConsumer
        with contextlib.closing(make(context, url)) as reader:
            reader.open()
            context.clear_problem()
            while not context.stop_event.is_set():
                reader.consume_batch()

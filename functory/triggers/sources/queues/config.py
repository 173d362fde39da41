"""The configuration of a queue source."""

from __future__ import annotations

from typing import Annotated, Any, Literal, Self

from pydantic import Field, field_validator, model_validator

from functory.triggers.sources.plugin import SourceConfig

# The type of an event whose configuration names none.
RECEIVED = "queue.received"

Name = Annotated[str, Field(min_length=1, max_length=255)]


class QueueConfig(SourceConfig):
    """The configuration of a queue source (``functory source add queue``)."""

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
    type: str | None = Field(None, description=f"CEL: type of the event; {RECEIVED} by default")
    subject: str | None = Field(
        None, description="CEL: subject of the event; routing key or queue by default"
    )
    data: str | None = Field(
        None, description="CEL: data of the event; queue, headers, body and properties by default"
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

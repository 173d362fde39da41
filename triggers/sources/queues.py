"""Queues and streams of any broker that kombu reaches (RabbitMQ, Redis, memory): a message becomes an event.

A message is acknowledged after the transaction that wrote its event, so that whoever is killed in between hears of
it again; by its id it is then known, and nothing is written. What cannot become an event is rejected, so that it
never blocks the line: the broker's dead letter exchange gets it, if there is one, and an event ``source.rejected``
tells of it.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal, Self

from kombu.connection import Connection
from kombu.entity import Exchange
from kombu.entity import Queue as KombuQueue
from kombu.messaging import Consumer
from pydantic import Field, field_validator, model_validator

from engine import broker
from engine.errors import Invalid
from triggers.sources import kind
from triggers.sources.kind import Desk, Kind
from triggers.sources.messages import RECEIVED, REJECTED, Message, Recipe, rejected

SCHEMES = ("amqp", "amqps", "pyamqp", "redis", "rediss", "memory")
# Seconds that a look at an empty queue takes: how soon the source ends when it is told to.
LOOK_SECONDS = 0.5
# Under load a transaction takes what has come within this time.
GATHER_SECONDS = 0.005
HEARTBEAT_SECONDS = 10
# So many deliveries in a row that even the client cannot read mean that something else is wrong.
MOST_UNREADABLE = 100

Name = Annotated[str, Field(min_length=1, max_length=255)]


class Config(kind.Config):
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
    redelivery_seconds: float = Field(
        60.0, ge=1, le=86_400, description="Redis: when messages of a killed reader are delivered again"
    )
    max_bytes: int = Field(
        1_048_576, ge=1024, le=16_777_216, description="largest event; larger ones are rejected"
    )

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


class Queue(Kind):
    """A queue or a stream."""

    kind = "queue"
    summary = "messages of a queue or stream on RabbitMQ or Redis"
    types = (RECEIVED, REJECTED, "*")
    Config: ClassVar[type[kind.Config]] = Config
    runs = True

    def check(self, config: Any) -> None:
        Recipe(config)

    def run(self, desk: Desk) -> None:
        """Read messages until told to end. Whatever the broker says against it is raised."""
        config = desk.config
        url = desk.broker if config.broker == "own" else desk.secret(config.url_secret)
        if url.split(":", 1)[0] not in SCHEMES:
            raise Invalid(
                "no such broker is read", "the URL begins with another scheme", f"{', '.join(SCHEMES)} can be"
            )
        with contextlib.closing(_Reading(desk, url)) as reading:
            reading.open()
            desk.well()
            while not desk.ending.is_set():
                reading.step()


class _Reading:
    """One connection to the broker, and what was delivered through it and is not acknowledged yet."""

    def __init__(self, desk: Desk, url: str) -> None:
        self._desk = desk
        self._config: Config = desk.config
        self._recipe = Recipe(desk.config)
        self._connection = _connect(url, desk)
        self._delivered: list[Any] = []
        self._unreadable = 0
        self._told: str | None = None

    def open(self) -> None:
        """Connect, and begin to consume."""
        config = self._config
        self._connection.ensure_connection(max_retries=1, interval_start=0, timeout=5)
        channel: Any = self._connection.channel()
        channel.Message = _sealed(channel.Message)
        declared = config.declare or config.exchange is not None
        exchange = (
            Exchange(config.exchange, type=config.exchange_type, durable=True) if config.exchange else None
        )
        arguments: dict[str, Any] = {}
        if config.stream is not None:
            cursor = self._desk.cursor
            arguments["x-stream-offset"] = config.stream if cursor is None else int(cursor) + 1
        queues = [
            KombuQueue(
                config.queue,
                exchange=exchange,
                routing_key=routing_key,
                durable=True,
                queue_arguments={"x-queue-type": "stream"} if config.stream else None,
                consumer_arguments=arguments or None,
            )
            for routing_key in (config.routing_keys if exchange else (config.queue,))
        ]
        if declared:
            for one in queues:
                one(channel).declare()
        consumer = Consumer(
            channel, queues[:1], on_message=self._delivered.append, auto_declare=False, accept=["json"]
        )
        consumer.qos(prefetch_count=config.prefetch, apply_global=False)
        consumer.consume()

    def close(self) -> None:
        """Let go of the broker; what is not acknowledged is delivered again."""
        with contextlib.suppress(Exception):
            self._connection.release()

    def step(self) -> None:
        """Wait for messages, write their events, acknowledge them."""
        if self._drain(LOOK_SECONDS):
            while len(self._delivered) < self._config.prefetch and self._drain(GATHER_SECONDS):
                pass
        if self._connection.supports_heartbeats:
            self._connection.heartbeat_check()
        if self._delivered:
            self._take()

    def _drain(self, seconds: float) -> bool:
        """Whether something came within that time."""
        try:
            self._connection.drain_events(timeout=seconds)
        except TimeoutError:
            return False
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            # What the client itself could not read is gone from the queue (Redis: somebody put it there by hand).
            self._unreadable += 1
            if self._unreadable > MOST_UNREADABLE:
                raise
            why = f"the client cannot read it: {type(error).__name__}"
            self._desk.put([rejected(self._config.queue, Message(b""), why)])
            self._tell(why)
        else:
            self._unreadable = 0
        return True

    def _take(self) -> None:
        delivered, good, arrivals = list(self._delivered), [], []
        problem = None
        for one in delivered:
            message = _message(one, self._config.stream is not None)
            try:
                if one.delivery_info.get("exchange") == self._desk.exchange:
                    raise Invalid("it is one of Functory's own events", "a trigger sees them without a queue")
                arrivals.append(self._recipe.arrival(message, self._config.max_bytes))
                good.append(True)
            except Invalid as error:
                why = ": ".join(part for part in (error.what, error.why) if part)
                problem = ": ".join(part for part in (why, error.try_) if part)
                arrivals.append(rejected(self._config.queue, message, why))
                good.append(False)
        if self._config.stream is None:
            self._desk.put(arrivals)
        else:
            self._desk.put(arrivals, cursor=_message(delivered[-1], True).number)
        # In place: the consumer appends to this list.
        del self._delivered[: len(delivered)]
        for one, taken in zip(delivered, good, strict=True):
            # A stream keeps its messages; an acknowledgement only asks for the next.
            if taken or self._config.stream is not None:
                one.ack()
            else:
                one.reject()
        if problem is not None:
            self._tell(problem)

    def _tell(self, problem: str) -> None:
        self._desk.troubled(f"the last message that was rejected: {problem}")


def _connect(url: str, desk: Desk) -> Connection:
    options = broker.transport_options(url)
    if url.startswith("redis"):
        # Names of its own: another reader's messages must not be restored by our patience, nor ours by another's.
        place = f"functory_source_{desk.name}"
        options |= {
            "visibility_timeout": desk.config.redelivery_seconds,
            "unacked_key": f"{place}_unacked",
            "unacked_index_key": f"{place}_unacked_index",
            "unacked_mutex_key": f"{place}_unacked_mutex",
            "unacked_mutex_expire": 30,
            "unacked_restore_throttle": 2,
        }
    more: dict[str, Any] = (
        {} if url.startswith(("redis", "memory")) else {"connect_timeout": 5, "heartbeat": HEARTBEAT_SECONDS}
    )
    return Connection(url, transport_options=options, **more)


def _sealed(message_class: type[Any]) -> type[Any]:
    """The transport's class of messages, but one that does not unpack a compressed body when it is made."""

    class Sealed(message_class):
        def __init__(self, given: Any, channel: Any = None, **more: Any) -> None:
            headers = (given.get("headers") if isinstance(given, Mapping) else given.headers) or {}
            packed = headers.pop("compression", None)
            super().__init__(given, channel=channel, **more)
            if packed is not None:
                self.headers["compression"] = packed

    return Sealed


def _message(delivery: Any, stream: bool) -> Message:
    body = delivery.body
    properties = {
        name: value
        for name, value in {
            **delivery.properties,
            "routing_key": delivery.delivery_info.get("routing_key"),
            "exchange": delivery.delivery_info.get("exchange"),
            "content_type": delivery.content_type,
        }.items()
        if value is not None
        and name not in ("application_headers", "delivery_info", "body_encoding", "delivery_tag")
    }
    # Where the client itself makes the queue (Redis, memory), it has given each message an id.
    own = delivery.properties.get("delivery_tag")
    if isinstance(own, str):
        properties.setdefault("message_id", own)
    headers = {str(name): value for name, value in dict(delivery.headers or {}).items()}
    return Message(
        body.encode("utf-8", "surrogatepass") if isinstance(body, str) else bytes(body or b""),
        delivery.content_type,
        delivery.content_encoding,
        headers,
        properties,
        int(headers["x-stream-offset"]) if stream and "x-stream-offset" in headers else None,
    )

"""Reads queues and streams through kombu: a message is acknowledged once its event is committed."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from typing import Any

from kombu.connection import Connection
from kombu.entity import Exchange
from kombu.entity import Queue as KombuQueue
from kombu.messaging import Consumer

from functory.engine.events import exchange as event_exchange
from functory.engine.events import memory_transport
from functory.engine.sources.store import KEEP_CURSOR
from functory.triggers.sources.plugin import SourceContext
from functory.triggers.sources.queues.config import QueueConfig
from functory.triggers.sources.queues.ingest import write_events
from functory.triggers.sources.queues.message import Message
from functory.triggers.sources.queues.message_mapping import MessageMapping

# Seconds to wait at an empty queue: how soon the source stops when requested.
POLL_SECONDS = 0.5
# Under load a transaction takes the messages that arrive within this time.
GATHER_SECONDS = 0.005
HEARTBEAT_SECONDS = 10


class KombuConsumer:
    """One connection to the broker, and the delivered messages that are not acknowledged yet."""

    def __init__(self, context: SourceContext, url: str) -> None:
        self._context = context
        self._config: QueueConfig = context.config
        self._mapping = MessageMapping(context.config)
        self._connection = connect(url)
        self._delivered: list[Any] = []
        self._channel: Any = None

    def open(self) -> None:
        """Connect and start to consume."""
        config = self._config
        self._connection.ensure_connection(max_retries=1, interval_start=0, timeout=5)
        channel: Any = self._connection.channel()
        self._channel = channel
        channel.Message = _without_decompression(channel.Message)
        # kombu's broker in memory drops what was not acknowledged; others put it back, whatever this says.
        channel.do_restore = True
        arguments: dict[str, Any] = {}
        if config.stream is not None:
            cursor = self._context.cursor
            arguments["x-stream-offset"] = config.stream if cursor is None else int(cursor) + 1
        queue = declare(channel, config, arguments)[0]
        consumer = Consumer(
            channel, [queue], on_message=self._delivered.append, auto_declare=False, accept=["json"]
        )
        consumer.qos(prefetch_count=config.prefetch, apply_global=False)
        consumer.consume()

    def close(self) -> None:
        """Disconnect; the broker delivers unacknowledged messages again."""
        with contextlib.suppress(Exception):
            self._connection.release()

    def consume_batch(self) -> None:
        """Wait for messages, write their events, acknowledge them."""
        if self._drain(POLL_SECONDS):
            while len(self._delivered) < self._config.prefetch and self._drain(GATHER_SECONDS):
                pass
        if self._connection.supports_heartbeats:
            self._connection.heartbeat_check()
        if self._delivered:
            self._take()

    def waiting(self) -> int | None:
        """How many messages the broker has not delivered yet; None for a stream, which keeps those that were read."""
        if self._config.stream is not None:
            return None
        return int(self._channel.queue_declare(self._config.queue, passive=True).message_count)

    def _drain(self, seconds: float) -> bool:
        """True if a message came within that time."""
        try:
            self._connection.drain_events(timeout=seconds)
        except TimeoutError:
            return False
        return True

    def _take(self) -> None:
        stream = self._config.stream is not None
        delivered = list(self._delivered)
        messages = [_message(one, stream) for one in delivered]
        cursor = messages[-1].offset if stream else KEEP_CURSOR
        mapped = write_events(self._context, self._mapping, messages, cursor=cursor)
        # In place: the consumer appends to this list.
        del self._delivered[: len(delivered)]
        for one, taken in zip(delivered, mapped.accepted, strict=True):
            # A stream keeps its messages; an acknowledgement only asks for the next.
            if taken or stream:
                one.ack()
            else:
                one.reject()
        if mapped.problem is not None:
            self._context.report_problem(mapped.problem)


def connect(url: str) -> Connection:
    """A connection that detects a broker that no longer answers."""
    more: dict[str, Any] = {}
    if url.startswith("memory"):
        more["transport"] = memory_transport.TRANSPORT
    elif not url.startswith("redis"):
        more |= {"connect_timeout": 5, "heartbeat": HEARTBEAT_SECONDS}
    return Connection(url, transport_options=event_exchange.transport_options(url), **more)


def declare(
    channel: Any, config: QueueConfig, arguments: Mapping[str, Any] | None = None
) -> list[KombuQueue]:
    """The queue, once for each binding; declared if the configuration requires it. ``arguments`` are a consumer's."""
    exchange = Exchange(config.exchange, type=config.exchange_type, durable=True) if config.exchange else None
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
    if config.declare or exchange is not None:
        for one in queues:
            one(channel).declare()
    return queues


def _without_decompression(message_class: type[Any]) -> type[Any]:
    """A subclass of the transport's message class that does not decompress the body."""

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
    # The in-memory transport gives each message an id of its own.
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

"""Batches of messages over AMQP 0-9-1 (RabbitMQ): few writes to the socket, and one wait for all confirms.

kombu and py-amqp open the connection and read the answers. What they cost for each message is left out: the frames of a
message differ in its routing key, its id and its body, so all other bytes are computed once, and the frames of many
messages are written together.

- Frames: AMQP 0-9-1 specification, section 2.3.5 (https://www.rabbitmq.com/resources/specs/amqp0-9-1.pdf).
- A broker that is short of memory or disk blocks publishers: https://www.rabbitmq.com/docs/connection-blocked.
"""

from __future__ import annotations

import contextlib
import struct
from collections.abc import Sequence
from typing import Any

import amqp

from functory.engine.events.messages import CONTENT_TYPE, EventMessage
from functory.engine.events.publisher_confirms import PublisherConfirms

# About the bytes of one write to the socket.
WRITE_BYTES = 1 << 18
# Routing keys whose frames are remembered.
MAX_KEYS = 1000

_METHOD, _HEADER, _BODY, _END = 1, 2, 3, b"\xce"
_BASIC, _PUBLISH = 60, 40
_FRAME = struct.Struct(">BHI")
_PUBLISH_METHOD = struct.Struct(">HHH")
_CONTENT = struct.Struct(">HHQ")
# A frame's type, channel, size and end.
_FRAME_OVERHEAD = _FRAME.size + 1
_ANY_ID = "00000000-0000-7000-8000-000000000000"


class AmqpPublisher:
    """Publishes over one channel of an open connection."""

    def __init__(self, channel: Any, exchange: str, answer_seconds: float) -> None:
        """``answer_seconds`` is the longest wait for the next confirm."""
        self._connection = channel.connection
        self._number = channel.channel_id
        self._exchange = exchange.encode()
        self._body_bytes = self._connection.frame_max - _FRAME_OVERHEAD
        self._methods: dict[str, bytes] = {}
        self._before_id, self._after_id = _properties()
        self._blocked = False
        self._connection.on_blocked = self._on_blocked
        self._connection.on_unblocked = self._on_unblocked
        self._confirms = PublisherConfirms(channel, answer_seconds)

    def is_connected(self) -> bool:
        """Read what the broker has sent since the last batch: that it blocks publishers, or that it has closed the
        connection. Returns False when it is closed.
        """
        try:
            with contextlib.suppress(TimeoutError):
                while True:
                    self._connection.drain_events(timeout=0)
        except (OSError, amqp.AMQPError):
            return False
        return True

    def publish(self, messages: Sequence[EventMessage]) -> None:
        """Publish messages in order, and return when the broker has confirmed all of them.

        Raises an error of the driver, or :class:`ConnectionError`; then some may have been published.
        """
        if self._blocked:
            raise ConnectionError("the broker takes no messages: it is short of memory or disk")
        waiting: list[bytes] = []
        size = 0
        for message in messages:
            size += self._add_frames(waiting, message)
            if size >= WRITE_BYTES:
                self._write(waiting)
                waiting, size = [], 0
        self._write(waiting)
        self._confirms.add(len(messages))
        self._confirms.wait()

    def _add_frames(self, frames: list[bytes], message: EventMessage) -> int:
        """Append the frames of a message. Returns their size."""
        method = self._methods.get(message.routing_key) or self._method(message.routing_key)
        header = b"".join(
            (
                _CONTENT.pack(_BASIC, 0, len(message.body)),
                self._before_id,
                message.id.encode(),
                self._after_id,
            )
        )
        frames += (method, _FRAME.pack(_HEADER, self._number, len(header)), header, _END)
        for at in range(0, len(message.body), self._body_bytes):
            part = message.body[at : at + self._body_bytes]
            frames += (_FRAME.pack(_BODY, self._number, len(part)), part, _END)
        return len(method) + len(header) + len(message.body) + 3 * _FRAME_OVERHEAD

    def _method(self, routing_key: str) -> bytes:
        key = routing_key.encode()
        arguments = b"".join(
            (
                _PUBLISH_METHOD.pack(_BASIC, _PUBLISH, 0),
                bytes((len(self._exchange),)),
                self._exchange,
                bytes((len(key),)),
                key,
                # Neither mandatory nor immediate.
                b"\0",
            )
        )
        frame = _FRAME.pack(_METHOD, self._number, len(arguments)) + arguments + _END
        if len(self._methods) >= MAX_KEYS:
            self._methods.clear()
        self._methods[routing_key] = frame
        return frame

    def _write(self, frames: Sequence[bytes]) -> None:
        if frames:
            self._connection.transport.write(b"".join(frames))

    def _on_blocked(self, _reason: str) -> None:
        self._blocked = True

    def _on_unblocked(self) -> None:
        self._blocked = False


def _properties() -> tuple[bytes, bytes]:
    """Return the properties of every message, before and after its id."""
    message = amqp.Message(
        "",
        content_type=CONTENT_TYPE,
        content_encoding="utf-8",
        application_headers={},
        delivery_mode=2,
        priority=0,
        message_id=_ANY_ID,
    )
    before, after = message._serialize_properties().split(_ANY_ID.encode())
    return before, after

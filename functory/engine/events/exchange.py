"""The event exchange: publishes committed events on a kombu topic exchange, with the event type as the routing key.

Anyone may bind a queue of their own to the exchange (``<namespace>.events``). The message is the
CloudEvents 1.0 structured JSON envelope. The publisher sends it after the commit. The writer of an event
never does, so an absent broker delays messages and blocks no writer.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any, Protocol

from amqp.exceptions import AccessRefused, NotAllowed
from kombu.connection import Connection
from kombu.entity import Exchange
from kombu.messaging import Producer

from functory.engine.errors import Unavailable
from functory.engine.events import memory_transport
from functory.engine.events.amqp_publisher import AmqpPublisher
from functory.engine.events.event_row import EventRow
from functory.engine.events.messages import CONTENT_TYPE, EventMessage, message_of
from functory.engine.events.redis_publisher import RedisPublisher
from functory.engine.settings import Settings
from functory.engine.telemetry import traces

# A publisher waits this long (seconds) for a connection, and for each answer. Then its messages wait in the database.
PUBLISH_SECONDS = 5
# A consumer waits this long (seconds) for an answer.
CONSUME_SECONDS = 30


def transport_options(url: str, answer_seconds: int = CONSUME_SECONDS) -> dict[str, Any]:
    """Return kombu's options for the transport of ``url`` (``docs/reference/settings.md`` gives the reasons).

    ``answer_seconds`` is the longest wait for an answer of the broker.
    """
    if url.startswith("memory"):
        return {}
    if url.startswith("redis"):
        return {
            "visibility_timeout": 3600,
            "socket_timeout": answer_seconds,
            "socket_connect_timeout": PUBLISH_SECONDS,
            # A consumer whose connection was replaced waits for an answer that never comes. kombu restarts it after one
            # second plus twice this interval.
            "health_check_interval": 5,
        }
    # Without confirms a crash of the broker loses messages that were reported as sent.
    return {"confirm_publish": True, "read_timeout": answer_seconds, "write_timeout": answer_seconds}


def connect(url: str, *, confirm_each: bool = True) -> Connection:
    """Return a kombu connection of a publisher; it connects on first use.

    Without ``confirm_each`` the caller waits for the confirms of RabbitMQ itself.
    """
    options: dict[str, Any] = (
        {} if url.startswith(("memory", "redis")) else {"connect_timeout": PUBLISH_SECONDS, "heartbeat": 0}
    )
    transport = transport_options(url, PUBLISH_SECONDS)
    if not confirm_each:
        transport.pop("confirm_publish", None)
    if url.startswith("memory"):
        options["transport"] = memory_transport.TRANSPORT
    return Connection(url, transport_options=transport, **options)


def broker_unavailable(error: BaseException, what: str = "the broker cannot be used") -> Unavailable:
    """Return the error for a failure of the broker's driver."""
    reason = f"{type(error).__name__}: {error}".split("\n")[0][:300]
    return Unavailable(what, reason, _hint(error, str(error)))


# What brokers answer, and what helps. Their texts are in English only; RabbitMQ's codes are those of AMQP 0-9-1, 1.2.
_REDIS_HINTS = {
    "Authentication required": "write user and password into FUNCTORY_BROKER_URL: redis://USER:PASSWORD@HOST:PORT/0",
    "invalid username-password": "correct user and password in FUNCTORY_BROKER_URL",
    "DB index is out of range": "name a smaller number at the end of FUNCTORY_BROKER_URL, as /0, "
    "or raise databases in redis.conf",
    "protected mode": "give Redis a password (requirepass) and write it into FUNCTORY_BROKER_URL",
    "read only replica": "name its primary in FUNCTORY_BROKER_URL, or: REPLICAOF NO ONE",
    "has no permissions": "give the user of FUNCTORY_BROKER_URL all commands and keys: ACL SETUSER USER +@all ~* &*",
    "maxmemory": "raise maxmemory of Redis, or take other data out of it",
}


def _hint(error: BaseException, text: str) -> str:
    if isinstance(error, NotAllowed):
        return "make the virtual host (rabbitmqctl add_vhost NAME), or correct the end of FUNCTORY_BROKER_URL"
    if isinstance(error, AccessRefused) and "Login was refused" in text:
        return "correct user and password in FUNCTORY_BROKER_URL; guest may connect from the server's machine only"
    if isinstance(error, AccessRefused):
        return 'rabbitmqctl set_permissions -p VHOST USER ".*" ".*" ".*"'
    return next(
        (hint for words, hint in _REDIS_HINTS.items() if words in text),
        "check that it runs and FUNCTORY_BROKER_URL is right",
    )


def topic_exchange(namespace: str) -> Exchange:
    """Return the durable topic exchange that all events go onto."""
    return Exchange(f"{namespace}.events", type="topic", durable=True)


class EventPublisher:
    """Publishes envelopes over one connection, which it opens again after a failure. Safe to use from many threads."""

    def __init__(self, settings: Settings) -> None:
        self._url = settings.broker
        self._exchange = topic_exchange(settings.namespace)
        self._connection: Connection | None = None
        self._publisher: MessagePublisher | None = None
        self._lock = threading.Lock()

    def publish(self, rows: Sequence[EventRow]) -> list[int]:
        """Send events in order, and wait until the broker has confirmed them. Returns the bytes of each message.

        Raises :class:`Unavailable`; then some may have been sent.
        """
        if (recorder := traces.recorder) is not None:
            recorder.learn_roots(row.root_id for row in rows)
        messages = [message_of(row) for row in rows]
        with self._lock:
            try:
                self._open().publish(messages)
            except Exception as error:
                self._close()
                raise broker_unavailable(error) from error
        return [len(message.body) for message in messages]

    def close(self) -> None:
        """Close the connection."""
        with self._lock:
            self._close()

    def _open(self) -> MessagePublisher:
        """Return the publisher of an open connection."""
        if isinstance(self._publisher, AmqpPublisher) and not self._publisher.is_connected():
            self._close()
        if self._publisher is None:
            self._connection = connect(self._url)
            channel: Any = self._connection.channel()
            self._exchange(channel).declare()
            self._publisher = _publisher_of(channel, self._exchange, self._connection.transport.driver_type)
        return self._publisher

    def _close(self) -> None:
        connection, self._connection, self._publisher = self._connection, None, None
        if connection is not None:
            try:
                connection.release()
            except Exception:  # noqa: S110  (the connection is broken and is dropped)
                pass


class MessagePublisher(Protocol):
    """What sends messages over an open connection."""

    def publish(self, messages: Sequence[EventMessage]) -> None:
        """Send messages in order, and return when the broker has them. Raises an error of the driver."""
        ...


class _KombuPublisher:
    """Publishes over any transport of kombu, one message after the other."""

    def __init__(self, channel: Any, exchange: Exchange) -> None:
        self._producer = Producer(channel, exchange=exchange, auto_declare=False)

    def publish(self, messages: Sequence[EventMessage]) -> None:
        """See :class:`MessagePublisher`."""
        for message in messages:
            self._producer.publish(
                message.body,
                routing_key=message.routing_key,
                content_type=CONTENT_TYPE,
                content_encoding="utf-8",
                delivery_mode=2,
                message_id=message.id,
                retry=False,
            )


def _publisher_of(channel: Any, exchange: Exchange, driver: str) -> MessagePublisher:
    if driver == "amqp":
        return AmqpPublisher(channel, exchange.name, PUBLISH_SECONDS)
    if driver == "redis":
        return RedisPublisher(channel, exchange.name)
    return _KombuPublisher(channel, exchange)


def ping(settings: Settings) -> None:
    """Connect to the broker once; do nothing in a deployment without one. Raises :class:`Unavailable`."""
    if settings.embedded or settings.brokerless:
        return
    connection = connect(settings.broker)
    try:
        connection.ensure_connection(max_retries=1, interval_start=0, timeout=3)
    except Exception as error:
        raise broker_unavailable(error, "the broker cannot be reached") from error
    finally:
        connection.release()

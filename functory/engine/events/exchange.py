"""The event exchange: publishes committed events on a kombu topic exchange, with the event type as the routing key.

Anyone may bind a queue of their own to the exchange (``<namespace>.events``). The message is the
CloudEvents 1.0 structured JSON envelope. The publisher sends it after the commit. The writer of an event
never does, so an absent broker delays messages and blocks no writer.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from typing import Any

from kombu.connection import Connection
from kombu.entity import Exchange
from kombu.messaging import Producer

from functory.engine.errors import Unavailable
from functory.engine.events import store as event_store
from functory.engine.serialization import json_codec
from functory.engine.settings import Settings

CONTENT_TYPE = "application/cloudevents+json"


# A publisher waits this long (seconds) for a connection, and for each answer. Then its messages wait in the database.
PUBLISH_SECONDS = 5
# A consumer waits this long (seconds) for an answer.
CONSUME_SECONDS = 30


def transport_options(url: str, answer_seconds: int = CONSUME_SECONDS) -> dict[str, Any]:
    """Return kombu's options for the transport of ``url`` (``docs/reference/settings.md`` gives the reasons).

    ``answer_seconds`` is the longest wait for an answer of the broker.
    """
    if url.startswith("memory"):
        # With the default of one second, each message could wait that long in an embedded engine.
        return {"polling_interval": 0.005}
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


def connect(url: str) -> Connection:
    """Return a kombu connection of a publisher; it connects on first use."""
    options: dict[str, Any] = (
        {} if url.startswith(("memory", "redis")) else {"connect_timeout": PUBLISH_SECONDS, "heartbeat": 0}
    )
    return Connection(url, transport_options=transport_options(url, PUBLISH_SECONDS), **options)


def broker_unavailable(error: BaseException, what: str = "the broker cannot be used") -> Unavailable:
    """Return the error for a failure of the broker's driver."""
    reason = f"{type(error).__name__}: {error}".split("\n")[0][:300]
    return Unavailable(what, reason, "check that it runs and FUNCTORY_BROKER_URL is right")


def topic_exchange(namespace: str) -> Exchange:
    """Return the durable topic exchange that all events go onto."""
    return Exchange(f"{namespace}.events", type="topic", durable=True)


class EventPublisher:
    """Publishes envelopes over one connection, which it opens again after a failure. Not shared between threads."""

    def __init__(self, settings: Settings) -> None:
        self._url = settings.broker
        self._exchange = topic_exchange(settings.namespace)
        self._connection: Connection | None = None
        self._producer: Producer | None = None
        self._lock = threading.Lock()

    def publish(self, rows: Sequence[Mapping[str, Any]]) -> None:
        """Send events in order. Raises :class:`Unavailable`; then some may have been sent."""
        with self._lock:
            try:
                producer = self._open()
                for row in rows:
                    producer.publish(
                        json_codec.encode(event_store.envelope(row)),
                        routing_key=row["type"],
                        content_type=CONTENT_TYPE,
                        content_encoding="utf-8",
                        delivery_mode=2,
                        message_id=row["id"],
                        retry=False,
                    )
            except Exception as error:
                self._close()
                raise broker_unavailable(error) from error

    def close(self) -> None:
        """Close the connection."""
        with self._lock:
            self._close()

    def _open(self) -> Producer:
        if self._producer is None:
            self._connection = connect(self._url)
            channel = self._connection.channel()
            self._producer = Producer(channel, exchange=self._exchange, auto_declare=True)
        return self._producer

    def _close(self) -> None:
        connection, self._connection, self._producer = self._connection, None, None
        if connection is not None:
            try:
                connection.release()
            except Exception:  # noqa: S110  (the connection is broken and is dropped)
                pass


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

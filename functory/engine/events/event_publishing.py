"""What publishes events: a connection to the broker, and how a process uses it for what its transactions write.

A process with a thread for it has a :class:`functory.engine.events.batch_publisher.BatchPublisher`.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Protocol

from functory.engine.database.connection import Tx
from functory.engine.events import outbox
from functory.engine.events.event_row import EventRow
from functory.engine.settings import Settings
from functory.engine.telemetry import metrics


class PublishesEvents(Protocol):
    """How a process publishes the events that its transactions write or route."""

    def put(self, tx: Tx, rows: Sequence[EventRow]) -> None:
        """Let these events be published, in order, when the transaction has committed."""
        ...


class OutboxOnly:
    """Leaves all events to the outbox publisher."""

    def put(self, tx: Tx, rows: Sequence[EventRow]) -> None:
        """See :class:`PublishesEvents`."""
        outbox.put(tx, [row.id for row in rows])


class NotPublished:
    """Publishes nothing: there is no broker that a subscriber could reach."""

    def put(self, tx: Tx, rows: Sequence[EventRow]) -> None:
        """Do nothing."""


def without_thread(settings: Settings) -> PublishesEvents:
    """Return how a process without a batch publisher publishes."""
    return OutboxOnly() if settings.publishes else NotPublished()


class Publisher(Protocol):
    """What sends events to the broker; see :class:`functory.engine.events.exchange.EventPublisher`."""

    def publish(self, rows: Sequence[EventRow]) -> Sequence[int]:
        """Send events in order, and wait until the broker has confirmed them. Returns the sizes of the messages."""
        ...

    def close(self) -> None:
        """Close the connection."""
        ...


def publish(publisher: Publisher, rows: Sequence[EventRow]) -> None:
    """Publish events and count them. Raises ``Unavailable``."""
    start = time.perf_counter()
    try:
        sizes = publisher.publish(rows)
    except Exception:
        metrics.outbox_publish.labels("error").observe(time.perf_counter() - start)
        raise
    metrics.outbox_publish.labels("ok").observe(time.perf_counter() - start)
    for row in rows:
        metrics.events_published.labels(metrics.type_label(row.type)).inc()
    for size in sizes:
        metrics.event_size.observe(size)

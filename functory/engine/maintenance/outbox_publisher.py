"""The outbox publisher: publishes committed events on the exchange, or drops them where there is no broker."""

from __future__ import annotations

import time

from functory.engine.database.connection import Database
from functory.engine.events.exchange import EventPublisher
from functory.engine.events.outbox import drop_outbox, publish_outbox
from functory.engine.events.store import envelope
from functory.engine.serialization.json_codec import encode
from functory.engine.service import Service
from functory.engine.settings import Settings
from functory.engine.telemetry import metrics

# Events that are published in one transaction.
PUBLISH_BATCH = 200

# Under load subscribers receive events this much later, and the publisher needs a tenth of the transactions.
PUBLISH_COALESCE_SECONDS = 0.03

# Without a broker: events that are dropped in one transaction, and the pause between two of them.
DROP_BATCH = 1000
DROP_SECONDS = 2.0


class OutboxPublisher(Service):
    """Publishes committed events to the exchange."""

    name, topic, coalesce_seconds = "publisher", "outbox", PUBLISH_COALESCE_SECONDS

    def __init__(self, database: Database, settings: Settings) -> None:
        self.poll_seconds = settings.poll_seconds
        self._database = database
        self._claim_seconds = settings.lease_seconds
        self._exchange = EventPublisher(settings)

    def run_once(self) -> bool:
        """Publish one batch. True when it was full. Raises :class:`Unavailable` without a database or broker."""
        start = time.perf_counter()
        try:
            rows = publish_outbox(
                self._database, self._exchange, PUBLISH_BATCH, claim_seconds=self._claim_seconds
            )
        except Exception:
            metrics.outbox_publish.labels("error").observe(time.perf_counter() - start)
            raise
        if rows:
            metrics.outbox_publish.labels("ok").observe(time.perf_counter() - start)
        for row in rows:
            metrics.events_published.labels(metrics.type_label(row["type"])).inc()
            metrics.event_size.observe(len(encode(envelope(row))))
        return len(rows) >= PUBLISH_BATCH

    def close(self) -> None:
        """Close the connection to the broker."""
        self._exchange.close()


class OutboxCleaner(Service):
    """Drops events from the outbox of a deployment without a broker: it has no subscribers."""

    name, topic = "outbox_cleaner", "outbox"
    poll_seconds, coalesce_seconds = DROP_SECONDS, DROP_SECONDS / 10

    def __init__(self, database: Database, settings: Settings) -> None:
        self._database = database

    def run_once(self) -> bool:
        """Drop one batch. True when it was full. Raises :class:`Unavailable`."""
        return drop_outbox(self._database, DROP_BATCH) >= DROP_BATCH

"""The outbox publisher: publishes what the outbox has on the exchange, or drops it where there is no broker.

Most events are published by the process that has put them into the outbox
(:mod:`functory.engine.events.batch_publisher`). This service publishes the others: events without a router, and those
of a process that died or could not reach the broker.

One process of a deployment does so at a time, as long as something waits. Two of them would take the batches of one
worker in turn, and subscribers could get the end of an execution before its start.
"""

from __future__ import annotations

import contextlib

from functory.engine.database.connection import Database
from functory.engine.errors import Unavailable
from functory.engine.events import outbox
from functory.engine.events.batch_publisher import BatchPublisher
from functory.engine.events.event_publishing import publish
from functory.engine.events.exchange import EventPublisher
from functory.engine.maintenance.leader_lease import LeaderLease
from functory.engine.service import Service
from functory.engine.settings import Settings

# Under load subscribers receive events this much later, and the publisher needs a tenth of the transactions.
PUBLISH_COALESCE_SECONDS = 0.03

LEASE = "leader: outbox"

# Without a broker: batches that are dropped in one transaction, and the pause between two of them.
DROP_BATCH = 1000
DROP_SECONDS = 2.0


class OutboxPublisher(Service):
    """Publishes what the outbox has to the exchange, the oldest batches first.

    ``batches`` publishes what this process puts into the outbox, from its memory.
    """

    name, topic, coalesce_seconds = "publisher", "outbox", PUBLISH_COALESCE_SECONDS

    def __init__(self, database: Database, settings: Settings) -> None:
        self.poll_seconds = settings.poll_seconds
        self._database = database
        self._claim_seconds = settings.lease_seconds
        self._exchange = EventPublisher(settings)
        self.batches = BatchPublisher(database, EventPublisher(settings), settings.lease_seconds)
        self._lease = LeaderLease(database, LEASE, settings.lease_seconds, monotonic=database.clock.monotonic)

    def run_once(self) -> bool:
        """Publish one batch of at most :data:`functory.engine.events.outbox.MAX_BATCH` events. True when there was one.

        No transaction is open while the broker is asked. When it fails, the batch is free again at once; after a crash,
        when its claim ends. What was sent before is then sent again: subscribers recognise duplicates by the
        CloudEvents ``id``. While another process publishes what waits, nothing is done. Raises :class:`Unavailable`
        without a database or broker.
        """
        with self._database.read() as tx:
            # Most rounds find nothing, and must not take the one writer of SQLite.
            waits = outbox.has_unclaimed(tx)
        if not waits:
            self._lease.release()
            return False
        if not (self._lease.is_fresh or self._lease.hold()):
            return False
        with self.batches.sweeping():
            with self._database.write() as tx:
                ids, rows = outbox.claim_unpublished(tx, outbox.MAX_BATCH, self._claim_seconds)
            if not ids:
                return False
            try:
                publish(self._exchange, rows)
            except Exception:
                with contextlib.suppress(Unavailable), self._database.write() as tx:
                    outbox.claim(tx, ids, None)
                # Another process may reach the broker.
                self._lease.release()
                raise
            with self._database.write() as tx:
                outbox.mark_published(tx, ids)
        return True

    def close(self) -> None:
        """Close the connections to the broker, and let another process publish what waits."""
        self.batches.close()
        self._lease.release()
        self._exchange.close()


class OutboxCleaner(Service):
    """Drops the outbox of a deployment without a broker: it has no subscribers."""

    name, topic = "outbox_cleaner", "outbox"
    poll_seconds, coalesce_seconds = DROP_SECONDS, DROP_SECONDS / 10

    def __init__(self, database: Database, settings: Settings) -> None:
        self._database = database

    def run_once(self) -> bool:
        """Drop one batch. True when it was full. Raises :class:`Unavailable`."""
        return outbox.drop_outbox(self._database, DROP_BATCH) >= DROP_BATCH

"""Receipt expiry: a service that deletes receipts and schedule ticks older than ``receipt_days``."""

from __future__ import annotations

from datetime import timedelta

from functory.engine.database.connection import Database
from functory.engine.events import receipts
from functory.engine.service import Service
from functory.engine.settings import Settings


class ReceiptExpiry(Service):
    """Deletes expired receipts in small transactions."""

    name, topic, poll_seconds = "receipt_expiry", None, 60.0

    def __init__(self, database: Database, settings: Settings) -> None:
        self._database = database
        self._older_than = timedelta(days=settings.receipt_days)

    def run_once(self) -> bool:
        """Delete one batch of each table. True when a batch was full. Raises :class:`Unavailable`."""
        deleted = receipts.delete_expired(self._database, self._older_than)
        return any(count >= receipts.BATCH for count in deleted.values())

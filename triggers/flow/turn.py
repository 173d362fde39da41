"""The turn of flow control: decides about what waits, once time has passed or a slot is free."""

from __future__ import annotations

from engine.database import Database
from engine.settings import Settings


class Turn:
    """Looks at due buckets, cancellations and lanes. Any number of processes may take turns: rows are locked."""

    def __init__(self, database: Database, settings: Settings) -> None:
        self._database = database
        self._settings = settings

    def take(self) -> bool:
        """One round. True when there may be more at once. Raises :class:`Unavailable`."""
        return False

    def due_in(self) -> float | None:
        """Seconds until something is due; None when only an event or an ending can change anything."""
        return None

"""The turn of flow control: decides about what waits, once time has passed or a slot is free."""

from __future__ import annotations

from engine.database import Database
from engine.settings import Settings
from triggers.flow.lines import Lines
from triggers.trigger_set import TriggerSet


class Turn:
    """Looks at due buckets, cancellations and lanes. Any number of processes may take turns: rows are locked."""

    def __init__(self, database: Database, settings: Settings) -> None:
        self._lines = Lines(database, settings, TriggerSet())

    def take(self) -> bool:
        """One round. True when there may be more at once. Raises :class:`Unavailable`."""
        return self._lines.take()

    def due_in(self) -> float | None:
        """Seconds until something is due; None when only an event or an ending can change anything."""
        return self._lines.due_in()

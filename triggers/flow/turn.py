"""The turn of flow control: decides about what waits, once time has passed or a slot is free."""

from __future__ import annotations

from engine.database import Database
from engine.settings import Settings
from triggers.flow.buckets import Buckets
from triggers.flow.lines import Lines
from triggers.trigger_set import TriggerSet


class Turn:
    """Looks at due buckets, cancellations and lanes. Any number of processes may take turns: rows are locked."""

    def __init__(self, database: Database, settings: Settings) -> None:
        triggers = TriggerSet()
        self._buckets = Buckets(database, settings, triggers)
        self._lines = Lines(database, settings, triggers)

    def take(self) -> bool:
        """One round. True when there may be more at once. Raises :class:`Unavailable`."""
        # Both: neither half may starve the other.
        more = self._buckets.take()
        return self._lines.take() or more

    def due_in(self) -> float | None:
        """Seconds until something is due; None when only an event or an ending can change anything."""
        moments = [self._buckets.due_in(), self._lines.due_in()]
        return min((moment for moment in moments if moment is not None), default=None)

"""The turn of flow control: decides about what waits, once time has passed or a slot is free."""

from __future__ import annotations

from functory.engine.database.connection import Database
from functory.engine.flow_control import activity
from functory.engine.settings import Settings
from functory.triggers.routing.buffer_release import Buckets
from functory.triggers.routing.concurrency_release import Lines
from functory.triggers.routing.trigger_set import TriggerSet


class Turn:
    """Looks at due buckets, cancellations and lanes. Any number of processes may take turns: rows are locked."""

    def __init__(self, database: Database, settings: Settings) -> None:
        triggers = TriggerSet()
        self._database = database
        self._buckets = Buckets(database, settings, triggers)
        self._lines = Lines(database, settings, triggers)
        self._idle = False

    def take(self) -> bool:
        """One round. True when there may be more at once. Raises :class:`Unavailable`."""
        self._lines.sweep()
        with self._database.read() as tx:
            there = activity.look(tx)
        # A trigger that is new may wait for silence: its bucket is made by the round that first sees it.
        buckets = there.buckets or not self._buckets.knows(there.version)
        self._idle = not (buckets or there.lines)
        # Both: neither half may starve the other.
        more = buckets and self._buckets.take()
        return (there.lines and self._lines.take()) or more

    def due_in(self) -> float | None:
        """Seconds until something is due; None when only an event or an ending can change anything."""
        if self._idle:
            return None
        moments = [self._buckets.due_in(), self._lines.due_in()]
        return min((moment for moment in moments if moment is not None), default=None)

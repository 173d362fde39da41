"""The turn of flow control: decides about what waits, once time has passed or a slot is free."""

from __future__ import annotations

from functory.engine.database.connection import Database
from functory.engine.flow_control import activity
from functory.engine.service import Service
from functory.engine.settings import Settings
from functory.triggers.routing.buffer_release import BufferRelease
from functory.triggers.routing.concurrency_release import ConcurrencyRelease
from functory.triggers.routing.trigger_set import TriggerSet


class Release(Service):
    """Looks at due buckets, cancellations and lanes. Any number of processes may take turns: rows are locked."""

    name, topic = "release", "flow"

    def __init__(self, database: Database, settings: Settings) -> None:
        self.poll_seconds = settings.poll_seconds
        triggers = TriggerSet()
        self._database = database
        self._buffers = BufferRelease(database, settings, triggers)
        self._concurrency = ConcurrencyRelease(database, settings, triggers)
        self._idle = False

    def run_once(self) -> bool:
        """One round. True when there may be more at once. Raises :class:`Unavailable`."""
        self._concurrency.sweep()
        with self._database.read() as tx:
            there = activity.read(tx)
        # A trigger that is new may wait for silence: its bucket is made by the round that first sees it.
        buckets = there.has_buffers or not self._buffers.is_current(there.trigger_set_version)
        self._idle = not (buckets or there.has_pending_releases)
        # Both: neither half may starve the other.
        more = buckets and self._buffers.run_once()
        return (there.has_pending_releases and self._concurrency.run_once()) or more

    def next_due(self) -> float | None:
        """Seconds until something is due; None when only an event or an ending can change anything."""
        if self._idle:
            return None
        moments = [self._buffers.next_due(), self._concurrency.next_due()]
        return min((moment for moment in moments if moment is not None), default=None)

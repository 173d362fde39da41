"""The release service: buffered matches fire when they are due, and queued executions start when a slot is free."""

from __future__ import annotations

from functory.engine.database.connection import Database
from functory.engine.flow_control import activity
from functory.engine.service import Service
from functory.engine.settings import Settings
from functory.triggers.routing.buffer_release import BufferRelease
from functory.triggers.routing.concurrency_release import ConcurrencyRelease
from functory.triggers.routing.trigger_set import TriggerSet


class Release(Service):
    """Releases due buffers, cancellations and concurrency groups. Any number of processes may run it: it locks rows."""

    name, topic = "release", "flow"

    def __init__(self, database: Database, settings: Settings) -> None:
        self.poll_seconds = settings.poll_seconds
        triggers = TriggerSet()
        self._database = database
        self._buffers = BufferRelease(database, settings, triggers)
        self._concurrency = ConcurrencyRelease(database, triggers)
        self._idle = False

    def run_once(self) -> bool:
        """One round. True when there may be more at once. Raises :class:`Unavailable`."""
        self._concurrency.sweep()
        with self._database.read() as tx:
            found = activity.read(tx)
        # A new trigger may wait for silence: the round that first sees it creates its buffer.
        has_buffers = found.has_buffers or not self._buffers.is_current(found.trigger_set_version)
        self._idle = not (has_buffers or found.has_pending_releases)
        # Both run: neither half may starve the other.
        more = has_buffers and self._buffers.run_once()
        return (found.has_pending_releases and self._concurrency.run_once()) or more

    def next_due(self) -> float | None:
        """Seconds until something is due; None when only an event or a finished execution can change anything."""
        if self._idle:
            return None
        waits = [self._buffers.next_due(), self._concurrency.next_due()]
        return min((seconds for seconds in waits if seconds is not None), default=None)

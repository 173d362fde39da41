"""Runs the sources that have something to run (files, queues, plug-ins): each in one process at a time."""

from __future__ import annotations

from engine.database import Database
from engine.settings import Settings


class Keeper:
    """Claims sources, runs each in a thread, renews their leases, and starts again what has failed."""

    def __init__(self, database: Database, settings: Settings) -> None:
        self._database = database
        self._settings = settings

    def look(self) -> bool:
        """One round: renew, start, end. True when there may be more at once. Raises :class:`Unavailable`."""
        return False

    def close(self) -> None:
        """End every source and let go of it."""

"""Schedules become events: any number of tickers may run, each tick is written once."""

from __future__ import annotations

from engine.database import Database
from engine.settings import Settings


class Ticker:
    """Writes the ticks that are due."""

    def __init__(self, database: Database, settings: Settings) -> None:
        self._database = database
        self._settings = settings

    def tick(self) -> bool:
        """One round. True when there may be more at once. Raises :class:`Unavailable`."""
        return False

    def due_in(self) -> float | None:
        """Seconds until the next tick; None without any."""
        return None

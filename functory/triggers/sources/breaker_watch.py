"""Pauses the sources that exceed their rate, and resumes them after a while.

Any number of them may run. Of several that see the same source, the first pauses it.
"""

from __future__ import annotations

import structlog

from functory.engine.database.connection import Database
from functory.engine.errors import FunctoryError, Unavailable
from functory.engine.service import Service
from functory.engine.settings import Settings
from functory.engine.sources import source_breaker
from functory.triggers.sources import registry

log = structlog.get_logger("functory.sources")

# The counts that it reads are newer after each round of the tallier.
POLL_SECONDS = 10.0
# A calendar bounds them, and nothing outside can hurry them. Their backfills are a person's.
_WITHOUT_DEFAULT = frozenset({"schedule"})


class SourceBreakerWatch(Service):
    """Opens and closes the breakers of sources of every kind."""

    name, topic, poll_seconds = "source_breaker", None, POLL_SECONDS

    def __init__(self, database: Database, settings: Settings) -> None:
        self._database = database
        self._default = settings.source_rate

    def run_once(self) -> bool:
        """Run one round. Always False: the next one is after a rest. Raises :class:`Unavailable`."""
        with self._database.read() as tx:
            busy, cooled_down = source_breaker.busy(tx), source_breaker.cooled_down(tx)
        for one in busy:
            per_minute = self._limit(one)
            if per_minute and one.events > source_breaker.most_events(per_minute):
                self._pause(one, per_minute)
        for row in cooled_down:
            self._resume(row["id"], row["kind"], row["name"])
        return False

    def _limit(self, one: source_breaker.BusySource) -> int:
        default = 0 if one.kind in _WITHOUT_DEFAULT else self._default
        own = one.config.get(registry.RATE)
        return default if own is None else own

    def _pause(self, one: source_breaker.BusySource, per_minute: int) -> None:
        try:
            with self._database.write() as tx:
                why = source_breaker.pause(tx, one, per_minute, registry.disable_hook(one.kind))
        except Unavailable:
            raise
        except FunctoryError as error:
            # One source must not stop the others. The next round tries again.
            log.warning("source not paused by its breaker", kind=one.kind, source=one.name, why=str(error))
            return
        if why is not None:
            log.warning("source paused by its breaker", kind=one.kind, source=one.name, why=why)

    def _resume(self, source_id: str, kind: str, name: str) -> None:
        try:
            hook = registry.change_hook(registry.find_plugin(kind))
            with self._database.write() as tx:
                resumed = source_breaker.resume(tx, source_id, hook)
        except Unavailable:
            raise
        except FunctoryError as error:
            log.warning("source not resumed by its breaker", kind=kind, source=name, why=str(error))
            return
        if resumed:
            log.info("source resumed by its breaker", kind=kind, source=name)

"""Canary watch: a service that begins the rounds of canaries. :mod:`functory.engine.releases.canary_round` decides."""

from __future__ import annotations

from functory.engine.database.connection import Database
from functory.engine.database.schema.canaries import CANARY_OPEN
from functory.engine.releases import canary_round
from functory.engine.releases.canary_evidence import DOUBT
from functory.engine.service import Service
from functory.engine.settings import Settings

# Seconds between two looks; the second while a version is under suspicion.
USUAL_SECONDS, SUSPECT_SECONDS = 10.0, 2.0


class CanaryWatch(Service):
    """Looks at each canary. Without one it reads one empty page."""

    name, topic, poll_seconds = "canary_watch", None, USUAL_SECONDS

    def __init__(self, database: Database, settings: Settings) -> None:
        self._database = database
        self._is_suspicious = False

    def run_once(self) -> bool:
        """Look at all canaries once. True when there is more to count. Raises :class:`Unavailable`."""
        with self._database.read() as tx:
            due = canary_round.due(tx)
        more, worst = False, 0.0
        for row in due:
            if row["state"] in CANARY_OPEN:
                has_more, evidence = canary_round.look(self._database, row["id"])
                worst = max(worst, evidence)
            else:
                has_more = canary_round.finish(self._database, row)
            more = more or has_more
        self._is_suspicious = worst >= DOUBT
        return more

    def next_due(self) -> float | None:
        """Return the seconds until the next look."""
        return SUSPECT_SECONDS if self._is_suspicious else None

"""Gate upkeep: a service that ends proposals that were not decided in time, and completes what a process has left
behind.
"""

from __future__ import annotations

from functory.engine.database.connection import Database
from functory.engine.functions.registry import Functions
from functory.engine.releases.proposals import PAGE, Proposals
from functory.engine.service import Service
from functory.engine.settings import Settings


class GateUpkeep(Service):
    """Decides about proposals whose checks have ended, lets their runs go on, and deletes functions of ended runs."""

    name, topic, poll_seconds = "gate_upkeep", None, 10.0

    def __init__(self, database: Database, settings: Settings) -> None:
        self._proposals = Proposals(database, Functions(database, None, settings))

    def run_once(self) -> bool:
        """Do some of it. True when there may be more. Raises :class:`Unavailable`."""
        done = (
            self._proposals.settle_all(),
            self._proposals.expire(),
            self._proposals.end_canaries(),
            self._proposals.go_on_all(),
            self._proposals.delete_ephemeral(),
        )
        return max(done) >= PAGE

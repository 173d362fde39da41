"""One worker's attempts: claimed in ``claims``, renewed and released in ``leases``, finished in ``completion``. What
they print meanwhile is stored in ``attempt_output``.

Each step is one transaction, guarded by the fence that the claim raised.
"""

from __future__ import annotations

import random
from collections.abc import Collection

from functory.engine.access import grants
from functory.engine.database.connection import Database
from functory.engine.executions.attempt_output import AttemptOutputs
from functory.engine.executions.claims import Claims
from functory.engine.executions.completion import Completions
from functory.engine.executions.execution_events import AppendEvents, append_for_router
from functory.engine.executions.leases import Leases
from functory.engine.settings import Settings


class Attempts(Claims, Leases, AttemptOutputs, Completions):
    """All that a worker does to executions: the parts with one database, worker id and lease."""

    def __init__(
        self,
        database: Database,
        worker_id: str,
        *,
        lease_seconds: float,
        isolation: str = "none",
        author_grants: Collection[str] = grants.SERVER_AUTHOR_GRANTS,
        rng: random.Random | None = None,
        append_events: AppendEvents = append_for_router,
        settings: Settings | None = None,
    ) -> None:
        Claims.__init__(
            self,
            database,
            worker_id,
            lease_seconds=lease_seconds,
            isolation=isolation,
            author_grants=author_grants,
            append_events=append_events,
        )
        Leases.__init__(self, database, lease_seconds)
        AttemptOutputs.__init__(self, database)
        Completions.__init__(self, database, rng, append_events=append_events, settings=settings)

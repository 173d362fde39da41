"""The numbers of the top bar."""

from __future__ import annotations

from typing import Any

from functory.api.installation import installation
from functory.client.functory import Functory
from functory.engine.access.scopes import Scope
from functory.engine.events import routing_queue
from functory.engine.executions import open_executions
from functory.engine.functions import listing
from functory.engine.tallies.count import FAILURES
from functory.rows.overview import Numbers


class Bar:
    """Reads the numbers of the top bar of one installation."""

    def __init__(self, engine: Functory) -> None:
        self._engine = engine

    def __call__(self, scope: Scope = None) -> dict[str, Any]:
        """Return the numbers as they are now; the numbers of executions are those of the scope."""
        engine = self._engine
        names = None if scope is None else listing.names(engine.database, scope)
        with engine.database.read(snapshot=True) as tx:
            minutes = engine.tallies.by_minute(tx, "total" if names is None else "function", 60, names)
            open_ = open_executions.count(tx, scope)
            oldest = routing_queue.oldest_pending(tx)
            lag = None if oldest is None else round(max(0.0, (tx.now - oldest).total_seconds()), 1)
        thrown = next(iter(engine.switches.list()), None)
        failed = sum(
            one.count for counts in minutes.values() for key, one in counts if key.outcome in FAILURES
        )
        found = {
            "failed_1h": failed,
            "running": open_["running"],
            "queued": open_["queued"],
            "router_lag_seconds": lag or 0.0,
            "halted": thrown and {"by": thrown["author"], "note": thrown["note"], "at": thrown["time"]},
            **installation(engine.settings),
        }
        return Numbers.model_validate(found).model_dump(mode="json")

"""One round of a dispatcher that sends to a function of the test."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from functory.engine.database.connection import Database
from functory.engine.executions.dispatch_window import DispatchWindow
from functory.workers.sending.sending import BATCH, Sending


class SendsTo:
    """Gives the ids to ``take`` in the place of a broker."""

    def __init__(self, take: Callable[[Sequence[str]], Any]) -> None:
        self._take = take

    def send(self, ids: Sequence[str]) -> None:
        self._take(ids)

    def close(self) -> None:
        """Nothing is open."""


def send_due(
    database: Database,
    take: Callable[[Sequence[str]], Any],
    *,
    window: DispatchWindow,
    redispatch: float,
    worker_ttl: float,
    limit: int = BATCH,
) -> int:
    """Send what is due to ``take``. Returns the number sent."""
    sending = Sending(database, window, SendsTo(take))
    return sending.send_due(redispatch=redispatch, worker_ttl=worker_ttl, limit=limit)

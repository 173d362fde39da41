"""How long work has waited for each role: due executions, events to be routed, and events to be published."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

import sqlalchemy as sa

from functory.engine.database.schema import outbox
from functory.engine.database.transaction import Tx
from functory.engine.events import kill_switch, routing_queue
from functory.engine.executions import open_executions


@dataclass(frozen=True)
class Backlogs:
    """The seconds for which the oldest of each kind has waited; zero without any.

    ``halted`` is True while the kill switch keeps events from being routed.
    """

    executions: float
    unrouted_events: float
    unpublished_events: float
    halted: bool


def read(tx: Tx) -> Backlogs:
    """Read the backlogs of one installation."""
    return Backlogs(
        executions=_age(tx, open_executions.oldest_due_at(tx)),
        unrouted_events=_age(tx, routing_queue.oldest_pending(tx)),
        unpublished_events=_age(tx, tx.scalar(sa.select(sa.func.min(outbox.c.time)))),
        halted=kill_switch.is_halted(tx),
    )


def _age(tx: Tx, time: datetime | None) -> float:
    return 0.0 if time is None else max(0.0, (tx.now - time).total_seconds())

"""The compensator: runs the plans of failed executions, one step after the other, the newest first.

Any number of processes may call :func:`advance`.
"""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa

from functory.engine.database.connection import Database, Tx
from functory.engine.database.schema import compensation, execution
from functory.engine.executions import store as execution_store
from functory.engine.executions.compensation import saga
from functory.engine.executions.compensation.saga import SagaProgress
from functory.engine.service import Service
from functory.engine.settings import Settings

OPEN = ("waiting", "pending", "running")


class Compensator(Service):
    """Runs the compensations of failed executions, one step of each plan in a round."""

    name, topic = "compensator", "sagas"

    def __init__(self, database: Database, settings: Settings) -> None:
        self.poll_seconds = settings.poll_seconds
        self._database = database
        self._settings = settings

    def run_once(self) -> bool:
        """Advance one batch of plans. True when it was full. Raises :class:`Unavailable`."""
        return advance(self._database, self._settings) >= self._settings.batch_size


def advance(database: Database, settings: Settings) -> int:
    """Advance every saga that can go on: record finished steps, start the next one. Return the number of sagas."""
    with database.read() as tx:
        ready = _ready(tx, settings.batch_size)
    moved = 0
    for saga_id in ready:
        with database.write() as tx:
            progress = SagaProgress()
            failed = saga.lock(tx, saga_id, skip=True)
            if failed is not None:
                saga.advance(tx, failed, progress)
        progress.record_metrics()
        moved += failed is not None
    return moved


def _ready(tx: Tx, limit: int) -> list[str]:
    """Return the sagas that can be advanced now."""
    return [row["saga_id"] for row in tx.rows(_READY, {"limit": limit})]


def _can_go_on() -> sa.Select[tuple[Any]]:
    """Return the statement for the sagas that :func:`functory.engine.executions.compensation.saga.advance` would
    change.
    """
    here, other = compensation, compensation.alias("other")
    watched = sa.case(
        (here.c.state == "waiting", here.c.step_id), (here.c.state == "running", here.c.execution_id)
    )

    def beside(*conditions: Any) -> sa.Exists:
        return sa.exists().where(other.c.saga_id == here.c.saga_id, *conditions)

    ended = sa.and_(here.c.state != "pending", execution.c.state.in_(execution_store.TERMINAL))
    # The plan undoes steps, so steps that are still open are stopped.
    to_stop = sa.and_(
        here.c.state == "waiting", execution.c.cancel_requested_at.is_(None), beside(other.c.compensate != "")
    )
    due = sa.and_(
        here.c.state == "pending", sa.not_(beside(other.c.state.in_(("waiting", "running", "failed"))))
    )
    return (
        sa.select(here.c.saga_id)
        .distinct()
        .select_from(here)
        .outerjoin(execution, execution.c.id == watched)
        .where(here.c.state.in_(OPEN))
        .where(sa.or_(ended, to_stop, due))
        .order_by(here.c.saga_id)
        .limit(sa.bindparam("limit", type_=sa.Integer))
    )


# Built once, because every scheduler runs it in every round.
_READY = _can_go_on()

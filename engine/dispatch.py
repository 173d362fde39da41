"""Which queued executions go to the broker now.

A queued execution is sent once, and again when no worker has claimed it for the redispatch time,
doubled with each sending. Only a window of them is on the broker at a time: the backlog stays in
the database, where priorities and cancels work.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from typing import Any

import sqlalchemy as sa

from engine.database import Database, Tx
from engine.tables import execution, worker

# Messages on the broker per worker slot, and the least window for a start without workers.
PER_SLOT = 4
LEAST_WINDOW = 64
# A redispatch is never later than this.
LONGEST = 900.0


class Pace:
    """What a dispatcher need not ask in every round: the slots of the workers, and what is overdue."""

    def __init__(self, every: float = 1.0) -> None:
        self._every = every
        self._asked: datetime | None = None
        self.slots = 0

    def due(self, now: datetime) -> bool:
        """True once in a while."""
        if self._asked is None or (now - self._asked).total_seconds() >= self._every:
            self._asked = now
            return True
        return False


def dispatch(
    database: Database,
    send: Callable[[Sequence[str]], None],
    *,
    redispatch: float,
    worker_ttl: float,
    pace: Pace,
    limit: int = 500,
) -> int:
    """Send due executions with ``send(ids)`` and note it. Returns how many.

    The message goes out *before* the commit: a crash in between sends it twice, never not at all.
    """
    with database.write() as tx:
        again: list[str] = []
        if pace.due(tx.now):
            alive = worker.c.seen_at > tx.now - timedelta(seconds=worker_ttl)
            pace.slots = int(tx.scalar(sa.select(sa.func.sum(worker.c.slots)).where(alive)) or 0)
            again = _overdue(tx, redispatch)
        sent = tx.scalar(
            sa.select(sa.func.count())
            .select_from(execution)
            .where(execution.c.state == "queued", execution.c.dispatched_at.is_not(None))
        )
        window = min(limit, max(LEAST_WINDOW, PER_SLOT * pace.slots) - int(sent or 0))
        ids = again + (_ids(tx, execution.c.dispatched_at.is_(None), window) if window > 0 else [])
        if not ids:
            return 0
        send(ids)
        tx.execute(
            sa.update(execution)
            .where(execution.c.id.in_(ids))
            .values(dispatched_at=tx.now, dispatch_count=execution.c.dispatch_count + 1)
        )
    return len(ids)


def _overdue(tx: Tx, redispatch: float) -> list[str]:
    """Executions that were sent and that nobody has claimed; the patience doubles with each sending."""
    late = [
        sa.and_(
            execution.c.dispatch_count == count if count < 5 else execution.c.dispatch_count >= count,
            execution.c.dispatched_at
            < tx.now - timedelta(seconds=min(LONGEST, redispatch * 2 ** max(count - 1, 0))),
        )
        for count in range(6)
    ]
    return _ids(tx, sa.or_(*late), 100)


def _ids(tx: Tx, condition: Any, limit: int) -> list[str]:
    statement = (
        sa.select(execution.c.id)
        .where(
            execution.c.state == "queued",
            execution.c.run_at <= tx.now,
            sa.not_(execution.c.held),
            condition,
        )
        .order_by(execution.c.priority.desc(), execution.c.queue_at, execution.c.id)
        .limit(limit)
    )
    if tx.dialect == "postgresql":
        statement = statement.with_for_update(skip_locked=True)
    return [row["id"] for row in tx.rows(statement)]


def due_in(database: Database) -> float | None:
    """Seconds until the next queued execution that is not due yet; None when there is none."""
    with database.read() as tx:
        first = tx.scalar(
            sa.select(sa.func.min(execution.c.run_at)).where(
                execution.c.state == "queued",
                execution.c.run_at > tx.now,
                execution.c.dispatched_at.is_(None),
                sa.not_(execution.c.held),
            )
        )
    return None if first is None else max(0.0, (first - tx.now).total_seconds())


def recall(database: Database, ids: Sequence[str] | None = None) -> int:
    """Let queued executions be sent again at once, because their message is known to be lost.

    ``ids`` None means all of them: the in-memory broker ended with its process. Returns how many.
    """
    # Messages outrun the commit that notes them: a row that is being noted as sent must be waited for,
    # which an UPDATE does only for rows that it wants as they are now. So ids are not asked for the note.
    lost = execution.c.dispatched_at.is_not(None) if ids is None else execution.c.id.in_(ids)
    with database.write() as tx:
        changed = tx.execute(
            sa.update(execution).where(execution.c.state == "queued", lost).values(dispatched_at=None)
        ).rowcount
        if changed:
            tx.wake("executions")
    return changed

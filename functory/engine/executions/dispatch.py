"""Dispatch: which queued executions are sent to the broker, and when (``functory.workers.sending`` sends them).

A queued execution is sent once, and again when no worker has claimed it for much longer than others wait; that time
doubles with each sending. Only a window of them is on the broker at a time
(``functory.engine.executions.dispatch_window``): the backlog stays in the database, where priorities, fairness
(``functory.engine.executions.ready_queue``) and cancels work.

What the router has just started need not go through the backlog while nothing waits there: see
:mod:`functory.engine.executions.direct_dispatch`.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta

import sqlalchemy as sa

from functory.engine.backoff import pause
from functory.engine.database.connection import Database, Tx
from functory.engine.database.schema import Instant, attempt, backlog, in_flight, worker
from functory.engine.executions import queue_rows, ready_queue
from functory.engine.executions.dispatch_window import DispatchWindow
from functory.engine.executions.queue_rows import READY, UNCLAIMED
from functory.engine.telemetry import metrics

# A redispatch is never later than this.
MAX_REDISPATCH_SECONDS = 900.0
# A message that waits this many times longer than most others counts as lost.
LOST_AFTER_FACTOR = 3
# Attempts that are measured for the usual wait.
WAIT_SAMPLES = 200


# Built once, because every dispatcher runs them in every round.
_SLOTS = sa.select(sa.func.sum(worker.c.slots)).where(worker.c.seen_at > sa.bindparam("since", type_=Instant))
_UNCLAIMED = (
    sa.select(in_flight.c.execution_id.label("id"), in_flight.c.dispatched_at, in_flight.c.dispatch_count)
    .where(UNCLAIMED, in_flight.c.dispatched_at < sa.bindparam("until", type_=Instant))
    .order_by(in_flight.c.priority.desc(), in_flight.c.queue_at, in_flight.c.execution_id)
    .limit(1000)
    .with_for_update(skip_locked=True)
)
_WAITS = sa.select(attempt.c.queued_seconds).order_by(attempt.c.execution_id.desc()).limit(WAIT_SAMPLES)
_NEXT = sa.select(sa.func.min(backlog.c.run_at)).where(
    READY, backlog.c.run_at > sa.bindparam("now", type_=Instant)
)
_DUE_SINCE = (
    sa.select(backlog.c.execution_id)
    .where(READY, backlog.c.run_at <= sa.bindparam("until", type_=Instant))
    .limit(1)
)


def take_due(
    database: Database, *, redispatch: float, worker_ttl: float, window: DispatchWindow, limit: int
) -> list[str]:
    """Record at most ``limit`` due executions as sent. Returns their ids, in the order in which they are to be sent.

    ``redispatch`` is the time in seconds after which a message counts as lost, and ``worker_ttl`` the one after which
    a silent worker has no slots. Send outside of a transaction: the broker may take seconds to answer, and the rows
    must stay free for workers that poll. What cannot be sent is given back (:func:`redispatch_now`). After a crash
    before the sending, a worker with a free slot claims them by polling, and they are sent again when the message
    counts as lost.
    """
    with metrics.transaction("dispatch"), database.write() as tx:
        flight = ready_queue.in_flight(tx)
        again: list[str] = []
        if window.should_read_slots(tx.now):
            window.slots = int(tx.scalar(_SLOTS, {"since": tx.now - timedelta(seconds=worker_ttl)}) or 0)
            if flight.dispatched:
                if window.should_measure_waits(tx.now):
                    window.wait_p95 = _wait_p95(tx)
                busy = 0 < window.slots <= flight.running
                again = _overdue_ids(
                    tx, MAX_REDISPATCH_SECONDS if busy else redispatch_timeout(redispatch, window.wait_p95)
                )
        places = min(limit, window.places(tx.now, flight.dispatched))
        taken = ready_queue.select_next(tx, places, flight, least=min(limit, window.refill))
        window.has_more, window.next_at = taken.has_more, taken.next_at
        tx.at_end(lambda committed: window.note_sent(len(taken.ids) if committed else 0))
        queue_rows.mark_sent_again(tx, again)
        queue_rows.mark_sent(tx, taken.ids)
    return [*again, *taken.ids]


def redispatch_timeout(redispatch: float, wait_p95: float) -> float:
    """Return the seconds after which a message counts as lost. ``wait_p95`` is the wait of most executions, in seconds.

    A timeout below the usual wait would send every message twice without a fault, which makes each wait longer.
    """
    return min(MAX_REDISPATCH_SECONDS, max(redispatch, LOST_AFTER_FACTOR * wait_p95))


def is_overdue(waited: float, count: int, timeout: float) -> bool:
    """Return True when an execution that was sent ``count`` times, first ``waited`` seconds ago, is sent again.

    The timeout doubles with each sending.
    """
    return waited > sum(pause(n, timeout, MAX_REDISPATCH_SECONDS) for n in range(1, max(1, count) + 1))


def _overdue_ids(tx: Tx, timeout: float) -> list[str]:
    """Return the executions that were sent and are still unclaimed after their timeout."""
    return [
        row["id"]
        for row in tx.rows(_UNCLAIMED, {"until": tx.now - timedelta(seconds=timeout)})
        if is_overdue((tx.now - row["dispatched_at"]).total_seconds(), row["dispatch_count"], timeout)
    ][:100]


def _wait_p95(tx: Tx) -> float:
    """Return the 95th percentile of the seconds between sending and claim, over the newest attempts."""
    waits = sorted(seconds for seconds in tx.execute(_WAITS).scalars() if seconds is not None)
    return waits[int(len(waits) * 0.95)] if waits else 0.0


def seconds_until_due(database: Database) -> float | None:
    """Return the seconds until the next queued execution is due; None when none is due later."""
    with database.read() as tx:
        first = tx.scalar(_NEXT, {"now": tx.now})
    return None if first is None else max(0.0, (first - tx.now).total_seconds())


def is_any_due_since(database: Database, seconds: float) -> bool:
    """Return True when a queued execution has been due for ``seconds`` and was not sent."""
    with database.read() as tx:
        return tx.scalar(_DUE_SINCE, {"until": tx.now - timedelta(seconds=seconds)}) is not None


def redispatch_now(database: Database, ids: Sequence[str] | None = None) -> int:
    """Make queued executions due for sending at once, because their messages are lost.

    ``ids`` None means all of them: the in-memory broker ended with its process. Returns the number changed.
    """
    with database.write() as tx:
        changed = queue_rows.recall(tx, ids)
        if changed:
            tx.wake("executions")
    return changed

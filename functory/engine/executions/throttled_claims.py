"""Claims of throttled executions: an attempt starts only with a token of its throttle.

The token is taken in the transaction of the claim, so the rate holds with any number of workers, and after any time
without one. An execution without a token is put back in the same transaction, with the time of its turn: it is not sent
again before. Claims of executions without a throttle cost no statement more.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import sqlalchemy as sa
from msgspec.structs import replace

from functory.engine.database.schema import Id, Instant, backlog, execution, in_flight
from functory.engine.database.transaction import Tx
from functory.engine.executions import queue_rows
from functory.engine.executions.execution_row import ExecutionRow
from functory.engine.executions.queue_rows import InFlight
from functory.engine.flow_control import concurrency
from functory.engine.flow_control.controls import Key, RateLimit
from functory.engine.flow_control.throttle import Reservation, StartTokens

# An execution further back in the line is put back by this many intervals, and asks again then. Counting all that are
# before it would make each claim as expensive as the backlog is long.
MAX_AHEAD = 1000


def stored(limit: RateLimit) -> dict[str, Any]:
    """Return the throttle as its execution keeps it: the one that it began with."""
    return {"limit": limit.limit, "period": limit.period, "burst": limit.burst, "text": limit.key.text}


def columns(limit: RateLimit, reservation: Reservation) -> dict[str, Any]:
    """Return the throttle's columns of a queue row, which the claims of the execution need."""
    return {"throttle_key": limit.key.hash, "throttle_place": reservation.place}


@dataclass(frozen=True)
class _Throttled:
    """A claimed execution that needs a token, and its place in the queue."""

    row: ExecutionRow
    place: InFlight
    limit: RateLimit


def keep_with_token(
    tx: Tx, claimed: Sequence[ExecutionRow], places: Mapping[str, InFlight]
) -> list[ExecutionRow]:
    """Take tokens for the throttled ones of ``claimed`` (rows that this transaction has set to running).

    ``places`` has their queue rows by id. Returns the rows that start. The others are queued again, and so are those
    without a queue row: another transaction has queued them for a later time.
    """
    lost = [row for row in claimed if row.id not in places]
    if lost:
        tx.execute(_QUEUED, [_unclaimed(row, row.run_at) for row in lost])
        claimed = [row for row in claimed if row.id in places]
    throttled = [
        _Throttled(row, place, _limit(place.throttle_key, row.throttle))
        for row in claimed
        if row.throttle is not None and (place := places[row.id]).throttle_key is not None
    ]
    if not throttled:
        return list(claimed)
    keys: dict[tuple[str, str], list[_Throttled]] = defaultdict(list)
    for one in sorted(throttled, key=lambda one: _place_of(one.place)):
        keys[one.row.trigger_id or "", one.limit.key.hash].append(one)
    tokens = StartTokens(tx, [(trigger, ones[0].limit) for (trigger, _), ones in keys.items()])
    ahead = {
        row["id"]: row["ahead"]
        for row in tx.rows(_AHEAD, {"ids": [one.row.id for one in throttled], "now": tx.now})
    }
    turns: dict[str, datetime] = {}
    for (trigger, _), ones in keys.items():
        answers = tokens.take(trigger, [(one.limit, ahead[one.row.id]) for one in ones])
        turns |= {one.row.id: turn for one, turn in zip(ones, answers, strict=True) if turn is not None}
    tokens.write()
    _put_back(tx, [one for one in throttled if one.row.id in turns], turns)
    return [row for row in claimed if row.id not in turns]


def _put_back(tx: Tx, refused: Sequence[_Throttled], turns: Mapping[str, datetime]) -> None:
    """running → queued, as if these had not been claimed, and due at their turns."""
    if not refused:
        return
    tx.execute(_QUEUED, [_unclaimed(one.row, turns[one.row.id]) for one in refused])
    queue_rows.put_back(tx, [(_moved(one, turns[one.row.id]), turns[one.row.id]) for one in refused])
    for one in refused:
        if one.row.has_concurrency:
            concurrency.release_for_retry(tx, one.row.id)
    tx.wake("executions")


def _moved(one: _Throttled, turn: datetime) -> InFlight:
    """Return the place in the queue of an execution that is due at ``turn``."""
    return replace(
        one.place,
        # Its priority moves its position by the same time as before.
        queue_at=turn - (one.row.run_at - one.place.queue_at),
        expires_at=None if _was_started(one.row) else one.place.expires_at,
    )


def _unclaimed(row: ExecutionRow, run_at: datetime) -> dict[str, Any]:
    return {"own": row.id, "due": run_at, "since": row.started_at if _was_started(row) else None}


def _was_started(row: ExecutionRow) -> bool:
    """Return True for a claimed row that had been claimed before: the first claim raises the fence to 1."""
    return row.fence > 1


def _place_of(place: InFlight) -> datetime:
    assert place.throttle_place is not None
    return place.throttle_place


def _limit(key: str, found: Mapping[str, Any]) -> RateLimit:
    return RateLimit(Key(key, found["text"]), found["limit"], found["period"], found["burst"])


_MINE = in_flight.alias("mine")
_SENT = in_flight.alias("sent")


def _earlier(other: Any) -> tuple[Any, ...]:
    """Return the conditions of other rows with the key of ``_MINE`` and an earlier place."""
    return (
        other.c.trigger_id == _MINE.c.trigger_id,
        other.c.throttle_key == _MINE.c.throttle_key,
        other.c.throttle_place < _MINE.c.throttle_place,
    )


# Executions before this one: those that never started, and retries that are due. All that were sent are due.
_QUEUED_BEFORE = (
    sa.select(sa.literal(1).label("one"))
    .where(
        *_earlier(backlog),
        sa.text("backlog.throttle_key IS NOT NULL"),
        queue_rows.READY,
        sa.or_(
            backlog.c.run_at <= sa.bindparam("now", type_=Instant),
            sa.exists().where(execution.c.id == backlog.c.execution_id, execution.c.started_at.is_(None)),
        ),
    )
    .limit(MAX_AHEAD)
    .correlate(_MINE)
    .subquery()
)
_SENT_BEFORE = (
    sa.select(sa.func.count()).where(*_earlier(_SENT), sa.text("NOT sent.claimed")).correlate(_MINE)
)
_AHEAD = sa.select(
    _MINE.c.execution_id.label("id"),
    (
        sa.select(sa.func.count()).select_from(_QUEUED_BEFORE).scalar_subquery()
        + _SENT_BEFORE.scalar_subquery()
    ).label("ahead"),
).where(_MINE.c.execution_id.in_(sa.bindparam("ids", expanding=True)))
_QUEUED = (
    sa.update(execution)
    .where(execution.c.id == sa.bindparam("own", type_=Id))
    .values(
        state="queued",
        attempt=execution.c.attempt - 1,
        fence=execution.c.fence - 1,
        run_at=sa.bindparam("due", type_=Instant),
        started_at=sa.bindparam("since", type_=Instant),
        lease_until=None,
        worker_id=None,
    )
)

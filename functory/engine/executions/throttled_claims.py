"""Claims of throttled executions: an attempt starts only with a token of its throttle.

The token is taken in the transaction of the claim, so the rate holds with any number of workers, and after any time
without one. An execution without a token is put back in the same transaction, with the time of its turn: it is not sent
again before. Claims of executions without a throttle cost no statement more.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

import sqlalchemy as sa

from functory.engine.database.schema import Id, Instant, execution
from functory.engine.database.transaction import Tx
from functory.engine.flow_control import concurrency
from functory.engine.flow_control.controls import Key, RateLimit
from functory.engine.flow_control.throttle import Reservation, StartTokens

# An execution further back in the line is put back by this many intervals, and asks again then. Counting all that are
# before it would make each claim as expensive as the backlog is long.
MAX_AHEAD = 1000


def columns(limit: RateLimit, reservation: Reservation) -> dict[str, Any]:
    """Return the columns of an execution that its claims need. The execution keeps the throttle that it began with."""
    return {
        "throttle": {
            "limit": limit.limit,
            "period": limit.period,
            "burst": limit.burst,
            "text": limit.key.text,
        },
        "throttle_key": limit.key.hash,
        "throttle_place": reservation.place,
    }


def keep_with_token(tx: Tx, claimed: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Take tokens for the throttled ones of ``claimed`` (rows that this transaction has set to running).

    Returns the rows that start. The others are queued again.
    """
    throttled = [row for row in claimed if row["throttle_key"] is not None]
    if not throttled:
        return list(claimed)
    keys: dict[tuple[str, str], list[dict[str, Any]]] = defaultdict(list)
    for row in sorted(throttled, key=lambda row: row["throttle_place"]):
        keys[row["trigger_id"], row["throttle_key"]].append(row)
    tokens = StartTokens(tx, [(trigger, _limit(rows[0])) for (trigger, _), rows in keys.items()])
    ahead = {
        row["id"]: row["ahead"]
        for row in tx.rows(_AHEAD, {"ids": [r["id"] for r in throttled], "now": tx.now})
    }
    turns: dict[str, datetime] = {}
    for (trigger, _), rows in keys.items():
        answers = tokens.take(trigger, [(_limit(row), ahead[row["id"]]) for row in rows])
        turns |= {row["id"]: turn for row, turn in zip(rows, answers, strict=True) if turn is not None}
    tokens.write()
    _put_back(tx, [row for row in throttled if row["id"] in turns], turns)
    return [row for row in claimed if row["id"] not in turns]


def _put_back(tx: Tx, refused: Sequence[Mapping[str, Any]], turns: Mapping[str, datetime]) -> None:
    """running → queued, as if these had not been claimed, and due at their turns."""
    if not refused:
        return
    tx.execute(
        _QUEUED,
        [
            {
                "own": row["id"],
                "due": turns[row["id"]],
                # Its priority moves its position by the same time as before.
                "at": turns[row["id"]] - (row["run_at"] - row["queue_at"]),
                # The first claim of an execution raises its fence to 1.
                "since": row["started_at"] if row["fence"] > 1 else None,
            }
            for row in refused
        ],
    )
    for row in refused:
        if row["has_concurrency"]:
            concurrency.release_for_retry(tx, row["id"])
    tx.wake("executions")


def _limit(row: Mapping[str, Any]) -> RateLimit:
    found = row["throttle"]
    return RateLimit(Key(row["throttle_key"], found["text"]), found["limit"], found["period"], found["burst"])


_OTHER = execution.alias("other")
# Executions before this one: those that never started, and retries that are due.
_BEFORE = (
    sa.select(sa.literal(1).label("one"))
    .where(
        _OTHER.c.trigger_id == execution.c.trigger_id,
        _OTHER.c.throttle_key == execution.c.throttle_key,
        _OTHER.c.throttle_place < execution.c.throttle_place,
        sa.text("other.state = 'queued' AND other.throttle_key IS NOT NULL"),
        sa.not_(_OTHER.c.waiting_for_slot),
        sa.or_(_OTHER.c.started_at.is_(None), _OTHER.c.run_at <= sa.bindparam("now", type_=Instant)),
    )
    .limit(MAX_AHEAD)
    .correlate(execution)
    .subquery()
)
_AHEAD = sa.select(
    execution.c.id, sa.select(sa.func.count()).select_from(_BEFORE).scalar_subquery().label("ahead")
).where(execution.c.id.in_(sa.bindparam("ids", expanding=True)))
_QUEUED = (
    sa.update(execution)
    .where(execution.c.id == sa.bindparam("own", type_=Id))
    .values(
        state="queued",
        attempt=execution.c.attempt - 1,
        fence=execution.c.fence - 1,
        run_at=sa.bindparam("due", type_=Instant),
        queue_at=sa.bindparam("at", type_=Instant),
        started_at=sa.bindparam("since", type_=Instant),
        dispatched_at=None,
        dispatch_count=0,
        lease_until=None,
        worker_id=None,
    )
)

"""The routing queue: events that wait for a routing decision."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

import sqlalchemy as sa

from functory.engine.database.connection import Tx
from functory.engine.database.schema import Id, Instant, Words, event

MAX_ROUTE_ATTEMPTS = 5


def count_quarantined(tx: Tx) -> int:
    """Return the number of quarantined events."""
    count = sa.select(sa.func.count()).select_from(event).where(event.c.state == "quarantined")
    return int(tx.scalar(count) or 0)


def _pending(what: Any) -> sa.Select[Any]:
    due = sa.or_(event.c.route_after.is_(None), event.c.route_after <= sa.bindparam("now", type_=Instant))
    waiting = sa.select(what).where(event.c.state == "pending", due).order_by(event.c.id)
    return waiting.with_for_update(skip_locked=True)


# Built once, because every router runs them in every round.
_LIMIT = sa.bindparam("limit", type_=sa.Integer)

_TAKE = _pending(event).limit(_LIMIT)

_IDS = _pending(event.c.id).limit(_LIMIT)

_ONE = _pending(event).where(event.c.id == sa.bindparam("id", type_=Id))


def _lock_pending(tx: Tx, statement: Any, values: Mapping[str, Any]) -> list[dict[str, Any]]:
    return tx.rows(statement, {"now": tx.now, **values})


def take_pending(tx: Tx, limit: int) -> list[dict[str, Any]]:
    """Lock up to ``limit`` pending events, in order."""
    return _lock_pending(tx, _TAKE, {"limit": limit})


def pending_ids(tx: Tx, limit: int) -> list[str]:
    """Return the ids of pending events, without reading or locking their rows."""
    return [str(id_) for (id_,) in tx.execute(_IDS, {"now": tx.now, "limit": limit})]


def take_one(tx: Tx, id_: str) -> list[dict[str, Any]]:
    """Lock one event if it is still pending. Returns a list with the event, or an empty list."""
    return _lock_pending(tx, _ONE, {"id": id_})


_FIRST = (
    sa.select(event.c.id)
    .where(event.c.state == "pending", event.c.route_attempts == 0)
    .order_by(event.c.id)
    .limit(1)
)

_TRIED = sa.select(event.c.route_attempts).where(event.c.id == sa.bindparam("own", type_=Id))

_FAILED = (
    sa.update(event)
    .where(event.c.id == sa.bindparam("own", type_=Id), event.c.state == "pending")
    .values(
        state=sa.bindparam("new"),
        route_attempts=sa.bindparam("tried"),
        route_after=sa.bindparam("after", type_=Instant),
        problem=sa.bindparam("why", type_=Words),
    )
)

_ROUTED = (
    sa.update(event)
    .where(event.c.id.in_(sa.bindparam("ids", expanding=True)), event.c.state == "pending")
    .values(state="routed", routed_at=sa.bindparam("now", type_=Instant), problem=None)
)


def first_unrouted(tx: Tx) -> str | None:
    """Return the oldest pending event without a failed routing; None when there is none.

    Read it before anything that depends on the order of events: later reads then see everything that was routed so far.
    """
    return tx.scalar(_FIRST)


def mark_routed(tx: Tx, ids: Sequence[str]) -> None:
    """pending → routed: final, in the transaction of the events' firings."""
    tx.execute(_ROUTED, {"ids": list(ids), "now": tx.now})


def mark_failed(tx: Tx, id_: str, problem: str) -> str:
    """pending → pending with backoff, or → quarantined at the fifth failure. Returns the new state."""
    attempts = int(tx.scalar(_TRIED, {"own": id_}) or 0) + 1
    state = "quarantined" if attempts >= MAX_ROUTE_ATTEMPTS else "pending"
    tx.execute(
        _FAILED,
        {
            "own": id_,
            "new": state,
            "tried": attempts,
            "after": _later(tx.now, attempts),
            "why": problem[:2000],
        },
    )
    return state


def _later(now: datetime, attempts: int) -> datetime:
    return now + timedelta(seconds=2.0**attempts)

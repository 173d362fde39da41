"""The routing queue: the events that wait for a routing decision, and those that no router could decide about.

It has one row for each pending and each quarantined event, and the row of ``event`` has the state. A row of the queue
is written with its event and deleted with the decision. So the cost of a round does not grow with history, and routing
an event changes no index of ``event``.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

import sqlalchemy as sa

from functory.engine import backoff
from functory.engine.database.clock import time_of_id
from functory.engine.database.connection import Tx
from functory.engine.database.id_lists import one_of
from functory.engine.database.schema import Id, Instant, Words, event, routing_queue
from functory.engine.events import outbox
from functory.engine.events.event_row import EVENT_COLUMNS, EventRow

MAX_ROUTE_ATTEMPTS = 5
# First and longest wait (seconds) of an event that could not be routed.
FIRST_ROUTE_PAUSE, MAX_ROUTE_PAUSE = 2.0, 16.0

_LEAST = "00000000-0000-0000-0000-000000000000"
_OPEN = routing_queue.c.quarantined.is_(False)


@dataclass(frozen=True)
class Taken:
    """Locked pending events, in order. ``unpublished`` are those that the outbox never had.

    ``beside`` are the values of further columns; empty without events.
    """

    events: Sequence[EventRow] = ()
    unpublished: Sequence[EventRow] = ()
    beside: Sequence[Any] = ()


def add(tx: Tx, ids: Sequence[str], *, published: bool = False) -> None:
    """Queue new events, in their transaction. ``published``: they are in the outbox as well."""
    tx.insert(
        routing_queue,
        [{"quarantined": False, "event_id": id_, "route_after": None, "published": published} for id_ in ids],
    )


def oldest_pending(tx: Tx) -> datetime | None:
    """Return when the oldest pending event was made; None when all events are routed."""
    id_ = tx.scalar(
        sa.select(routing_queue.c.event_id).where(_OPEN).order_by(routing_queue.c.event_id).limit(1)
    )
    return None if id_ is None else time_of_id(id_)


def count_pending(tx: Tx) -> int:
    """Return the number of events that wait for a routing decision."""
    return tx.scalar(sa.select(sa.func.count()).select_from(routing_queue).where(_OPEN)) or 0


def count_quarantined(tx: Tx) -> int:
    """Return the number of quarantined events."""
    count = sa.select(sa.func.count()).select_from(routing_queue).where(routing_queue.c.quarantined.is_(True))
    return int(tx.scalar(count) or 0)


def _pending(*what: Any) -> Any:
    due = sa.or_(
        routing_queue.c.route_after.is_(None),
        routing_queue.c.route_after <= sa.bindparam("now", type_=Instant),
    )
    waiting = sa.select(*what).where(_OPEN, due).order_by(routing_queue.c.event_id)
    return waiting.with_for_update(of=routing_queue, skip_locked=True)


def _pending_events(beside: Sequence[Any]) -> Any:
    found = _pending(*EVENT_COLUMNS, routing_queue.c.published, *beside)
    return found.join(event, event.c.id == routing_queue.c.event_id)


_LIMIT = sa.bindparam("limit", type_=sa.Integer)


# Built once, because every router runs them in every round.
@functools.cache
def _take(beside: Sequence[Any]) -> Any:
    return _pending_events(beside).limit(_LIMIT)


@functools.cache
def _take_one(beside: Sequence[Any]) -> Any:
    return _pending_events(beside).where(routing_queue.c.event_id == sa.bindparam("id", type_=Id))


_IDS = _pending(routing_queue.c.event_id).limit(_LIMIT)

# A routing statement returns the event, whether it was published, and the columns beside.
_PUBLISHED_AT = len(EVENT_COLUMNS)


def _lock_pending(tx: Tx, statement: Any, values: Mapping[str, Any], also: Sequence[Any]) -> Taken:
    columns = [*EVENT_COLUMNS, routing_queue.c.published, *also]
    events: list[EventRow] = []
    unpublished: list[EventRow] = []
    beside: Sequence[Any] = ()
    for found in tx.values(statement, {"now": tx.now, **values}, columns):
        row = EventRow(*found[:_PUBLISHED_AT])
        events.append(row)
        if not found[_PUBLISHED_AT]:
            unpublished.append(row)
        beside = found[_PUBLISHED_AT + 1 :]
    return Taken(events, unpublished, beside)


def take_pending(tx: Tx, limit: int, beside: tuple[Any, ...] = ()) -> Taken:
    """Lock up to ``limit`` pending events, in order.

    ``beside`` are further columns, with the same value in each row: one snapshot of the database has
    them and the events. They may have the parameter ``now``.
    """
    return _lock_pending(tx, _take(beside), {"limit": limit}, beside)


def pending_ids(tx: Tx, limit: int) -> list[str]:
    """Return the ids of pending events, without reading or locking their rows."""
    return [str(id_) for (id_,) in tx.execute(_IDS, {"now": tx.now, "limit": limit})]


def take_one(tx: Tx, id_: str, beside: tuple[Any, ...] = ()) -> Taken:
    """Lock one event if it is still pending. Returns it, or nothing. ``beside`` as in :func:`take_pending`."""
    return _lock_pending(tx, _take_one(beside), {"id": id_}, beside)


_FIRST = (
    sa.select(routing_queue.c.event_id)
    .where(_OPEN, routing_queue.c.route_after.is_(None))
    .order_by(routing_queue.c.event_id)
    .limit(1)
)

_OWN = routing_queue.c.event_id == sa.bindparam("own", type_=Id)

_TRIED = (
    sa.select(event.c.route_attempts, routing_queue.c.published)
    .join(routing_queue, routing_queue.c.event_id == event.c.id)
    .where(_OPEN, _OWN)
    .with_for_update(of=routing_queue)
)

_FAILED = (
    sa.update(event)
    .where(event.c.id == sa.bindparam("own", type_=Id), event.c.state == "pending")
    .values(
        state=sa.bindparam("new"),
        route_attempts=sa.bindparam("tried"),
        problem=sa.bindparam("why", type_=Words),
    )
)

_PUT_OFF = (
    sa.update(routing_queue)
    .where(_OPEN, _OWN)
    .values(
        quarantined=sa.bindparam("given_up", type_=sa.Boolean),
        route_after=sa.bindparam("after", type_=Instant),
        published=True,
    )
)

_ROUTED = (
    sa.update(event)
    .where(one_of(event.c.id), event.c.state == "pending")
    .values(state="routed", routed_at=sa.bindparam("now", type_=Instant), problem=None)
)

_DONE = sa.delete(routing_queue).where(_OPEN, one_of(routing_queue.c.event_id))


_DONE_AND_ROUTED = _ROUTED.add_cte(_DONE.cte("done"))

_TAKE_UNPUBLISHED = (
    sa.select(*EVENT_COLUMNS)
    .join(routing_queue, routing_queue.c.event_id == event.c.id)
    .where(
        _OPEN,
        routing_queue.c.published.is_(False),
        routing_queue.c.event_id > sa.bindparam("after", type_=Id),
    )
    .order_by(routing_queue.c.event_id)
    .limit(_LIMIT)
    .with_for_update(of=routing_queue, skip_locked=True)
)

_PUBLISH = sa.update(routing_queue).where(_OPEN, one_of(routing_queue.c.event_id)).values(published=True)


def first_unrouted(tx: Tx) -> str | None:
    """Return the oldest pending event without a failed routing; None when there is none.

    Read it before anything that depends on the order of events: later reads then see everything that was routed so far.
    """
    return tx.scalar(_FIRST)


def take_unpublished(tx: Tx, limit: int, after: str | None) -> list[EventRow]:
    """Take up to ``limit`` waiting events with ids above ``after`` that the outbox never had, in order. The caller puts
    them there.
    """
    rows = tx.all(EventRow, _TAKE_UNPUBLISHED, {"after": after or _LEAST, "limit": limit})
    if rows:
        tx.execute(_PUBLISH, {"ids": [row.id for row in rows]})
    return rows


def mark_routed(tx: Tx, ids: Sequence[str]) -> None:
    """pending → routed: final, in the transaction of the events' firings."""
    given = {"ids": list(ids), "now": tx.now}
    if tx.dialect == "postgresql":
        tx.later(_DONE_AND_ROUTED, given)
    else:
        tx.execute(_DONE, given)
        tx.execute(_ROUTED, given)


def mark_failed(tx: Tx, id_: str, problem: str) -> str:
    """pending → pending with backoff, or → quarantined at the fifth failure. Returns the new state.

    Subscribers need not wait for the router: the event goes into the outbox if it never was there.
    """
    row = tx.first(_TRIED, {"own": id_})
    if row is None:
        return "routed"
    attempts = row["route_attempts"] + 1
    state = "quarantined" if attempts >= MAX_ROUTE_ATTEMPTS else "pending"
    tx.execute(_FAILED, {"own": id_, "new": state, "tried": attempts, "why": problem[:2000]})
    after = None if state == "quarantined" else _later(tx.now, attempts)
    tx.execute(_PUT_OFF, {"own": id_, "given_up": state == "quarantined", "after": after})
    if not row["published"]:
        outbox.put(tx, [id_])
    return state


def release(tx: Tx, ids: Sequence[str]) -> None:
    """quarantined → pending, in the queue."""
    tx.execute(
        sa.update(routing_queue)
        .where(routing_queue.c.quarantined.is_(True), routing_queue.c.event_id.in_(ids))
        .values(quarantined=False, route_after=None)
    )


def end_wait(tx: Tx, address: str) -> None:
    """Let the pending events of a source (its ``source`` attribute) be routed now."""
    theirs = sa.select(event.c.id).where(event.c.id == routing_queue.c.event_id, event.c.source == address)
    tx.execute(
        sa.update(routing_queue)
        .where(_OPEN, routing_queue.c.route_after.is_not(None), theirs.exists())
        .values(route_after=None)
    )
    tx.wake("events")


def _later(now: datetime, attempts: int) -> datetime:
    return now + timedelta(seconds=backoff.pause(attempts, FIRST_ROUTE_PAUSE, MAX_ROUTE_PAUSE))

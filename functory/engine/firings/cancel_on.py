"""Cancel-on: events that cancel the open executions and buffered matches of earlier events of a trigger.

The router records that an event matched a cancel-on rule, in the transaction that routes the event. The cancellation is
due once every earlier event is routed: only then does everything exist that it may have to cancel. Open executions are
cancelled at once, or by the worker that runs them; buffered matches are dropped. Later events are not affected.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

import sqlalchemy as sa

from functory.engine.database.id_lists import one_of_keys
from functory.engine.database.schema import Id, buffered_match, cancellation, event, execution, match_buffer
from functory.engine.database.transaction import Tx
from functory.engine.database.typed_rows import TypedRow, columns
from functory.engine.events import routing_queue
from functory.engine.events.event_row import EVENT_COLUMNS, EventRow
from functory.engine.executions import open_executions
from functory.engine.executions.cancellation import OPEN, cancel_open
from functory.engine.firings.admission import Suppress, SuppressedMatch
from functory.engine.flow_control.trigger_row import TriggerRow


@dataclass(frozen=True)
class Cancel:
    """An event that the trigger's cancel-on rule number ``rule`` matched."""

    trigger: TriggerRow
    rule: int


@dataclass(frozen=True)
class DueCancellation:
    """A recorded :class:`Cancel` whose earlier events are all routed. ``event`` is the row of the cancelling event."""

    trigger_id: str
    event_id: str
    rule: int
    event: EventRow


@dataclass(frozen=True)
class EarlierMatch:
    """What an earlier ``event`` (a row) of the trigger started at ``since``."""

    event: EventRow
    since: datetime


@dataclass(frozen=True)
class EarlierBufferedMatch(EarlierMatch):
    """A match that waits in the buffer of a key."""

    key: str
    bytes: int


@dataclass(frozen=True)
class EarlierExecution(EarlierMatch):
    """An open execution."""

    id: str


class _Recorded(TypedRow, frozen=True):
    """A cancellation as it was recorded."""

    trigger_id: str
    event_id: str
    rule: int


class _Buffered(TypedRow, frozen=True):
    """A buffered match that may be dropped."""

    event_id: str
    time: datetime
    key: str
    bytes: int


class _Open(TypedRow, frozen=True):
    """An open execution that may be cancelled."""

    event_id: str
    created_at: datetime
    id: str


def record(tx: Tx, found: Sequence[tuple[EventRow, Cancel]]) -> None:
    """Record cancellations (event row, rule). Each is due once every event before it is routed."""
    tx.insert(
        cancellation,
        [
            {"trigger_id": one.trigger.id, "event_id": row.id, "rule": one.rule, "time": tx.now}
            for row, one in found
        ],
    )
    if found:
        tx.wake("flow")


def are_due(tx: Tx) -> bool:
    """Return True when a cancellation is due. Locks nothing."""
    if tx.scalar(_ANY) is None:
        return False
    first = routing_queue.first_unrouted(tx)
    return first is None or tx.scalar(_ANY_BEFORE, {"first": first}) is not None


def take_due(tx: Tx, limit: int) -> list[DueCancellation]:
    """Lock up to ``limit`` cancellations that are due, oldest first, with their events."""
    first = routing_queue.first_unrouted(tx)
    given = {"limit": limit}
    rows = (
        tx.all(_Recorded, _DUE, given)
        if first is None
        else tx.all(_Recorded, _DUE_BEFORE, {**given, "first": first})
    )
    events = _events(tx, [row.event_id for row in rows])
    return [DueCancellation(row.trigger_id, row.event_id, row.rule, events[row.event_id]) for row in rows]


def delete(tx: Tx, done: Sequence[DueCancellation]) -> None:
    """Delete cancellations that are finished."""
    if done:
        keys = [(one.trigger_id, one.event_id, one.rule) for one in done]
        tx.execute(sa.delete(cancellation).where(one_of_keys([*cancellation.primary_key.columns], keys)))


# Built once, because flow control runs them in every round.
_BEFORE = cancellation.c.event_id < sa.bindparam("first", type_=Id)
_ANY = sa.select(sa.literal(1)).select_from(cancellation).limit(1)
_ANY_BEFORE = _ANY.where(_BEFORE)
_DUE = (
    sa.select(*columns(_Recorded, cancellation))
    .order_by(cancellation.c.event_id, cancellation.c.trigger_id, cancellation.c.rule)
    .limit(sa.bindparam("limit", type_=sa.Integer))
    .with_for_update(skip_locked=True)
)
_DUE_BEFORE = _DUE.where(_BEFORE)


def _events(tx: Tx, ids: Sequence[str]) -> dict[str, EventRow]:
    statement = sa.select(*EVENT_COLUMNS).where(event.c.id.in_(sorted(set(ids))))
    return {row.id: row for row in tx.all(EventRow, statement)} if ids else {}


def lock_buffers(tx: Tx, cancellations: Sequence[DueCancellation]) -> None:
    """Lock the buffers that have matches which these may drop."""
    if not tx.writes_concurrently or not cancellations:
        return
    earlier = sa.or_(*(sa.and_(*_earlier(one)) for one in cancellations))
    keys = tx.connection.execute(
        sa.select(buffered_match.c.trigger_id, buffered_match.c.key).distinct().where(earlier)
    ).all()
    if keys:
        mine = one_of_keys((match_buffer.c.trigger_id, match_buffer.c.key), [tuple(key) for key in keys])
        order = (match_buffer.c.trigger_id, match_buffer.c.key)
        tx.rows(sa.select(*order).where(mine).order_by(*order).with_for_update())


def load_earlier_matches(tx: Tx, by: DueCancellation) -> list[EarlierBufferedMatch]:
    """Return the trigger's buffered matches of events before the cancelling one, oldest first."""
    statement = sa.select(*columns(_Buffered, buffered_match)).where(*_earlier(by))
    rows = tx.all(_Buffered, statement.order_by(buffered_match.c.event_id))
    events = _events(tx, [row.event_id for row in rows])
    return [EarlierBufferedMatch(events[row.event_id], row.time, row.key, row.bytes) for row in rows]


def drop_matches(
    tx: Tx, trigger: TriggerRow, by: DueCancellation, matches: Sequence[EarlierBufferedMatch]
) -> list[SuppressedMatch]:
    """Delete buffered matches. The caller writes the firings of those that are returned, in the same transaction."""
    for match in matches:
        tx.execute(
            sa.delete(buffered_match).where(
                buffered_match.c.trigger_id == by.trigger_id, buffered_match.c.event_id == match.event.id
            )
        )
        # The buffer is due now: it may be empty.
        tx.execute(
            sa.update(match_buffer)
            .where(match_buffer.c.trigger_id == by.trigger_id, match_buffer.c.key == match.key)
            .values(count=match_buffer.c.count - 1, bytes=match_buffer.c.bytes - match.bytes, due_at=tx.now)
        )
    stop = Suppress(trigger, "cancelled", detail=f"by event {by.event_id}")
    return [(match.event, stop) for match in matches]


def load_open_executions(tx: Tx, by: DueCancellation) -> list[EarlierExecution]:
    """Return the trigger's open executions of events before the cancelling one, in the order of their ids."""
    mine = open_executions.open_ids(lambda columns: columns.trigger_id == by.trigger_id)
    rows = tx.all(
        _Open,
        sa.select(*columns(_Open, execution))
        .where(
            execution.c.id.in_(mine),
            execution.c.state.in_(OPEN),
            execution.c.event_id < by.event_id,
        )
        .order_by(execution.c.id),
    )
    events = _events(tx, [row.event_id for row in rows])
    return [EarlierExecution(events[row.event_id], row.created_at, row.id) for row in rows]


def cancel_executions(
    tx: Tx, trigger: TriggerRow, by: DueCancellation, executions: Sequence[EarlierExecution]
) -> int:
    """Cancel open executions: at once, or by the worker that runs them. Returns the number of those cancelled."""
    because = f"trigger {trigger.name}, by event {by.event_id}"
    return sum(cancel_open(tx, one.id, because) is not None for one in executions)


def _earlier(by: DueCancellation) -> list[sa.ColumnElement[bool]]:
    """Return the buffered matches of events before the cancelling one."""
    return [buffered_match.c.trigger_id == by.trigger_id, buffered_match.c.event_id < by.event_id]

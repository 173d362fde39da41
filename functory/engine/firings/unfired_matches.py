"""Unfired matches: the execution of a trigger for an event that it did not fire for, started by an operator, once.

The recorded decision stays, and a suppressed match counts as resumed. The caller locks a match here, makes its input,
and starts it in the same transaction. Guards and flow control do not apply to it; they apply to what it causes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa

from functory.engine.database.schema import (
    decided_by_version,
    event,
    execution,
    firing,
    suppression,
    trigger,
    trigger_version,
)
from functory.engine.database.transaction import Tx
from functory.engine.database.typed_rows import TypedRow, columns
from functory.engine.errors import Conflict, NotFound
from functory.engine.events import causation
from functory.engine.events.event_row import EVENT_COLUMNS, EventRow
from functory.engine.events.store import as_id
from functory.engine.executions import queue_rows
from functory.engine.executions.start import new_row
from functory.engine.firings import suppressions
from functory.engine.firings.launch import event_link
from functory.engine.flow_control.trigger_row import TriggerRow
from functory.engine.functions.version_row import StartVersion

_RESUMED = suppressions.CHANGED.values(resumed=suppression.c.resumed + sa.bindparam("n"))


class _Decision(TypedRow, frozen=True):
    """What a trigger decided about an event, as it allows a replay or not."""

    trigger_id: str
    event_id: str
    decision: str
    reason: str | None
    execution_id: str | None


class _DecisionOfVersion(_Decision, frozen=True):
    """A decision with the definition that decided."""

    definition: Mapping[str, Any]


_DECISION = columns(_Decision, firing)


@dataclass(frozen=True)
class UnfiredMatch:
    """A trigger, its definition that counts for the match, and the row of an event that it did not fire for.

    ``reason`` is why it was suppressed; None: the trigger has no decision about the event.
    """

    trigger_id: str
    trigger: str
    definition: Mapping[str, Any]
    event: EventRow
    reason: str | None


@dataclass(frozen=True)
class LateStart:
    """A match to start: the function version and the input."""

    match: UnfiredMatch
    version: StartVersion
    input: Mapping[str, Any]


def lock_suppressed(tx: Tx, trigger_name: str, event_id: str) -> UnfiredMatch:
    """Return a suppressed match with the definition that has decided. Raises :class:`NotFound`, and :class:`Conflict`
    when the trigger has fired for the event.
    """
    id_ = as_id(event_id, "event")
    source = lock_events(tx, [id_]).get(id_)
    stopped = tx.one(
        _DecisionOfVersion,
        sa.select(*_DECISION, trigger_version.c.definition)
        .join(trigger, trigger.c.id == firing.c.trigger_id)
        .join(trigger_version, decided_by_version)
        .where(firing.c.event_id == id_, trigger.c.name == trigger_name),
    )
    if source is None or stopped is None:
        raise NotFound(
            f"{trigger_name} has decided nothing about event {id_}",
            try_=f"functory event why {id_}",
        )
    _check_unfired(trigger_name, stopped)
    return UnfiredMatch(stopped.trigger_id, trigger_name, stopped.definition, source, stopped.reason)


def lock_event(tx: Tx, row: TriggerRow, event_id: str) -> UnfiredMatch:
    """Return the match of a trigger (its ``row``) with any event that it did not fire for.

    The caller has checked that the event matches. Raises :class:`NotFound`, and :class:`Conflict` when the trigger has
    fired for the event or will decide about it.
    """
    id_ = as_id(event_id, "event")
    source = lock_events(tx, [id_]).get(id_)
    if source is None:
        raise NotFound(f"event {event_id} not found", try_="functory event list")
    decided = tx.one(
        _Decision,
        sa.select(*_DECISION).where(firing.c.trigger_id == row.id, firing.c.event_id == id_),
    )
    if decided is not None:
        _check_unfired(row.name, decided)
    elif source.state == "pending":
        raise Conflict(
            f"event {id_} is not routed yet",
            "the trigger has not decided about it",
            "wait for the router",
        )
    return UnfiredMatch(row.id, row.name, row.definition, source, None if decided is None else decided.reason)


def lock_events(tx: Tx, ids: Collection[str]) -> dict[str, EventRow]:
    """Return those of these events that there are, by id. They are not pruned before their new executions exist."""
    locked = sa.select(*EVENT_COLUMNS).where(event.c.id.in_(ids)).order_by(event.c.id)
    found = tx.all(EventRow, locked.with_for_update(read=True, key_share=True))
    return {row.id: row for row in found}


def start_one(tx: Tx, one: LateStart) -> dict[str, Any]:
    """Start one match. Returns the execution's row. Raises :class:`Conflict` when it was started before."""
    started = start_once(tx, [one])
    if not started:
        raise Conflict(
            f"event {one.match.event.id} was replayed for {one.match.trigger} already",
            "a suppressed match is replayed once",
        )
    return started[0][1]


def start_once(tx: Tx, starts: Sequence[LateStart]) -> list[tuple[UnfiredMatch, dict[str, Any]]]:
    """Write the executions that triggers would have started, each with the lineage that it would have had. Returns the
    matches with their executions' rows, without those that were started before.
    """
    rows = [(one.match, _row(tx, one)) for one in starts]
    written = tx.insert_returning(execution, [row for _, row in rows], execution.c.id)
    started = [(match, row) for match, row in rows if row["id"] in written]
    if not started:
        return []
    queue_rows.add(tx, [row for _, row in started])
    counts = Counter(
        (match.trigger_id, match.event.root_id, match.reason)
        for match, _ in started
        if match.reason is not None
    )
    if counts:
        tx.execute(
            _RESUMED,
            [{"t": key[0], "r": key[1], "w": key[2], "n": count} for key, count in sorted(counts.items())],
        )
    tx.wake("executions")
    return started


def replay_key(trigger_id: str, event_id: str) -> str:
    """Return the idempotency key of the execution that an operator starts for an unfired match: at most one."""
    return f"replay:{trigger_id}:{event_id}"


def _row(tx: Tx, one: LateStart) -> dict[str, Any]:
    match, source = one.match, one.match.event
    return new_row(
        tx,
        one.version,
        one.input,
        cause="replay",
        root_id=source.root_id,
        depth=source.depth + 1,
        chain=causation.extend_chain(source.chain, event_link(match.trigger_id, match.trigger, source)),
        event_id=source.id,
        idempotency_key=replay_key(match.trigger_id, source.id),
    )


def _check_unfired(trigger_name: str, decided: _Decision) -> None:
    """Raise :class:`Conflict` for a firing that has fired."""
    if decided.decision == "fired":
        raise Conflict(
            f"{trigger_name} has fired for event {decided.event_id}",
            f"execution {decided.execution_id}",
            f"functory execution replay {decided.execution_id}",
        )

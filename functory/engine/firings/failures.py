"""Failed matches: a trigger matched an event, and no execution could be made of the match.

The function does not exist, the input cannot be made, or the condition has no value. The firing keeps each one
(``functory.engine.firings.suppressions``). Here each trigger has one row with its last failure and a count, and sends
an event ``trigger.failed``: at most one in ``REPORT_SECONDS``, with the number of failures since the one before.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any

import sqlalchemy as sa

from functory.engine.database.connection import Database
from functory.engine.database.schema import Id, Instant, Words, trigger, trigger_failure
from functory.engine.database.transaction import Tx
from functory.engine.database.typed_rows import TypedRow, columns
from functory.engine.events import store as event_store
from functory.engine.events.event_row import FiringEvent
from functory.engine.firings.admission import Suppress, SuppressedMatch

EVENT_TYPE = "trigger.failed"

# Reasons of suppressed firings that are faults of the trigger or of its function, and no decision of a guard.
REASONS = frozenset({"function_unavailable", "input_error", "condition_error"})

# A trigger that fails for each event of a flood must not double the flood.
REPORT_SECONDS = 60

MAX_ERROR = 1000


class _Failing(TypedRow, frozen=True):
    """What decides whether a trigger that fails sends another event (columns of table ``trigger_failure``)."""

    trigger_id: str
    unreported: int
    reported_at: datetime | None


_LOCKED = (
    sa.select(*columns(_Failing, trigger_failure))
    .where(trigger_failure.c.trigger_id.in_(sa.bindparam("triggers", expanding=True)))
    .order_by(trigger_failure.c.trigger_id)
    .with_for_update()
)
_UPDATED = (
    sa.update(trigger_failure)
    .where(trigger_failure.c.trigger_id == sa.bindparam("own", type_=Id))
    .values(
        count=trigger_failure.c.count + sa.bindparam("more"),
        unreported=sa.bindparam("left"),
        version=sa.bindparam("by"),
        event_id=sa.bindparam("of", type_=Id),
        reason=sa.bindparam("why"),
        error=sa.bindparam("text", type_=Words),
        at=sa.bindparam("now", type_=Instant),
        reported_at=sa.bindparam("reported", type_=Instant),
    )
)


def record(tx: Tx, refused: Sequence[SuppressedMatch]) -> list[dict[str, Any]]:
    """Count the failed ones among suppressed matches. Returns the ``trigger.failed`` events to append.

    A failure about a ``trigger.failed`` event is counted and sends none: it would go on for ever.
    """
    failed: dict[str, list[SuppressedMatch]] = {}
    for row, stop in refused:
        if stop.reason in REASONS:
            failed.setdefault(stop.trigger.id, []).append((row, stop))
    if not failed:
        return []
    tx.insert_missing(
        trigger_failure,
        [{"trigger_id": id_, **_first(tx, *matches[-1])} for id_, matches in sorted(failed.items())],
    )
    new_events: list[dict[str, Any]] = []
    updates: list[dict[str, Any]] = []
    for known in tx.all(_Failing, _LOCKED, {"triggers": sorted(failed)}):
        matches = failed[known.trigger_id]
        row, stop = matches[-1]
        unreported, reported_at = known.unreported + len(matches), known.reported_at
        reportable = [match for match in matches if match[0].type != EVENT_TYPE]
        if reportable and is_due(reported_at, tx.now):
            new_events.append(_failed_event(tx, *reportable[-1], unreported))
            unreported, reported_at = 0, tx.now
        updates.append(
            {
                "own": known.trigger_id,
                "more": len(matches),
                "left": unreported,
                "by": stop.trigger.version,
                "of": row.id,
                "why": stop.reason,
                "text": stop.detail[:MAX_ERROR],
                "now": tx.now,
                "reported": reported_at,
            }
        )
    tx.execute(_UPDATED, updates)
    return new_events


def is_due(reported_at: datetime | None, now: datetime) -> bool:
    """Return whether a trigger that last sent its event at ``reported_at`` may send another one."""
    return reported_at is None or now - reported_at >= timedelta(seconds=REPORT_SECONDS)


def recent(database: Database, within: timedelta, limit: int = 20) -> list[dict[str, Any]]:
    """Return the last failure of each trigger that failed within this time, newest first.

    Each has ``trigger`` (its name), ``version``, ``count`` (of all its failures), ``reason``, ``error``, ``event_id``
    and ``at``.
    """
    with database.read() as tx:
        return tx.rows(
            _NAMED.where(trigger_failure.c.at > tx.now - within)
            .order_by(trigger_failure.c.at.desc())
            .limit(limit)
        )


def last(database: Database, trigger_id: str) -> dict[str, Any] | None:
    """Return the last failure of a trigger as :func:`recent` has it; None without any."""
    with database.read() as tx:
        return tx.first(_NAMED.where(trigger_failure.c.trigger_id == trigger_id))


_NAMED = (
    sa.select(
        trigger.c.name.label("trigger"),
        *(trigger_failure.c[name] for name in ("version", "count", "reason", "error", "event_id", "at")),
    )
    .join(trigger, trigger.c.id == trigger_failure.c.trigger_id)
    .where(trigger.c.state != "deleted")
)


def _first(tx: Tx, row: FiringEvent, stop: Suppress) -> dict[str, Any]:
    return {
        "count": 0,
        "unreported": 0,
        "version": stop.trigger.version,
        "event_id": row.id,
        "reason": stop.reason,
        "error": "",
        "at": tx.now,
        "reported_at": None,
    }


def _failed_event(tx: Tx, row: FiringEvent, stop: Suppress, count: int) -> dict[str, Any]:
    """Return the event about a failed match. It has the match's place in the causal tree, so that a loop through it is
    seen by the guards.
    """
    name = stop.trigger.name
    data = {
        "trigger": name,
        "version": stop.trigger.version,
        "event_id": row.id,
        "event_type": row.type,
        "reason": stop.reason,
        "error": stop.detail[:MAX_ERROR],
        "count": count,
    }
    new_event = event_store.record(tx, EVENT_TYPE, name, data, source=f"/functory/triggers/{name}")
    return new_event | {
        "root_id": row.root_id,
        "cause_execution_id": row.cause_execution_id,
        "depth": row.depth,
        "chain": list(row.chain),
    }

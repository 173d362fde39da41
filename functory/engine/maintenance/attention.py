"""What waits for a person: counts of faults that nothing mends by itself, and of what guards have stopped.

All of it is read from small tables and short ranges of indexes: its cost follows what is open, and not the history.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

import sqlalchemy as sa

from functory.engine.access import scopes
from functory.engine.access.scopes import Scope
from functory.engine.database.schema import (
    approval,
    breaker,
    compensation,
    execution,
    firing,
    routing_queue,
    source,
    trigger,
    trigger_failure,
    verification,
)
from functory.engine.database.transaction import Tx
from functory.engine.database.typed_rows import TypedRow
from functory.engine.firings.suppressions import GUARD_REASONS
from functory.engine.sources import source_breaker

# Failed matches of a trigger that are older are no news.
RECENT = timedelta(hours=24)
# The newest suppressed matches that are looked at: a flood of one trigger hides others after this number.
SUPPRESSED = 2_000


def counts(tx: Tx, scope: Scope = None) -> dict[str, int]:
    """Return the counts by kind: ``questions``, ``stuck_sagas``, ``open_breakers`` and ``failing_triggers`` in
    ``scope``; without a scope also ``quarantined_events``, ``failed_sources`` and ``violations``, which belong to the
    whole installation.
    """
    wanted = {
        "questions": _number(approval.c.id, approval).where(
            approval.c.state == "pending", *scopes.approvals(scope)
        ),
        "stuck_sagas": _number(sa.distinct(compensation.c.saga_id), compensation, execution)
        .where(sa.text("compensation.state = 'failed'"), execution.c.id == compensation.c.saga_id)
        .where(*scopes.executions(scope)),
        "open_breakers": _number(breaker.c.trigger_id, breaker, trigger)
        .where(breaker.c.open_until > tx.now, trigger.c.id == breaker.c.trigger_id)
        .where(*scopes.triggers(scope)),
        "failing_triggers": _number(trigger_failure.c.trigger_id, trigger_failure, trigger)
        .where(trigger_failure.c.at >= tx.now - RECENT, trigger.c.id == trigger_failure.c.trigger_id)
        .where(trigger.c.state == "enabled", *scopes.triggers(scope)),
    }
    if scope is None:
        wanted |= {
            "quarantined_events": _number(routing_queue.c.event_id, routing_queue).where(
                routing_queue.c.quarantined.is_(True)
            ),
            "failed_sources": _number(source.c.id, source).where(
                sa.or_(
                    sa.and_(source.c.state == "enabled", source.c.problem.is_not(None)),
                    source_breaker.is_open(),
                )
            ),
            "violations": sa.select(sa.func.coalesce(sa.func.sum(verification.c["count"]), 0)),
        }
    row = tx.first(sa.select(*(one.scalar_subquery().label(name) for name, one in wanted.items())))
    return {name: int(value) for name, value in (row or {}).items()}


class _StoppedMatch(TypedRow, frozen=True):
    """A match that a guard has stopped, with the name of its trigger."""

    name: str
    reason: str
    root_id: str
    time: datetime


def stopped(tx: Tx, limit: int, scope: Scope = None) -> list[dict[str, Any]]:
    """Return what guards have stopped in the last 24 hours, newest first: ``trigger``, ``reason``, ``root_id`` and
    ``last_at`` of the last match.
    """
    newest = (
        sa.select(firing.c.trigger_id, firing.c.reason, firing.c.root_id, firing.c.time)
        .where(
            firing.c.decision == "suppressed",
            firing.c.time >= tx.now - RECENT,
            *scopes.trigger_ids(firing.c.trigger_id, scope),
        )
        .order_by(firing.c.time.desc())
        .limit(SUPPRESSED)
        .subquery()
    )
    rows = tx.all(
        _StoppedMatch,
        sa.select(trigger.c.name, newest.c.reason, newest.c.root_id, newest.c.time)
        .join(newest, newest.c.trigger_id == trigger.c.id)
        .where(newest.c.reason.in_(sorted(GUARD_REASONS)))
        .order_by(newest.c.time.desc()),
    )
    last: dict[tuple[str, str], _StoppedMatch] = {}
    for row in rows:
        last.setdefault((row.name, row.reason), row)
    return [
        {"trigger": name, "reason": reason, "root_id": row.root_id, "last_at": row.time}
        for (name, reason), row in list(last.items())[:limit]
    ]


def _number(what: Any, *tables: sa.Table) -> sa.Select[Any]:
    return sa.select(sa.func.count(what)).select_from(*tables)

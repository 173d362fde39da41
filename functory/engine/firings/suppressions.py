"""Suppressed matches: a firing with its reason for each match, and a count for each (trigger, root, reason).

An event storm may be suppressed ten thousand times. Each (trigger, event) keeps its firing, but only the first of a
(trigger, root, reason) stores its chain and sends a ``trigger.suppressed`` event; the others are counted on its row.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from datetime import timedelta
from typing import Any, NamedTuple

import sqlalchemy as sa

from functory.engine.database.connection import Database
from functory.engine.database.id_lists import one_of_keys
from functory.engine.database.schema import Instant, suppression, trigger
from functory.engine.database.transaction import Tx
from functory.engine.events import store as event_store
from functory.engine.events.event_row import FiringEvent
from functory.engine.firings.admission import Suppress, SuppressedMatch
from functory.engine.flow_control.circuit_breaker import Breakers

# Reasons of guards: sent as an event, shown on the execution whose next step was suppressed.
GUARD_REASONS = frozenset(
    {"own_event", "cycle", "depth", "budget", "rate", "source_rate", "repeat_rate", "breaker_open"}
)

Recorded = tuple[FiringEvent, Suppress, dict[str, Any]]


class _Key(NamedTuple):
    """The primary key of a suppression."""

    trigger_id: str
    root_id: str
    reason: str


# Built once, because they run for every batch with a suppressed match.
_KNOWN = sa.select(suppression.c.trigger_id, suppression.c.root_id, suppression.c.reason).where(
    one_of_keys((suppression.c.trigger_id, suppression.c.root_id, suppression.c.reason))
)
# Changes the row of a trigger ``t``, a root ``r`` and a reason ``w``.
CHANGED = sa.update(suppression).where(
    suppression.c.trigger_id == sa.bindparam("t"),
    suppression.c.root_id == sa.bindparam("r"),
    suppression.c.reason == sa.bindparam("w"),
)
_COUNTED = CHANGED.values(
    count=suppression.c.count + sa.bindparam("n"),
    last_at=sa.bindparam("at", type_=Instant),
)


def record(tx: Tx, refused: Sequence[SuppressedMatch]) -> tuple[list[dict[str, Any]], list[Recorded]]:
    """Count suppressions. Returns the events to append, and for each match its columns of the firing row."""
    if not refused:
        return [], []
    counts: Counter[_Key] = Counter(_key(row, stop) for row, stop in refused)
    first = {_key(row, stop): row for row, stop in reversed(refused)}
    known = {_Key(*row) for row in tx.execute(_KNOWN, {"keys": sorted(counts)})}
    tx.insert_missing(
        suppression,
        [
            {
                "trigger_id": key.trigger_id,
                "root_id": key.root_id,
                "reason": key.reason,
                "count": 0,
                "resumed": 0,
                "first_event_id": first[key].id,
                "first_at": tx.now,
                "last_at": tx.now,
            }
            for key in sorted(counts)
            if key not in known
        ],
    )
    tx.execute(
        _COUNTED,
        [
            {"t": key.trigger_id, "r": key.root_id, "w": key.reason, "n": count, "at": tx.now}
            for key, count in sorted(counts.items())
        ],
    )
    new_events: list[dict[str, Any]] = []
    recorded: list[Recorded] = []
    for row, stop in refused:
        fresh = _key(row, stop) not in known and first[_key(row, stop)] is row
        if fresh and stop.reason in GUARD_REASONS:
            new_events.append(_suppressed_event(tx, row, stop))
        recorded.append(
            (
                row,
                stop,
                {
                    "decision": "suppressed",
                    "reason": stop.reason,
                    "limit_value": stop.limit,
                    "actual_value": stop.actual,
                    "detail": stop.detail or None,
                    "chain": list(row.chain) if fresh or len(row.chain) < 2 else None,
                },
            )
        )
    return new_events, recorded


def _key(row: FiringEvent, stop: Suppress) -> _Key:
    return _Key(stop.trigger.id, row.root_id, stop.reason)


def _suppressed_event(tx: Tx, row: FiringEvent, stop: Suppress) -> dict[str, Any]:
    """Return the event ``trigger.suppressed`` of a guard. It is inert: it can never start a loop itself."""
    name = stop.trigger.name
    data = {
        "trigger": name,
        "version": stop.trigger.version,
        "event_id": row.id,
        "reason": stop.reason,
        "limit": stop.limit,
        "value": stop.actual,
        "chain": [*(link["name"] for link in row.chain), name],
        "detail": stop.detail or None,
    }
    new_event = event_store.record(
        tx, "trigger.suppressed", name, data, source=f"/functory/triggers/{name}", inert=True
    )
    return new_event | {
        "root_id": row.root_id,
        "cause_execution_id": row.cause_execution_id,
        "depth": row.depth,
        "chain": list(row.chain),
    }


class Suppressions:
    """Lists suppressed matches."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def list(self, limit: int = 50) -> list[dict[str, Any]]:
        """Return the newest rows: trigger, root, reason, count, first and last time."""
        with self._database.read() as tx:
            return tx.rows(
                sa.select(suppression, trigger.c.name.label("trigger"))
                .outerjoin(trigger, trigger.c.id == suppression.c.trigger_id)
                .order_by(
                    suppression.c.last_at.desc(),
                    suppression.c.trigger_id.desc(),
                    suppression.c.root_id.desc(),
                    suppression.c.reason.desc(),
                )
                .limit(limit)
            )

    def dropped(self, seconds: float) -> list[dict[str, Any]]:
        """Return what guards and pauses have dropped within the last ``seconds`` and was not resumed, most first.

        Each row is a trigger and a reason, with ``count`` and ``last_at``, and ``paused_until`` while the circuit
        breaker of the trigger is open.
        """
        left = sa.func.sum(suppression.c.count - suppression.c.resumed)
        with self._database.read() as tx:
            rows = tx.rows(
                sa.select(
                    suppression.c.trigger_id,
                    sa.func.coalesce(trigger.c.name, "?").label("trigger"),
                    suppression.c.reason,
                    left.label("count"),
                    sa.func.max(suppression.c.last_at).label("last_at"),
                )
                .outerjoin(trigger, trigger.c.id == suppression.c.trigger_id)
                .where(
                    suppression.c.reason.in_(sorted(GUARD_REASONS | {"trigger_paused"})),
                    suppression.c.last_at >= tx.now - timedelta(seconds=seconds),
                )
                .group_by(suppression.c.trigger_id, trigger.c.name, suppression.c.reason)
                .having(left > 0)
                .order_by(left.desc(), suppression.c.trigger_id, suppression.c.reason)
            )
            breakers = Breakers(tx, sorted({row["trigger_id"] for row in rows}))
        return [row | {"paused_until": breakers.open_until(row["trigger_id"])} for row in rows]

"""The circuit breaker of triggers: rows, and therefore exact with any number of routers.

A trigger that violates its rate guard again and again opens its breaker. Until the cool-down has passed, it starts no
execution. This stops loops that leave the system (a written file, a called webhook) and come back without lineage.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any

import sqlalchemy as sa

from functory.engine.database.schema import Instant, breaker
from functory.engine.database.transaction import Tx

# Violations within the window that open the breaker, and how long it stays open (seconds).
VIOLATIONS_TO_OPEN = 5
WINDOW = 300.0
COOL_DOWN = 300.0

# Built once, because a router runs it for every batch.
_OPEN = sa.select(breaker).where(
    breaker.c.trigger_id.in_(sa.bindparam("ids", expanding=True)),
    breaker.c.open_until > sa.bindparam("now", type_=Instant),
)


def open_breakers(tx: Tx, trigger_ids: Sequence[str]) -> dict[str, datetime]:
    """Return the triggers among ``trigger_ids`` whose breaker is open, each with the time at which it closes."""
    if not trigger_ids:
        return {}
    rows = tx.rows(_OPEN, {"ids": list(trigger_ids), "now": tx.now})
    return {row["trigger_id"]: row["open_until"] for row in rows}


def record_violation(tx: Tx, trigger_id: str) -> datetime | None:
    """Count a violation of the rate guard. Returns when the breaker closes, if this violation opened it."""
    statement = sa.select(breaker).where(breaker.c.trigger_id == trigger_id)
    row = tx.first(statement.with_for_update())
    fresh = row is None or (tx.now - row["since"]).total_seconds() > WINDOW
    trips = 1 if row is None or fresh else row["trips"] + 1
    values: dict[str, Any] = {"trips": trips, "since": tx.now if row is None or fresh else row["since"]}
    until = tx.now + timedelta(seconds=COOL_DOWN) if trips == VIOLATIONS_TO_OPEN else None
    if until is not None:
        values["open_until"] = until
    if row is None:
        tx.insert_missing(breaker, [{"trigger_id": trigger_id, "open_until": None, **values}])
    else:
        tx.execute(sa.update(breaker).where(breaker.c.trigger_id == trigger_id).values(**values))
    return until


def close(tx: Tx, trigger_id: str) -> None:
    """Close the breaker on behalf of an operator: the trigger may fire again at once."""
    tx.execute(sa.delete(breaker).where(breaker.c.trigger_id == trigger_id))

"""The circuit breaker of triggers: rows, and therefore exact with any number of routers.

A trigger that violates its rate guard again and again opens its breaker. Until the cool-down has passed, it starts no
execution. This stops loops that leave the system (a written file, a called webhook) and come back without lineage.
"""

from __future__ import annotations

from collections.abc import Mapping, MutableMapping, Sequence
from dataclasses import asdict, dataclass
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


@dataclass(frozen=True)
class Breaker:
    """The state of one breaker: the violations since the first of its window, and when it closes (None: never open)."""

    trips: int
    since: datetime
    open_until: datetime | None = None


def count_violation(known: Breaker | None, now: datetime) -> Breaker:
    """Return the state after one more violation of the rate guard. A pure function."""
    if known is None or (now - known.since).total_seconds() > WINDOW:
        return Breaker(1, now, None if known is None else known.open_until)
    trips = known.trips + 1
    opens = trips == VIOLATIONS_TO_OPEN
    return Breaker(trips, known.since, now + timedelta(seconds=COOL_DOWN) if opens else known.open_until)


class BreakerStates:
    """The breakers of some triggers at ``now``: decisions only, no rows."""

    def __init__(self, states: MutableMapping[str, Breaker], now: datetime) -> None:
        """``states`` has the breaker of each trigger id; it is changed in place."""
        self._states = states
        self._now = now

    def open_until(self, trigger_id: str) -> datetime | None:
        """When the breaker of a trigger closes; None when it is closed."""
        known = self._states.get(trigger_id)
        until = None if known is None else known.open_until
        return until if until is not None and until > self._now else None

    def record_violation(self, trigger_id: str) -> datetime | None:
        """Count a violation of the rate guard. Returns when the breaker closes, if this violation opened it."""
        before = self._states.get(trigger_id)
        after = self._states[trigger_id] = count_violation(before, self._now)
        return None if before is not None and before.open_until == after.open_until else after.open_until


class Breakers(BreakerStates):
    """The breakers of some triggers, as their rows have them. A violation is written at once."""

    def __init__(self, tx: Tx, trigger_ids: Sequence[str]) -> None:
        self._tx = tx
        rows = tx.rows(_OPEN, {"ids": list(trigger_ids), "now": tx.now}) if trigger_ids else []
        super().__init__({row["trigger_id"]: _state(row) for row in rows}, tx.now)

    def record_violation(self, trigger_id: str) -> datetime | None:
        statement = sa.select(breaker).where(breaker.c.trigger_id == trigger_id)
        row = self._tx.first(statement.with_for_update())
        if row is not None:
            self._states[trigger_id] = _state(row)
        opened = super().record_violation(trigger_id)
        values = asdict(self._states[trigger_id])
        if row is None:
            self._tx.insert_missing(breaker, [{"trigger_id": trigger_id, **values}])
        else:
            self._tx.execute(sa.update(breaker).where(breaker.c.trigger_id == trigger_id).values(**values))
        return opened


def _state(row: Mapping[str, Any]) -> Breaker:
    return Breaker(row["trips"], row["since"], row["open_until"])


def close(tx: Tx, trigger_id: str) -> None:
    """Close the breaker on behalf of an operator: the trigger may fire again at once."""
    tx.execute(sa.delete(breaker).where(breaker.c.trigger_id == trigger_id))

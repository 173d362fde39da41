"""The circuit breaker of triggers: rows, and therefore exact with any number of routers.

A trigger that violates its rate guard again and again opens its breaker. Until the cool-down has passed, it starts no
execution. This stops loops that leave the system (a written file, a called webhook) and come back without lineage.

The row also keeps the trigger's usual rate for a while, once a guard that adapts to it has needed it.
"""

from __future__ import annotations

from collections.abc import Mapping, MutableMapping, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import datetime, timedelta
from typing import Any

import sqlalchemy as sa

from functory.engine.database.schema import Instant, breaker
from functory.engine.database.transaction import Tx

# Violations within the window that open the breaker, and how long it stays open (seconds).
VIOLATIONS_TO_OPEN = 5
WINDOW = 300.0
COOL_DOWN = 300.0
# How long a usual rate holds before it is counted again (seconds).
USUAL_RATE_AGE = 3600.0

# Built once, because a router runs it for every batch.
_RELEVANT = sa.select(breaker).where(
    breaker.c.trigger_id.in_(sa.bindparam("ids", expanding=True)),
    sa.or_(
        breaker.c.open_until > sa.bindparam("now", type_=Instant),
        breaker.c.usual_until > sa.bindparam("now", type_=Instant),
    ),
)


@dataclass(frozen=True)
class Breaker:
    """The state of one breaker: the violations since the first of its window, and when it closes (None: never open).

    ``usual_rate`` is the trigger's median of firings a minute, valid until ``usual_until``.
    """

    trips: int
    since: datetime
    open_until: datetime | None = None
    usual_rate: int | None = None
    usual_until: datetime | None = None


def count_violation(known: Breaker | None, now: datetime) -> Breaker:
    """Return the state after one more violation of the rate guard. A pure function."""
    if known is None:
        return Breaker(1, now)
    if (now - known.since).total_seconds() > WINDOW:
        return replace(known, trips=1, since=now)
    known = replace(known, trips=known.trips + 1)
    opens = known.trips == VIOLATIONS_TO_OPEN
    return replace(known, open_until=now + timedelta(seconds=COOL_DOWN)) if opens else known


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

    def usual_rate(self, trigger_id: str) -> int | None:
        """Return the usual rate of a trigger, in firings a minute; None when it has to be counted (again)."""
        known = self._states.get(trigger_id)
        if known is None or known.usual_until is None or known.usual_until <= self._now:
            return None
        return known.usual_rate

    def set_usual_rate(self, trigger_id: str, usual_rate: int) -> None:
        """Keep the usual rate of a trigger for a while."""
        known = self._states.get(trigger_id) or Breaker(0, self._now)
        until = self._now + timedelta(seconds=USUAL_RATE_AGE)
        self._states[trigger_id] = replace(known, usual_rate=usual_rate, usual_until=until)

    def record_violation(self, trigger_id: str) -> datetime | None:
        """Count a violation of the rate guard. Returns when the breaker closes, if this violation opened it."""
        before = self._states.get(trigger_id)
        after = self._states[trigger_id] = count_violation(before, self._now)
        return None if before is not None and before.open_until == after.open_until else after.open_until


class Breakers(BreakerStates):
    """The breakers of some triggers, as their rows have them. A violation is written at once."""

    def __init__(self, tx: Tx, trigger_ids: Sequence[str]) -> None:
        self._tx = tx
        rows = tx.rows(_RELEVANT, {"ids": list(trigger_ids), "now": tx.now}) if trigger_ids else []
        super().__init__({row["trigger_id"]: _state(row) for row in rows}, tx.now)

    def record_violation(self, trigger_id: str) -> datetime | None:
        is_stored = self._lock(trigger_id)
        opened = super().record_violation(trigger_id)
        self._store(trigger_id, is_stored)
        return opened

    def set_usual_rate(self, trigger_id: str, usual_rate: int) -> None:
        is_stored = self._lock(trigger_id)
        super().set_usual_rate(trigger_id, usual_rate)
        self._store(trigger_id, is_stored)

    def _lock(self, trigger_id: str) -> bool:
        """Lock the row of a trigger and read it again. Returns False when there is none."""
        statement = sa.select(breaker).where(breaker.c.trigger_id == trigger_id)
        row = self._tx.first(statement.with_for_update())
        if row is not None:
            self._states[trigger_id] = _state(row)
        return row is not None

    def _store(self, trigger_id: str, is_stored: bool) -> None:
        values = asdict(self._states[trigger_id])
        if is_stored:
            self._tx.execute(sa.update(breaker).where(breaker.c.trigger_id == trigger_id).values(**values))
        else:
            self._tx.insert_missing(breaker, [{"trigger_id": trigger_id, **values}])


def _state(row: Mapping[str, Any]) -> Breaker:
    return Breaker(row["trips"], row["since"], row["open_until"], row["usual_rate"], row["usual_until"])


def close(tx: Tx, trigger_id: str) -> None:
    """Close the breaker on behalf of an operator: the trigger may fire again at once."""
    tx.execute(sa.delete(breaker).where(breaker.c.trigger_id == trigger_id))

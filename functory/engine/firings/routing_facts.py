"""What every routing transaction has to know beside its events: columns of the statement that reads the events.

So both are of one snapshot of the database. A trigger that was saved before an event was written is never missed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa

from functory.engine.database import counters
from functory.engine.database.schema import Instant, breaker, counter
from functory.engine.database.transaction import Tx
from functory.engine.events.kill_switch import HALTED


@dataclass(frozen=True)
class RoutingFacts:
    """``halted``: nothing is routed now. ``trigger_changes`` and ``function_changes`` are the counters of both
    registries. ``has_breakers``: some trigger's circuit breaker has a state that still holds.
    """

    halted: bool
    trigger_changes: int
    function_changes: int
    has_breakers: bool


def _value(name: str) -> sa.ColumnElement[int]:
    found = sa.select(counter.c.value).where(counter.c.name == name).scalar_subquery()
    return sa.func.coalesce(found, 0)


_NOW = sa.bindparam("now", type_=Instant)
# Columns without a table, with the parameter ``now``.
COLUMNS = (
    HALTED.label("halted"),
    _value(counters.TRIGGERS).label("trigger_changes"),
    _value(counters.FUNCTIONS).label("function_changes"),
    sa.exists(
        sa.select(breaker.c.trigger_id).where(
            sa.or_(breaker.c.open_until > _NOW, breaker.c.usual_until > _NOW)
        )
    ).label("has_breakers"),
)
# Built once, because releases run it for every batch.
_FACTS = sa.select(*COLUMNS)


def read(tx: Tx) -> RoutingFacts:
    """Return the facts as of now. Locks nothing."""
    return of(tuple(tx.execute(_FACTS, {"now": tx.now}).one()))


def of(values: Sequence[Any]) -> RoutingFacts:
    """Return the facts of the values of :data:`COLUMNS`."""
    halted, triggers, functions, breakers = values
    return RoutingFacts(bool(halted), int(triggers), int(functions), bool(breakers))

"""What every routing transaction has to know beside its events, read by one statement.

Read it after the events are locked. A trigger that was saved before an event was written is then never missed.
"""

from __future__ import annotations

from dataclasses import dataclass

import sqlalchemy as sa

from functory.engine.database import counters
from functory.engine.database.schema import Instant, breaker, counter, switch
from functory.engine.database.transaction import Tx
from functory.engine.triggers import kill_switch


@dataclass(frozen=True)
class RoutingFacts:
    """``stopped``: the kill switch is thrown. ``trigger_changes`` and ``function_changes`` are the counters of both
    registries. ``has_breakers``: some trigger's circuit breaker has a state that still holds.
    """

    stopped: bool
    trigger_changes: int
    function_changes: int
    has_breakers: bool


def _value(name: str) -> sa.ColumnElement[int]:
    found = sa.select(counter.c.value).where(counter.c.name == name).scalar_subquery()
    return sa.func.coalesce(found, 0)


_NOW = sa.bindparam("now", type_=Instant)
# Built once, because every router runs it for every batch.
_FACTS = sa.select(
    sa.exists(sa.select(switch.c.name).where(switch.c.name == kill_switch.TRIGGERS)),
    _value(counters.TRIGGERS),
    _value(counters.FUNCTIONS),
    sa.exists(
        sa.select(breaker.c.trigger_id).where(
            sa.or_(breaker.c.open_until > _NOW, breaker.c.usual_until > _NOW)
        )
    ),
)


def read(tx: Tx) -> RoutingFacts:
    """Return the facts as of now. Locks nothing."""
    stopped, triggers, functions, breakers = tuple(tx.execute(_FACTS, {"now": tx.now}).one())
    return RoutingFacts(bool(stopped), int(triggers), int(functions), bool(breakers))

"""Throttle and rate limit: GCRA by key, as rows, so that both are exact with any number of routers.

GCRA (ITU-T I.371; the "virtual scheduling" form) keeps one moment a key: when the next one is expected. One that comes
at the earliest ``burst - 1`` steps before it conforms, and moves it by a step of ``period / limit``. A rate limit drops
what does not conform; a throttle lets it wait until it does.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Literal

import sqlalchemy as sa

from functory.engine.database import row_locks
from functory.engine.database.schema import pace as table
from functory.engine.database.transaction import Tx
from functory.engine.flow_control.controls import RateLimit

RateLimitKind = Literal["throttle", "rate_limit"]


def emission_interval(limit: RateLimit) -> timedelta:
    """The time between two, rounded up to the microsecond: a limit is never exceeded by rounding."""
    return timedelta(microseconds=math.ceil(limit.period * 1_000_000 / limit.limit))


def reserve(next_allowed_at: datetime | None, now: datetime, limit: RateLimit) -> tuple[datetime, datetime]:
    """When one more may start, at the earliest now, and the new moment. A pure function."""
    expected = max(next_allowed_at or now, now)
    return max(now, expected - emission_interval(limit) * (limit.burst - 1)), expected + emission_interval(
        limit
    )


_OLD = (
    sa.select(table.c.trigger_id, table.c.control, table.c.key)
    .where(table.c.next_at < sa.bindparam("before", type_=table.c.next_at.type))
    .order_by(*table.primary_key.columns)
    .limit(sa.bindparam("limit", type_=sa.Integer))
    .with_for_update(skip_locked=True)
)
_UPDATE_RATE_LIMIT = (
    sa.update(table)
    .where(
        table.c.trigger_id == sa.bindparam("t", type_=table.c.trigger_id.type),
        table.c.control == sa.bindparam("c"),
        table.c.key == sa.bindparam("k"),
    )
    .values(next_at=sa.bindparam("at", type_=table.c.next_at.type), dropped=sa.bindparam("n"))
)


@dataclass
class _State:
    next_allowed_at: datetime
    dropped: int = 0


class RateLimits:
    """The moments of some keys of one control, locked until the commit; :meth:`write` stores what became of them."""

    def __init__(self, tx: Tx, control: RateLimitKind, wanted: Iterable[tuple[str, RateLimit]]) -> None:
        """``wanted`` are triggers' ids with what they ask for."""
        self._tx = tx
        self._control = control
        rows = [
            {
                "trigger_id": trigger,
                "control": control,
                "key": pace.key.hash,
                "text": pace.key.text,
                "next_at": row_locks.EPOCH,
                "dropped": 0,
            }
            for trigger, pace in wanted
        ]
        self._known = {
            (key[0], key[2]): _State(row["next_at"], row["dropped"])
            for key, row in row_locks.lock(tx, table, rows).items()
        }
        self._changed: set[tuple[str, str]] = set()

    def reserve(self, trigger_id: str, limit: RateLimit) -> datetime:
        """The moment at which one more may start."""
        state = self._of(trigger_id, limit)
        moment, state.next_allowed_at = reserve(state.next_allowed_at, self._tx.now, limit)
        return moment

    def try_acquire(self, trigger_id: str, limit: RateLimit) -> bool:
        """Whether one more may start now; one that may not is counted as dropped."""
        state = self._of(trigger_id, limit)
        moment, following = reserve(state.next_allowed_at, self._tx.now, limit)
        if moment > self._tx.now:
            state.dropped += 1
            return False
        state.next_allowed_at = following
        return True

    def write(self) -> None:
        """Store the moments and counts that have changed."""
        if self._changed:
            self._tx.execute(
                _UPDATE_RATE_LIMIT,
                [
                    {
                        "t": key[0],
                        "c": self._control,
                        "k": key[1],
                        "at": self._known[key].next_allowed_at,
                        "n": self._known[key].dropped,
                    }
                    for key in sorted(self._changed)
                ],
            )

    def _of(self, trigger_id: str, limit: RateLimit) -> _State:
        self._changed.add((trigger_id, limit.key.hash))
        return self._known[trigger_id, limit.key.hash]


def delete_expired(tx: Tx, before: datetime, limit: int) -> int:
    """Delete keys whose moment was ``before``: they are as good as new. Returns how many."""
    rows = tx.execute(_OLD, {"before": before, "limit": limit}).all()
    if rows:
        keys = [tuple(row) for row in rows]
        tx.execute(sa.delete(table).where(sa.tuple_(*table.primary_key.columns).in_(keys)))
    return len(rows)

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
from functory.engine.flow_control.controls import Pace

Control = Literal["throttle", "rate_limit"]


def step(pace: Pace) -> timedelta:
    """The time between two, rounded up to the microsecond: a limit is never exceeded by rounding."""
    return timedelta(microseconds=math.ceil(pace.period * 1_000_000 / pace.limit))


def reserve(next_at: datetime | None, now: datetime, pace: Pace) -> tuple[datetime, datetime]:
    """When one more may start, at the earliest now, and the new moment. A pure function."""
    expected = max(next_at or now, now)
    return max(now, expected - step(pace) * (pace.burst - 1)), expected + step(pace)


_OLD = (
    sa.select(table.c.trigger_id, table.c.control, table.c.key)
    .where(table.c.next_at < sa.bindparam("before", type_=table.c.next_at.type))
    .order_by(*table.primary_key.columns)
    .limit(sa.bindparam("limit", type_=sa.Integer))
    .with_for_update(skip_locked=True)
)
_MOVED = (
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
    next_at: datetime
    dropped: int = 0


class Paces:
    """The moments of some keys of one control, locked until the commit; :meth:`write` stores what became of them."""

    def __init__(self, tx: Tx, control: Control, wanted: Iterable[tuple[str, Pace]]) -> None:
        """``wanted`` are triggers' ids with what they ask for."""
        self._tx = tx
        self._control = control
        rows = [
            {
                "trigger_id": trigger,
                "control": control,
                "key": pace.key.hash,
                "text": pace.key.text,
                "next_at": row_locks.LONG_AGO,
                "dropped": 0,
            }
            for trigger, pace in wanted
        ]
        self._known = {
            (key[0], key[2]): _State(row["next_at"], row["dropped"])
            for key, row in row_locks.lock(tx, table, rows).items()
        }
        self._changed: set[tuple[str, str]] = set()

    def reserve(self, trigger_id: str, pace: Pace) -> datetime:
        """The moment at which one more may start."""
        state = self._of(trigger_id, pace)
        moment, state.next_at = reserve(state.next_at, self._tx.now, pace)
        return moment

    def conforms(self, trigger_id: str, pace: Pace) -> bool:
        """Whether one more may start now; one that may not is counted as dropped."""
        state = self._of(trigger_id, pace)
        moment, following = reserve(state.next_at, self._tx.now, pace)
        if moment > self._tx.now:
            state.dropped += 1
            return False
        state.next_at = following
        return True

    def write(self) -> None:
        """Store the moments and counts that have changed."""
        if self._changed:
            self._tx.execute(
                _MOVED,
                [
                    {
                        "t": key[0],
                        "c": self._control,
                        "k": key[1],
                        "at": self._known[key].next_at,
                        "n": self._known[key].dropped,
                    }
                    for key in sorted(self._changed)
                ],
            )

    def _of(self, trigger_id: str, pace: Pace) -> _State:
        self._changed.add((trigger_id, pace.key.hash))
        return self._known[trigger_id, pace.key.hash]


def forget(tx: Tx, before: datetime, limit: int) -> int:
    """Delete keys whose moment was ``before``: they are as good as new. Returns how many."""
    rows = tx.execute(_OLD, {"before": before, "limit": limit}).all()
    if rows:
        keys = [tuple(row) for row in rows]
        tx.execute(sa.delete(table).where(sa.tuple_(*table.primary_key.columns).in_(keys)))
    return len(rows)

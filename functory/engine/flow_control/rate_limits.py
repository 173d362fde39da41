"""Rate limits by key, stored as rows and therefore exact with any number of processes.

GCRA (ITU-T I.371, "virtual scheduling") keeps one timestamp a key: ``next_allowed_at``, when the next request is
expected. A request that comes up to ``burst - 1`` intervals of ``period / limit`` earlier conforms, and moves that time
on by one interval.

Six controls share the table ``rate_limit``. A trigger's rate limit and rate guard drop what does not conform. Its
throttle delays it, with two of them: ``throttle`` for reservations and ``start`` for starts
(:mod:`functory.engine.flow_control.throttle`). A webhook refuses it with the seconds to wait, and so does the
login of users (:mod:`functory.engine.access.logins`).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, MutableMapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any, Literal

import sqlalchemy as sa

from functory.engine.database import row_locks
from functory.engine.database.id_lists import one_of_keys
from functory.engine.database.schema import Instant
from functory.engine.database.schema import rate_limit as table
from functory.engine.database.transaction import Tx
from functory.engine.flow_control.controls import NO_KEY, Key, RateLimit
from functory.engine.serialization import json_codec

# A guard that adapts allows this number of times the trigger's usual rate: a loop is faster, honest use hardly ever.
USUAL_FACTOR = 60

RateLimitControl = Literal["throttle", "start", "rate_limit", "rate_guard", "webhook", "login"]


def guard_limit(subject: str | None, per_minute: int) -> RateLimit:
    """Return the rate guard of a trigger for one event subject: ``per_minute`` firings at once, then one each
    interval.
    """
    key = NO_KEY if subject is None else Key(json_codec.digest(subject)[:32], subject[:200])
    return RateLimit(key, per_minute, 60.0, burst=per_minute)


def source_limit(source: str, per_minute: int) -> RateLimit:
    """Return the rate guard of a trigger for all events of one source."""
    key = Key.of(source, "source")
    return RateLimit(Key(key.hash, f"source {source}"[:200]), per_minute, 60.0, burst=per_minute)


def repeat_limit(source: str, content: object, per_minute: int) -> RateLimit:
    """Return the rate guard of a trigger for events of one source that have the same content."""
    key = Key.of([source, content], "content")
    return RateLimit(
        Key(key.hash, f"the same content from {source}"[:200]), per_minute, 60.0, burst=per_minute
    )


@dataclass(frozen=True)
class RateGuard:
    """A rate limit of a trigger against loops: ``reason`` is recorded for a match beyond it, ``what`` says of what the
    matches are counted. One that ``adapts`` is wider for a trigger that is usually busy.
    """

    reason: Literal["rate", "source_rate", "repeat_rate"]
    limit: RateLimit
    what: str
    adapts: bool = False

    def adapted(self, usual_rate: int | None) -> RateGuard:
        """Return the guard for a trigger with this usual rate a minute (None: unknown)."""
        most = USUAL_FACTOR * (usual_rate or 0)
        if not self.adapts or most <= self.limit.limit:
            return self
        return replace(self, limit=replace(self.limit, limit=most, burst=most))


def emission_interval(limit: RateLimit) -> timedelta:
    """Return the time between two requests, rounded up to the microsecond so that rounding never exceeds a limit."""
    return timedelta(microseconds=math.ceil(limit.period * 1_000_000 / limit.limit))


def reserve(next_allowed_at: datetime | None, now: datetime, limit: RateLimit) -> tuple[datetime, datetime]:
    """Return when one more may start (``now`` or later), and the new ``next_allowed_at``: GCRA as a pure function."""
    interval = emission_interval(limit)
    expected = max(next_allowed_at or now, now)
    return max(now, expected - interval * (limit.burst - 1)), expected + interval


_EXPIRED = (
    sa.select(*table.primary_key.columns)
    .where(table.c.next_allowed_at < sa.bindparam("before", type_=table.c.next_allowed_at.type))
    .order_by(*table.primary_key.columns)
    .limit(sa.bindparam("limit", type_=sa.Integer))
    .with_for_update(skip_locked=True)
)
_NO_TIME = timedelta()


@dataclass
class RateLimitState:
    """The state of one key: when its next use is expected, and the number of refused uses."""

    next_allowed_at: datetime = row_locks.EPOCH
    dropped: int = 0


class RateLimitStates:
    """The states of one control's keys at ``now``: decisions only, no rows. A key without a state is unused."""

    def __init__(self, states: MutableMapping[tuple[str, str], RateLimitState], now: datetime) -> None:
        """``states`` has the state of each (owner, hash of the key); it is changed in place."""
        self._states = states
        self._now = now
        self._changed: set[tuple[str, str]] = set()

    def acquire(self, owner_id: str, limit: RateLimit) -> float:
        """Use the limit once, now. Returns 0.0, or the seconds until that is allowed; a refused use is counted as
        dropped.
        """
        state = self._state(owner_id, limit)
        start, following = reserve(state.next_allowed_at, self._now, limit)
        if start > self._now:
            state.dropped += 1
            return (start - self._now).total_seconds()
        state.next_allowed_at = following
        return 0.0

    def try_acquire(self, owner_id: str, limit: RateLimit) -> bool:
        """Use the limit once, now. Returns False when that is not allowed; a refused use is counted as dropped."""
        return not self.acquire(owner_id, limit)

    def acquire_all(self, owner_id: str, guards: Sequence[RateGuard]) -> RateGuard | None:
        """Use all limits once, now, or none of them. Returns the first one that does not allow it, which is counted as
        dropped; None when all were used.
        """
        states = [self._state(owner_id, guard.limit) for guard in guards]
        following: list[datetime] = []
        for state, guard in zip(states, guards, strict=True):
            start, after = reserve(state.next_allowed_at, self._now, guard.limit)
            if start > self._now:
                state.dropped += 1
                return guard
            following.append(after)
        for state, after in zip(states, following, strict=True):
            state.next_allowed_at = after
        return None

    def change_limit(self, owner_id: str, before: RateLimit, after: RateLimit) -> None:
        """Let ``after`` take the place of ``before``, with as many uses as were counted until now."""
        state = self._state(owner_id, before)
        ahead = max(state.next_allowed_at - self._now, timedelta())
        state.next_allowed_at = self._now + ahead * (emission_interval(after) / emission_interval(before))

    def _state(self, owner_id: str, limit: RateLimit) -> RateLimitState:
        place = owner_id, limit.key.hash
        self._changed.add(place)
        return self._states.setdefault(place, RateLimitState())


class RateLimits(RateLimitStates):
    """The rate limits of some keys of one control, locked until the commit. :meth:`write` stores what has changed.

    On PostgreSQL the statement that locks the rows uses every limit as often as it was requested; the states here are
    those of before. :meth:`write` has nothing to store then where every use was allowed, which is the usual case.
    """

    # False for a control whose decisions need to know how long ago the next use was expected. The statement that uses
    # a limit returns "now" for every time that has passed.
    used_while_locked = True

    def __init__(self, tx: Tx, control: RateLimitControl, requested: Iterable[tuple[str, RateLimit]]) -> None:
        """``requested`` has each use of a limit: its owner, the id of a trigger or of a webhook's source, and the
        limit.
        """
        self._tx = tx
        self._control = control
        limits: dict[tuple[str, str], RateLimit] = {}
        ahead: dict[tuple[str, str], timedelta] = {}
        for owner, limit in requested:
            place = owner, limit.key.hash
            limits[place] = limit
            ahead[place] = ahead.get(place, _NO_TIME) + emission_interval(limit)
        if self.used_while_locked and tx.writes_concurrently:
            found = self._use(limits, ahead)
        else:
            rows = [self._row(place, limit, row_locks.EPOCH) for place, limit in limits.items()]
            locked = row_locks.lock(tx, table, rows)
            found = {(key[0], key[2]): row for key, row in locked.items()}
            ahead = {}
        states = {
            place: RateLimitState(row["next_allowed_at"] - ahead.get(place, _NO_TIME), row["dropped"])
            for place, row in found.items()
        }
        self._stored = {place: (row["next_allowed_at"], row["dropped"]) for place, row in found.items()}
        super().__init__(states, tx.now)
        self._changed.update(ahead)

    def _use(
        self, limits: Mapping[tuple[str, str], RateLimit], ahead: Mapping[tuple[str, str], timedelta]
    ) -> dict[tuple[str, str], Any]:
        """Insert or lock the rows, and move each ``next_allowed_at`` by the time ``ahead``. Returns the new rows."""
        rows = [self._row(place, limits[place], self._tx.now + ahead[place]) for place in sorted(limits)]
        used = self._tx.upsert(table, rows, _ahead, {"now": self._tx.now})()
        return {(row["owner_id"], row["key"]): row for row in used}

    def _row(self, place: tuple[str, str], limit: RateLimit, next_allowed_at: datetime) -> dict[str, Any]:
        return {
            "owner_id": place[0],
            "control": self._control,
            "key": place[1],
            "text": limit.key.text,
            "next_allowed_at": next_allowed_at,
            "dropped": 0,
        }

    def write(self) -> None:
        """Store the timestamps and counts that are not as the rows have them."""
        changed = [
            {
                "owner_id": place[0],
                "control": self._control,
                "key": place[1],
                "next_allowed_at": state.next_allowed_at,
                "dropped": state.dropped,
            }
            for place in sorted(self._changed)
            if (state := self._states[place])
            and (state.next_allowed_at, state.dropped) != self._stored.get(place)
        ]
        self._tx.update_rows(table, changed)


def _ahead(new: Any) -> dict[str, Any]:
    now = sa.bindparam("now", type_=Instant)
    expected = sa.func.greatest(table.c.next_allowed_at, now)
    return {"next_allowed_at": expected + (new.next_allowed_at - now)}


def delete_expired(tx: Tx, before: datetime, limit: int) -> int:
    """Delete up to ``limit`` keys with ``next_allowed_at`` before ``before``: their limit is whole again.

    Returns their number.
    """
    keys = [tuple(row) for row in tx.execute(_EXPIRED, {"before": before, "limit": limit}).all()]
    if keys:
        tx.execute(sa.delete(table).where(one_of_keys([*table.primary_key.columns], keys)))
    return len(keys)

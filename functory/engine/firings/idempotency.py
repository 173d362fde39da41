"""Idempotency: the first checks of a match, before it fires or waits (the idempotency key, then the rate limit).

Both are decided event by event in the order of the batch, under the locks of their keys. The first event wins. A match
that the rate limit drops does not use up its idempotency key.
"""

from __future__ import annotations

from collections.abc import MutableMapping, Sequence
from datetime import datetime, timedelta

import sqlalchemy as sa

from functory.engine.database import row_locks
from functory.engine.database.id_lists import one_of_keys
from functory.engine.database.schema import Instant, idempotency_key
from functory.engine.database.transaction import Tx
from functory.engine.events.event_row import EventRow
from functory.engine.firings.admission import Fire, Suppress, SuppressedMatch
from functory.engine.flow_control.buffers import BufferedMatch
from functory.engine.flow_control.controls import IdempotencyKey
from functory.engine.flow_control.rate_limits import RateLimits, RateLimitStates
from functory.engine.serialization.durations import format_duration

Match = tuple[EventRow, Fire | BufferedMatch]


def check(tx: Tx, matches: Sequence[Match]) -> tuple[list[Match], list[SuppressedMatch]]:
    """Split matches (event row, decision) into those that pass and those that are suppressed."""
    asked = [
        (row, d.trigger, d.controls) for row, d in matches if d.controls.idempotency or d.controls.rate_limit
    ]
    if not asked:
        return list(matches), []
    keys = _StoredKeys(
        tx,
        [(row.id, trigger.id, c.idempotency) for row, trigger, c in asked if c.idempotency is not None],
    )
    rate_limits = RateLimits(
        tx,
        "rate_limit",
        [(trigger.id, c.rate_limit) for _, trigger, c in asked if c.rate_limit is not None],
    )
    result = decide(matches, keys, rate_limits)
    keys.write()
    rate_limits.write()
    return result


def decide(
    matches: Sequence[Match], keys: IdempotencyKeys, rate_limits: RateLimitStates
) -> tuple[list[Match], list[SuppressedMatch]]:
    """Split matches as :func:`check` does. Changes only the given states."""
    kept: list[Match] = []
    refused: list[SuppressedMatch] = []
    for row, decision in matches:
        trigger, controls = decision.trigger, decision.controls
        first = None if controls.idempotency is None else keys.used_by(trigger.id, controls.idempotency)
        limit = controls.rate_limit
        if controls.idempotency is not None and first is not None:
            window = format_duration(controls.idempotency.window)
            detail = f"{_named(controls.idempotency.key.text)}event {first} was first within {window}"
            refused.append((row, Suppress(trigger, "idempotent", detail=detail)))
        elif limit is not None and not rate_limits.try_acquire(trigger.id, limit):
            detail = f"{_named(limit.key.text)}more than {limit.limit} in {format_duration(limit.period)}"
            refused.append((row, Suppress(trigger, "rate_limited", limit.limit, detail=detail)))
        else:
            if controls.idempotency is not None:
                keys.use(trigger.id, controls.idempotency, row.id)
            kept.append((row, decision))
    return kept, refused


_OLD = (
    sa.select(idempotency_key.c.trigger_id, idempotency_key.c.key)
    .where(idempotency_key.c.expires_at <= sa.bindparam("now", type_=Instant))
    .order_by(*idempotency_key.primary_key.columns)
    .limit(sa.bindparam("limit", type_=sa.Integer))
    .with_for_update(skip_locked=True)
)
_USED = (
    sa.update(idempotency_key)
    .where(
        idempotency_key.c.trigger_id == sa.bindparam("t", type_=idempotency_key.c.trigger_id.type),
        idempotency_key.c.key == sa.bindparam("k"),
    )
    .values(
        event_id=sa.bindparam("e", type_=idempotency_key.c.event_id.type),
        expires_at=sa.bindparam("at", type_=idempotency_key.c.expires_at.type),
    )
)


class IdempotencyKeys:
    """Idempotency keys at ``now``: decisions only, no rows."""

    def __init__(self, known: MutableMapping[tuple[str, str], tuple[str, datetime]], now: datetime) -> None:
        """``known`` has the event that used each (trigger id, hash of the key) last, and when its window ends; it is
        changed in place.
        """
        self._known = known
        self._now = now
        self._used: set[tuple[str, str]] = set()

    def used_by(self, trigger_id: str, one: IdempotencyKey) -> str | None:
        """Return the event that has used the key within its window; None: the key is free."""
        event, expires_at = self._known.get((trigger_id, one.key.hash), ("", row_locks.EPOCH))
        return event if expires_at > self._now else None

    def use(self, trigger_id: str, one: IdempotencyKey, event_id: str) -> None:
        """Give the key to ``event_id`` for its window, from now on."""
        place = trigger_id, one.key.hash
        self._known[place] = event_id, self._now + timedelta(seconds=one.window)
        self._used.add(place)


class _StoredKeys(IdempotencyKeys):
    """Idempotency keys, locked until the commit. :meth:`write` stores the used ones."""

    def __init__(self, tx: Tx, wanted: Sequence[tuple[str, str, IdempotencyKey]]) -> None:
        self._tx = tx
        # A new key is free until a match uses it.
        rows = [
            {
                "trigger_id": trigger,
                "key": one.key.hash,
                "text": one.key.text,
                "event_id": event,
                "expires_at": row_locks.EPOCH,
            }
            for event, trigger, one in wanted
        ]
        super().__init__(
            {
                (key[0], key[1]): (row["event_id"], row["expires_at"])
                for key, row in row_locks.lock(tx, idempotency_key, rows).items()
            },
            tx.now,
        )

    def write(self) -> None:
        """Write the used keys."""
        if self._used:
            self._tx.execute(
                _USED,
                [
                    {"t": key[0], "k": key[1], "e": self._known[key][0], "at": self._known[key][1]}
                    for key in sorted(self._used)
                ],
            )


def delete_expired(tx: Tx, limit: int) -> int:
    """Delete up to ``limit`` expired keys. Returns the number of deleted ones."""
    keys = [tuple(row) for row in tx.execute(_OLD, {"now": tx.now, "limit": limit}).all()]
    if keys:
        tx.execute(
            sa.delete(idempotency_key).where(one_of_keys([*idempotency_key.primary_key.columns], keys))
        )
    return len(keys)


def _named(key: str) -> str:
    return f"key {key!r}: " if key else ""

"""The rate guard of triggers, and its breaker: rows, so that the limit is exact with any number of routers.

The rate is GCRA (ITU-T I.371; the "virtual scheduling" form): one moment a key says when the next firing
conforms. A limit of N a minute lets N through at once and then one every 60/N seconds.

A trigger whose rate trips again and again opens its breaker: until the cool-down has passed, nothing
of it runs. This stops loops that leave the system (a written file, a called webhook) and come back
without their lineage.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

import sqlalchemy as sa

from functory.engine.database.schema import Id, Instant, breaker, rate
from functory.engine.database.transaction import Tx
from functory.engine.serialization import json_codec

# Trips within the window that open the breaker, and how long it stays open (seconds).
VIOLATIONS_TO_OPEN = 5
WINDOW = 300.0
COOL_DOWN = 300.0


@dataclass(frozen=True)
class Allowance:
    """What a key may do now: how many of the wanted conform."""

    granted: int
    limit: int


def subject_key(trigger_id: str, subject: str | None) -> tuple[str, str]:
    """The rate's key: a trigger and the subject that it fires for."""
    return trigger_id, json_codec.digest(subject)[:32] if subject is not None else ""


def count_allowed(
    next_allowed_at: datetime | None, now: datetime, per_minute: int, requested: int
) -> tuple[int, datetime]:
    """GCRA as a pure function: how many of ``wanted`` conform, and the new moment."""
    step = timedelta(seconds=60.0 / per_minute)
    burst = step * (per_minute - 1)
    moment = max(next_allowed_at or now, now)
    granted = 0
    while granted < requested and moment - now <= burst:
        moment += step
        granted += 1
    return granted, moment


# For every batch of a router: built once.
_LOCKED = (
    sa.select(rate)
    .where(sa.tuple_(rate.c.trigger_id, rate.c.subject).in_(sa.bindparam("keys", expanding=True)))
    .order_by(rate.c.trigger_id, rate.c.subject)
    .with_for_update()
)
_UPDATE_SUBJECT_RATE = (
    sa.update(rate)
    .where(rate.c.trigger_id == sa.bindparam("t", type_=Id), rate.c.subject == sa.bindparam("s"))
    .values(next_at=sa.bindparam("at", type_=Instant))
)
_OPEN = sa.select(breaker).where(
    breaker.c.trigger_id.in_(sa.bindparam("ids", expanding=True)),
    breaker.c.open_until > sa.bindparam("now", type_=Instant),
)


def acquire(tx: Tx, requests: Mapping[tuple[str, str], tuple[int, int]]) -> dict[tuple[str, str], Allowance]:
    """Take from the rates of ``(trigger, subject)`` keys; ``wanted`` gives (how many, limit a minute) each."""
    if not requests:
        return {}
    keys = sorted(requests)
    if tx.dialect == "postgresql":
        # Missing rows first: what does not exist cannot be locked.
        tx.insert_missing(rate, [{"trigger_id": t, "subject": s, "next_at": tx.now} for t, s in keys])
    rows = tx.rows(_LOCKED, {"keys": keys})
    known = {(row["trigger_id"], row["subject"]): row["next_at"] for row in rows}
    result: dict[tuple[str, str], Allowance] = {}
    for place in keys:
        count, limit = requests[place]
        granted, moment = count_allowed(known.get(place), tx.now, limit, count)
        result[place] = Allowance(granted, limit)
        if place in known:
            tx.execute(_UPDATE_SUBJECT_RATE, {"t": place[0], "s": place[1], "at": moment})
        else:
            tx.insert(rate, [{"trigger_id": place[0], "subject": place[1], "next_at": moment}])
    return result


def open_breakers(tx: Tx, trigger_ids: Sequence[str]) -> dict[str, datetime]:
    """Those of the triggers whose breaker is open, and until when."""
    if not trigger_ids:
        return {}
    rows = tx.rows(_OPEN, {"ids": list(trigger_ids), "now": tx.now})
    return {row["trigger_id"]: row["open_until"] for row in rows}


def record_violation(tx: Tx, trigger_id: str) -> datetime | None:
    """Count a trip of the rate. Returns until when the breaker is open if this one opened it."""
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
    """An operator closes the breaker: the trigger may run again at once."""
    tx.execute(sa.delete(breaker).where(breaker.c.trigger_id == trigger_id))

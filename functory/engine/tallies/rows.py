"""The rows of table ``tally``: writes counts into them, and reads them.

A count is added to two rows, that of its minute and that of its hour.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

import sqlalchemy as sa

from functory.engine.database.schema import tally
from functory.engine.database.transaction import Tx
from functory.engine.tallies import histogram
from functory.engine.tallies.count import Count, Counts, Key

MINUTE, HOUR = timedelta(minutes=1), timedelta(hours=1)
# Names in one statement.
_NAMES = 500


def begin_of(at: datetime, interval: timedelta) -> datetime:
    """Return when the minute or hour of a time begins."""
    at = at.replace(second=0, microsecond=0)
    return at if interval == MINUTE else at.replace(minute=0)


def add(tx: Tx, minute: datetime, counts: Counts) -> None:
    """Add the counts of a minute, or of a part of it. The caller is alone: it holds the lock of the cursor."""
    for interval in (MINUTE, HOUR):
        begins_at = begin_of(minute, interval)
        known = _known(tx, begins_at, interval, sorted({key.name for key in counts}))
        rows = []
        for key, more in counts.items():
            sum_ = known.get(key, Count())
            sum_.add(more)
            rows.append(_row(key, sum_, begins_at, interval))
        tx.upsert(tally, rows, _replace)


def replace(tx: Tx, begins_at: datetime, interval: timedelta, counts: Counts) -> None:
    """Put counts in the place of those of a minute or an hour."""
    tx.execute(
        sa.delete(tally).where(tally.c.interval_seconds == _seconds(interval), tally.c.begins_at == begins_at)
    )
    tx.upsert(tally, [_row(key, one, begins_at, interval) for key, one in counts.items()], _replace)


def read(
    tx: Tx,
    kind: str,
    interval: timedelta,
    since: datetime,
    names: Sequence[str] | None = None,
    until: datetime | None = None,
) -> list[tuple[datetime, Key, Count]]:
    """Return the counts of a kind, of these names, in the intervals that begin from ``since`` on and before ``until``,
    oldest first.
    """
    conditions = [
        tally.c.kind == kind,
        tally.c.interval_seconds == _seconds(interval),
        tally.c.begins_at >= since,
        *([] if until is None else [tally.c.begins_at < until]),
    ]
    found: list[tuple[datetime, Key, Count]] = []
    for some in [None] if names is None else _pieces(names):
        named = [] if some is None else [tally.c.name.in_(some)]
        for row in tx.rows(sa.select(tally).where(*conditions, *named)):
            found.append((row["begins_at"], *_counted(row)))
    return sorted(found, key=lambda item: item[0])


def sums(tx: Tx, kind: str, interval: timedelta, names: Sequence[str]) -> list[tuple[str, str, int]]:
    """Return the name, the outcome and the sum of all counts of a kind that are kept."""
    total = sa.func.sum(tally.c["count"]).label("total")
    statement = (
        sa.select(tally.c.name, tally.c.outcome, total)
        .where(tally.c.kind == kind, tally.c.interval_seconds == _seconds(interval))
        .group_by(tally.c.name, tally.c.outcome)
    )
    return [
        (row["name"], row["outcome"], int(row["total"]))
        for some in _pieces(names)
        for row in tx.rows(statement.where(tally.c.name.in_(some)))
    ]


def names_with_most(
    tx: Tx,
    kind: str,
    interval: timedelta,
    since: datetime,
    outcomes: Sequence[str],
    limit: int,
    names: Sequence[str] | None = None,
) -> list[str]:
    """Return the names of a kind with the highest counts of these outcomes since some time."""
    total = sa.func.sum(tally.c["count"]).label("total")
    statement = (
        sa.select(tally.c.name, total)
        .where(
            tally.c.kind == kind,
            tally.c.interval_seconds == _seconds(interval),
            tally.c.begins_at >= since,
            tally.c.outcome.in_(outcomes),
        )
        .group_by(tally.c.name)
        .order_by(total.desc(), tally.c.name)
        .limit(limit)
    )
    pieces = [None] if names is None else _pieces(names)
    found = [
        row
        for some in pieces
        for row in tx.rows(statement if some is None else statement.where(tally.c.name.in_(some)))
    ]
    return [row["name"] for row in sorted(found, key=lambda row: (-row["total"], row["name"]))[:limit]]


def read_interval(tx: Tx, begins_at: datetime, interval: timedelta) -> Counts:
    """Return all counts of a minute or an hour."""
    return _known(tx, begins_at, interval, None)


def delete_before(tx: Tx, interval: timedelta, cutoff: datetime) -> int:
    """Delete the oldest sixty minutes or hours of those that began before ``cutoff``. Returns the number of rows."""
    mine = tally.c.interval_seconds == _seconds(interval)
    oldest = tx.scalar(sa.select(sa.func.min(tally.c.begins_at)).where(mine))
    if oldest is None or oldest >= cutoff:
        return 0
    last = min(cutoff, oldest + 60 * interval)
    return tx.execute(sa.delete(tally).where(mine, tally.c.begins_at < last)).rowcount


def _known(
    tx: Tx, begins_at: datetime, interval: timedelta, names: Collection[str] | None
) -> dict[Key, Count]:
    conditions = [tally.c.interval_seconds == _seconds(interval), tally.c.begins_at == begins_at]
    statements = (
        [sa.select(tally).where(*conditions)]
        if names is None
        else [sa.select(tally).where(*conditions, tally.c.name.in_(some)) for some in _pieces(list(names))]
    )
    return dict(_counted(row) for statement in statements for row in tx.rows(statement))


def _counted(row: Mapping[str, Any]) -> tuple[Key, Count]:
    return Key(row["kind"], row["name"], row["version"], row["outcome"]), Count(
        row["count"], histogram.from_json(row["queued"]), histogram.from_json(row["run"])
    )


def _row(key: Key, one: Count, begins_at: datetime, interval: timedelta) -> dict[str, Any]:
    return {
        **key._asdict(),
        "interval_seconds": _seconds(interval),
        "begins_at": begins_at,
        "count": one.count,
        "queued": histogram.as_json(one.queued),
        "run": histogram.as_json(one.run),
    }


def _replace(new: Any) -> dict[str, Any]:
    return {"count": new["count"], "queued": new.queued, "run": new.run}


def _seconds(interval: timedelta) -> int:
    return int(interval.total_seconds())


def _pieces(names: Sequence[str]) -> list[list[str]]:
    return [list(names[first : first + _NAMES]) for first in range(0, len(names), _NAMES)]

"""Pages of a long table, newest first: the ids of the rows that fit, found with a bounded amount of work.

A *way* is a condition that an index answers in the order of the ids. Conditions without an index are tested on the rows
that the way finds, at most :data:`WINDOW` for each page. So a page may have fewer rows than were asked for, and still
be followed by another one: a rare state never makes a page read the whole history.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa

from functory.engine.database.transaction import Tx

# Rows that a page looks at for each way.
WINDOW = 6_000
# It looks at the first of them before it looks at more: SQLite looks at all of a part, and most filters let enough rows
# through.
PARTS = (16, 4, 1)

Conditions = Sequence[sa.ColumnElement[bool]]


@dataclass(frozen=True)
class IdPage:
    """Ids of a page in its order. ``next`` is the key to continue before; None at the end of the table."""

    ids: list[str]
    next: str | None


@dataclass(frozen=True)
class Way:
    """Rows in the order of ``key``. With ``narrow`` the key is the id in another table, which is read alone."""

    key: sa.Column[Any]
    conditions: Conditions = ()
    narrow: bool = False


def find(
    tx: Tx,
    id_column: sa.Column[Any],
    ways: Sequence[Way],
    tested: Conditions,
    *,
    before: str | None,
    limit: int,
    window: int = WINDOW,
) -> IdPage:
    """Return the ids of up to ``limit`` rows that one of ``ways`` finds, with keys below ``before``."""
    found: dict[str, str] = {}
    ends: list[str] = []
    for way in ways:
        pairs, end = _look(tx, id_column, way, tested, before, limit, window)
        found |= {id_: key for key, id_ in pairs}
        if end is not None:
            ends.append(end)
    # Below the highest end one of the ways has not looked.
    end = max(ends, default=None)
    pairs = sorted(((key, id_) for id_, key in found.items() if end is None or key >= end), reverse=True)
    if len(pairs) > limit:
        pairs = pairs[:limit]
        end = pairs[-1][0]
    return IdPage([id_ for _, id_ in pairs], end)


def _look(
    tx: Tx,
    id_column: sa.Column[Any],
    way: Way,
    tested: Conditions,
    before: str | None,
    limit: int,
    window: int,
) -> tuple[list[tuple[str, str]], str | None]:
    """Return pairs of key and id, and the key down to which this way has looked; None when there is no more."""
    own_id = way.key if way.narrow else id_column
    seen = sa.select(way.key.label("key"), own_id.label("id")).where(*way.conditions).order_by(way.key.desc())
    if not tested:
        rest = seen if before is None else seen.where(way.key < before)
        pairs = [(row["key"], row["id"]) for row in tx.rows(rest.limit(limit + 1))]
        return pairs, pairs[-1][0] if len(pairs) > limit else None
    pairs, looked = [], 0
    for until in (window // part for part in PARTS):
        # A page does not fit into fewer rows.
        if limit >= until and until < window:
            continue
        rest = seen if before is None else seen.where(way.key < before)
        # Only the index is read for them. With a column of the table PostgreSQL may choose another index, in which the
        # rows of the way lie far apart.
        some = rest.limit(until - looked).subquery("some")
        fitting = sa.select(some.c.key, some.c.id).where(*tested).order_by(some.c.key.desc())
        fitting = fitting.select_from(some.join(id_column.table, id_column == some.c.id))
        fitting = fitting.limit(limit + 1 - len(pairs))
        pairs += [(row["key"], row["id"]) for row in tx.rows(fitting)]
        if len(pairs) > limit:
            return pairs, pairs[-1][0]
        last = tx.rows(rest.offset(until - looked - 1).limit(1))
        if not last:
            return pairs, None
        before, looked = last[0]["key"], until
    return pairs, before

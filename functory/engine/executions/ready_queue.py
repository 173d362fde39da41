"""The ready queue: executions of higher priority go first; within a priority, functions get fair shares.

Fair is max-min by what is in flight (sent or running): the next place goes to the function that has the fewest, among
equals to the one whose first execution has waited longest. So 100,000 queued executions of one function do not delay
the only execution of another. Inside a function: by ``queue_at``, then id.

As long as everything that is due fits, one statement finds it. Otherwise the functions are read one after another, from
index entry to index entry: the cost follows the number of functions and of free places, never the length of the queue.
"""

from __future__ import annotations

import heapq
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

import sqlalchemy as sa

from functory.engine.database.id_lists import one_of
from functory.engine.database.schema import Id, Instant, backlog
from functory.engine.database.schema import in_flight as in_flight_table
from functory.engine.database.transaction import Tx
from functory.engine.executions.queue_rows import READY, UNCLAIMED

# How far a trigger's priority may move the place in the queue behind the time that it is due (triggers.flow_control).
MAX_PRIORITY_SHIFT = timedelta(seconds=600)


@dataclass(frozen=True)
class InFlight:
    """Executions that are dispatched or running: the number of each function, and the total of each kind."""

    functions: Mapping[str, int] = field(default_factory=dict)
    dispatched: int = 0
    running: int = 0


@dataclass(frozen=True)
class Selection:
    """The next ``ids`` in order; ``has_more`` if more are due; else ``next_at``, when the next one is due."""

    ids: Sequence[str] = ()
    has_more: bool = False
    next_at: datetime | None = None


def fair_shares(capacity: int, heads: Mapping[str, Any], in_flight: Mapping[str, int]) -> dict[str, int]:
    """Share out ``places`` between functions; ``heads`` orders functions with equal numbers in flight.

    The shares assume that each function can fill its own; places that stay free are shared out in the next round.
    """
    given: dict[str, int] = {}
    line = [(in_flight.get(function, 0), head, function) for function, head in heads.items()]
    heapq.heapify(line)
    for _ in range(capacity if line else 0):
        count, head, function = line[0]
        heapq.heapreplace(line, (count + 1, head, function))
        given[function] = given.get(function, 0) + 1
    return given


def interleave(rows: Iterable[Mapping[str, Any]], in_flight: Mapping[str, int]) -> list[str]:
    """Return the ids of ``rows`` in queue order: by priority, fairly between functions, by age."""
    lines: dict[int, dict[str, list[tuple[datetime, str]]]] = defaultdict(lambda: defaultdict(list))
    for row in rows:
        lines[row["priority"]][row["function"]].append((row["queue_at"], row["id"]))
    counts = dict(in_flight)
    order: list[str] = []
    for _, functions in sorted(lines.items(), reverse=True):
        queues = {function: sorted(line, reverse=True) for function, line in functions.items()}
        turns = [(counts.get(function, 0), line[-1], function) for function, line in queues.items()]
        heapq.heapify(turns)
        while turns:
            count, (_, id_), function = turns[0]
            order.append(id_)
            queues[function].pop()
            counts[function] = count + 1
            if queues[function]:
                heapq.heapreplace(turns, (count + 1, queues[function][-1], function))
            else:
                heapq.heappop(turns)
    return order


# Built once, because they run in every round of every dispatcher, or with every claim.
_IN_FLIGHT = sa.select(
    in_flight_table.c.function, in_flight_table.c.claimed, sa.func.count().label("number")
).group_by(in_flight_table.c.function, in_flight_table.c.claimed)
_UNTIL = sa.bindparam("until", type_=Instant)
_PLACES = sa.bindparam("places", type_=sa.Integer)
_COLUMNS = (backlog.c.execution_id.label("id"), backlog.c.priority, backlog.c.function, backlog.c.queue_at)
_EARLIEST = (
    sa.select(*_COLUMNS, backlog.c.run_at)
    .where(READY)
    .order_by(backlog.c.run_at)
    .limit(_PLACES)
    .with_for_update(skip_locked=True)
)
_UNCLAIMED = (
    sa.select(in_flight_table.c.execution_id.label("id"))
    .where(UNCLAIMED, in_flight_table.c.dispatched_at <= _UNTIL)
    .order_by(in_flight_table.c.priority.desc(), in_flight_table.c.queue_at, in_flight_table.c.execution_id)
    .limit(_PLACES)
    .with_for_update(skip_locked=True)
)
_FREE = (
    sa.select(backlog.c.execution_id)
    .where(READY, one_of(backlog.c.execution_id))
    .with_for_update(skip_locked=True)
)
_OLDEST_READY = sa.select(sa.func.min(backlog.c.run_at)).where(READY).scalar_subquery()
_OLDEST_SENT = sa.select(sa.func.min(in_flight_table.c.dispatched_at)).where(UNCLAIMED).scalar_subquery()
_WAITING_SINCE = sa.select(_OLDEST_READY.label("ready"), _OLDEST_SENT.label("sent"))
_HAS_DUE = sa.select(
    sa.or_(
        sa.exists().where(READY, backlog.c.run_at <= _UNTIL),
        sa.exists().where(UNCLAIMED, in_flight_table.c.dispatched_at <= _UNTIL),
    )
)


def in_flight(tx: Tx) -> InFlight:
    """Read the dispatched and running executions: one statement over a table of just these rows."""
    functions: dict[str, int] = defaultdict(int)
    dispatched = running = 0
    for row in tx.execute(_IN_FLIGHT):
        functions[row.function] += row.number
        if row.claimed:
            running += row.number
        else:
            dispatched += row.number
    return InFlight(functions, dispatched, running)


def select_next(
    tx: Tx, limit: int, flight: InFlight | None = None, *, waited: float = 0.0, least: int = 0
) -> Selection:
    """Lock up to ``limit`` executions that were never sent and have been due for ``waited`` seconds.

    While more are due, a ``limit`` below ``least`` selects none: the caller waits for more places.
    """
    until = tx.now - timedelta(seconds=waited)
    rows = tx.rows(_EARLIEST, {"places": limit + 1})
    due = [row for row in rows if row["run_at"] <= until]
    if len(due) <= limit:
        next_at = next((row["run_at"] for row in rows[len(due) :]), None)
        return Selection(interleave(due, flight.functions if flight else {}), next_at=next_at)
    if limit < least:
        return Selection(has_more=True)
    flight = flight or in_flight(tx)
    return Selection(_lock(tx, _select_fairly(tx, limit, until, flight.functions)), has_more=True)


def select_unclaimed(tx: Tx, limit: int, *, waited: float) -> list[str]:
    """Lock up to ``limit`` executions that were sent ``waited`` seconds ago and are still unclaimed."""
    given = {"until": tx.now - timedelta(seconds=waited), "places": limit}
    return [row["id"] for row in tx.rows(_UNCLAIMED, given)]


def has_due(tx: Tx, *, waited: float) -> bool:
    """Return True when :func:`select_next` or :func:`select_unclaimed` would find an execution. One statement, no
    locks.
    """
    return bool(tx.scalar(_HAS_DUE, {"until": tx.now - timedelta(seconds=waited)}))


def waiting_since(tx: Tx) -> datetime | None:
    """Return the time at which the first execution that no worker has was due, or was sent. It is in the future when
    that execution is not due yet. None without any. One statement, no locks.
    """
    row = tx.first(_WAITING_SINCE) or {}
    return min((at for at in row.values() if at is not None), default=None)


def _select_fairly(tx: Tx, limit: int, until: datetime, flight: Mapping[str, int]) -> list[str]:
    """Return the next ids when more executions are due than there are places."""
    statement = (
        sa.select(*_COLUMNS)
        .where(READY, backlog.c.run_at <= until, backlog.c.queue_at <= until + MAX_PRIORITY_SHIFT)
        .order_by(backlog.c.priority.desc(), backlog.c.function, backlog.c.queue_at, backlog.c.execution_id)
        .limit(limit + 1)
    )
    rows = tx.rows(statement)
    cut = rows[-1]["priority"] if len(rows) > limit else None
    # Higher priorities fit whole; of the last one perhaps only the functions first in the alphabet.
    sure = interleave([row for row in rows if row["priority"] != cut], flight)
    if cut is None:
        return sure
    counts = dict(flight)
    for row in rows:
        if row["priority"] != cut:
            counts[row["function"]] = counts.get(row["function"], 0) + 1
    given = {"priority": cut, "until": until, "queue_until": until + MAX_PRIORITY_SHIFT}
    heads = {row["function"]: row["id"] for row in tx.rows(_HEADS, given) if row["id"] is not None}
    share = fair_shares(limit - len(sure), heads, counts)
    found = [
        {"priority": cut, "function": function, "queue_at": until, "id": heads[function]}
        for function, count in share.items()
        if count == 1
    ]
    several = {function: count for function, count in share.items() if count > 1}
    for row in _first(tx, several, given):
        found.append(row | {"priority": cut})
    return sure + interleave(found, counts)


def _first(tx: Tx, several: Mapping[str, int], given: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the first executions of each function, as many as ``several`` has for it."""
    if not several:
        return []
    if tx.dialect == "postgresql":
        return tx.rows(_FIRST_OF_ALL, {**given, "functions": list(several), "counts": list(several.values())})
    # SQLite has no round trip, so one statement for each costs no more than one for all.
    return [
        row
        for function, count in several.items()
        for row in tx.rows(_FIRST, {**given, "function": function, "count": count})
    ]


def _lock(tx: Tx, ids: Sequence[str]) -> list[str]:
    """Lock those of ``ids`` that no other transaction has taken since. Returns them."""
    if not tx.writes_concurrently or not ids:
        return list(ids)
    free = set(tx.execute(_FREE, {"ids": list(ids)}).scalars())
    return [id_ for id_ in ids if id_ in free]


_OF_PRIORITY = """
    NOT backlog.waiting_for_slot AND backlog.priority = :priority"""

_DUE = "backlog.queue_at <= :queue_until AND backlog.run_at <= :until"


def _typed(text: str, *columns: str) -> Any:
    parameters = [
        sa.bindparam(name, type_=type_)
        for name, type_ in (("priority", sa.Integer()), ("until", Instant()), ("queue_until", Instant()))
    ]
    types = {"function": sa.String(), "queue_at": Instant(), "id": Id}
    return sa.text(text).bindparams(*parameters).columns(**{name: types[name] for name in columns})


# Walks the index from function to function, and takes the first due execution of each.
_HEADS = _typed(
    f"""
WITH RECURSIVE heads(function) AS (
    SELECT (SELECT backlog.function FROM backlog WHERE {_OF_PRIORITY} ORDER BY backlog.function LIMIT 1)
    UNION ALL
    SELECT (SELECT backlog.function FROM backlog
            WHERE {_OF_PRIORITY} AND backlog.function > heads.function ORDER BY backlog.function LIMIT 1)
    FROM heads WHERE heads.function IS NOT NULL
)
SELECT heads.function, (
    SELECT backlog.execution_id FROM backlog WHERE {_OF_PRIORITY} AND backlog.function = heads.function AND {_DUE}
    ORDER BY backlog.queue_at, backlog.execution_id LIMIT 1) AS id
FROM heads WHERE heads.function IS NOT NULL""",  # noqa: S608  (constants)
    "function",
    "id",
)

_FIRST = _typed(
    f"""
SELECT backlog.function, backlog.queue_at, backlog.execution_id AS id FROM backlog
WHERE {_OF_PRIORITY} AND backlog.function = :function AND {_DUE}
ORDER BY backlog.queue_at, backlog.execution_id LIMIT :count""",  # noqa: S608  (constants)
    "function",
    "queue_at",
    "id",
)

_FIRST_OF_ALL = _typed(
    f"""
SELECT first.function, first.queue_at, first.id
FROM unnest(CAST(:functions AS text[]), CAST(:counts AS integer[])) AS share(function, count)
CROSS JOIN LATERAL (
    SELECT backlog.function, backlog.queue_at, backlog.execution_id AS id FROM backlog
    WHERE {_OF_PRIORITY} AND backlog.function = share.function AND {_DUE}
    ORDER BY backlog.queue_at, backlog.execution_id LIMIT share.count) AS first""",  # noqa: S608  (constants)
    "function",
    "queue_at",
    "id",
)

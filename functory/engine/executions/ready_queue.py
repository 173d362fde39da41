"""Which queued executions go next: higher priorities first, inside a priority fairly between functions.

Fair is max-min by what is in flight (sent or running): the next place goes to the function that has the fewest, among
equals to the one whose first execution has waited longest. So 100,000 queued executions of one function do not stand
before the one of another. Inside a function: by ``queue_at``, then id.

As long as everything that is due fits, one statement finds it. Only where it does not, the functions are asked for one
after another, from index entry to index entry: the cost follows the number of functions and of free places, never the
length of the queue.
"""

from __future__ import annotations

import heapq
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

import sqlalchemy as sa

from functory.engine.database.schema import Id, Instant, execution
from functory.engine.database.transaction import Tx

# As the partial index has it: SQLite would not find it by `held = 0`.
UNDISPATCHED = sa.text(
    "execution.state = 'queued' AND NOT execution.waiting_for_slot AND execution.dispatched_at IS NULL"
)
DISPATCHED = sa.and_(execution.c.state == "queued", execution.c.dispatched_at.is_not(None))
RUNNING = execution.c.state == "running"

# A bound that holds for every row: without one, SQLite would not look into the index that has these rows only.
_EVER = datetime(1970, 1, 1, tzinfo=UTC)

# How far a trigger's priority may move the place in the queue behind the moment that it is due (triggers.flow_control).
MAX_PRIORITY_SHIFT = timedelta(seconds=600)


@dataclass(frozen=True)
class InFlight:
    """What is sent or running now: how many of each function, and how many of each kind in all."""

    functions: Mapping[str, int] = field(default_factory=dict)
    dispatched: int = 0
    running: int = 0


@dataclass(frozen=True)
class Selection:
    """The ``ids`` to go next, in their order; whether there are ``more`` that are due; else when the next one is."""

    ids: Sequence[str] = ()
    has_more: bool = False
    next_at: datetime | None = None


def fair_shares(capacity: int, heads: Mapping[str, Any], in_flight: Mapping[str, int]) -> dict[str, int]:
    """How many of ``places`` each function gets; ``heads`` orders those that have equally many in flight.

    As if each had enough to fill its share: what one cannot fill is dealt out in the next round.
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
    """The ids of ``rows`` in the order in which they go: by priority, fairly between functions, by age."""
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


# Asked in every round of every dispatcher, or in every claim: built once.
_IN_FLIGHT = sa.union_all(
    *(
        sa.select(
            sa.func.min(execution.c.function).label("function"),
            sa.literal(kind).label("kind"),
            sa.func.count().label("count"),
        )
        .where(*conditions)
        # Not by the column itself: SQLite would read the index of all functions, finished ones included.
        .group_by(execution.c.function.concat(""))
        for kind, conditions in (
            ("dispatched", (DISPATCHED, execution.c.dispatched_at > _EVER)),
            ("running", (RUNNING, execution.c.lease_until > _EVER)),
        )
    )
)
_UNTIL = sa.bindparam("until", type_=Instant)
_PLACES = sa.bindparam("places", type_=sa.Integer)
_COLUMNS = (execution.c.id, execution.c.priority, execution.c.function, execution.c.queue_at)
_EARLIEST = (
    sa.select(*_COLUMNS, execution.c.run_at)
    .where(UNDISPATCHED)
    .order_by(execution.c.run_at)
    .limit(_PLACES)
    .with_for_update(skip_locked=True)
)
_UNCLAIMED = (
    sa.select(execution.c.id)
    .where(DISPATCHED, execution.c.dispatched_at <= _UNTIL)
    .order_by(execution.c.priority.desc(), execution.c.queue_at, execution.c.id)
    .limit(_PLACES)
    .with_for_update(skip_locked=True)
)
_FREE = (
    sa.select(execution.c.id)
    .where(UNDISPATCHED, execution.c.id.in_(sa.bindparam("ids", expanding=True)))
    .with_for_update(skip_locked=True)
)
_HAS_DUE = sa.select(
    sa.or_(
        sa.exists().where(UNDISPATCHED, execution.c.run_at <= _UNTIL),
        sa.exists().where(DISPATCHED, execution.c.dispatched_at <= _UNTIL),
    )
)


def in_flight(tx: Tx) -> InFlight:
    """What is sent and what is running: one statement over two indexes that hold nothing else."""
    functions: dict[str, int] = defaultdict(int)
    totals = {"dispatched": 0, "running": 0}
    for row in tx.rows(_IN_FLIGHT):
        functions[row["function"]] += row["count"]
        totals[row["kind"]] += row["count"]
    return InFlight(functions, **totals)


def select_next(tx: Tx, limit: int, flight: InFlight | None = None, *, waited: float = 0.0) -> Selection:
    """Lock up to ``places`` executions that nobody has sent and that have been due for ``waited`` seconds."""
    until = tx.now - timedelta(seconds=waited)
    rows = tx.rows(_EARLIEST, {"places": limit + 1})
    due = [row for row in rows if row["run_at"] <= until]
    if len(due) <= limit:
        next_at = next((row["run_at"] for row in rows[len(due) :]), None)
        return Selection(interleave(due, flight.functions if flight else {}), next_at=next_at)
    flight = flight or in_flight(tx)
    return Selection(_lock(tx, _select_fairly(tx, limit, until, flight.functions)), has_more=True)


def select_unclaimed(tx: Tx, limit: int, *, waited: float) -> list[str]:
    """Lock up to ``limit`` executions that were sent ``waited`` seconds ago and that no message has brought anybody."""
    given = {"until": tx.now - timedelta(seconds=waited), "places": limit}
    return [row["id"] for row in tx.rows(_UNCLAIMED, given)]


def has_due(tx: Tx, *, waited: float) -> bool:
    """Whether :func:`take` or :func:`sent` would find something. One statement, and it locks nothing."""
    return bool(tx.scalar(_HAS_DUE, {"until": tx.now - timedelta(seconds=waited)}))


def _select_fairly(tx: Tx, limit: int, until: datetime, flight: Mapping[str, int]) -> list[str]:
    """The ids that go next where more are due than there are places."""
    statement = (
        sa.select(*_COLUMNS)
        .where(UNDISPATCHED, execution.c.run_at <= until, execution.c.queue_at <= until + MAX_PRIORITY_SHIFT)
        .order_by(execution.c.priority.desc(), execution.c.function, execution.c.queue_at, execution.c.id)
        .limit(limit + 1)
    )
    rows = tx.rows(statement)
    cut = rows[-1]["priority"] if len(rows) > limit else None
    # Of higher priorities all fit; of the last one perhaps only the functions that the alphabet puts first.
    sure = interleave([row for row in rows if row["priority"] != cut], flight)
    if cut is None:
        return sure
    counts = dict(flight)
    for row in rows:
        if row["priority"] != cut:
            counts[row["function"]] = counts.get(row["function"], 0) + 1
    given = {"priority": cut, "until": until, "horizon": until + MAX_PRIORITY_SHIFT}
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
    """The first executions of each function: so many as ``several`` says."""
    if not several:
        return []
    if tx.dialect == "postgresql":
        return tx.rows(_FIRST_OF_ALL, {**given, "functions": list(several), "counts": list(several.values())})
    # No round trip in between: a statement for each costs no more than one for all.
    return [
        row
        for function, count in several.items()
        for row in tx.rows(_FIRST, {**given, "function": function, "count": count})
    ]


def _lock(tx: Tx, ids: Sequence[str]) -> list[str]:
    """Those of ``ids`` that nobody else has taken meanwhile, locked."""
    if tx.dialect != "postgresql" or not ids:
        return list(ids)
    free = {row["id"] for row in tx.rows(_FREE, {"ids": list(ids)})}
    return [id_ for id_ in ids if id_ in free]


_OF_PRIORITY = """
    execution.state = 'queued' AND NOT execution.waiting_for_slot AND execution.dispatched_at IS NULL
    AND execution.priority = :priority"""

_DUE = "execution.queue_at <= :horizon AND execution.run_at <= :until"


def _typed(text: str, *columns: str) -> Any:
    parameters = [
        sa.bindparam(name, type_=type_)
        for name, type_ in (("priority", sa.Integer()), ("until", Instant()), ("horizon", Instant()))
    ]
    types = {"function": sa.String(), "queue_at": Instant(), "id": Id}
    return sa.text(text).bindparams(*parameters).columns(**{name: types[name] for name in columns})


# From each function to the next one in the index, and the first of it that is due.
_HEADS = _typed(
    f"""
WITH RECURSIVE heads(function) AS (
    SELECT (SELECT execution.function FROM execution WHERE {_OF_PRIORITY} ORDER BY execution.function LIMIT 1)
    UNION ALL
    SELECT (SELECT execution.function FROM execution
            WHERE {_OF_PRIORITY} AND execution.function > heads.function ORDER BY execution.function LIMIT 1)
    FROM heads WHERE heads.function IS NOT NULL
)
SELECT heads.function, (
    SELECT execution.id FROM execution WHERE {_OF_PRIORITY} AND execution.function = heads.function AND {_DUE}
    ORDER BY execution.queue_at, execution.id LIMIT 1) AS id
FROM heads WHERE heads.function IS NOT NULL""",  # noqa: S608  (constants)
    "function",
    "id",
)

_FIRST = _typed(
    f"""
SELECT execution.function, execution.queue_at, execution.id FROM execution
WHERE {_OF_PRIORITY} AND execution.function = :function AND {_DUE}
ORDER BY execution.queue_at, execution.id LIMIT :count""",  # noqa: S608  (constants)
    "function",
    "queue_at",
    "id",
)

_FIRST_OF_ALL = _typed(
    f"""
SELECT first.function, first.queue_at, first.id
FROM unnest(CAST(:functions AS text[]), CAST(:counts AS integer[])) AS share(function, count)
CROSS JOIN LATERAL (
    SELECT execution.function, execution.queue_at, execution.id FROM execution
    WHERE {_OF_PRIORITY} AND execution.function = share.function AND {_DUE}
    ORDER BY execution.queue_at, execution.id LIMIT share.count) AS first""",  # noqa: S608  (constants)
    "function",
    "queue_at",
    "id",
)

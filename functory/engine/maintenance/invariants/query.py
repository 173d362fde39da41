"""Invariant queries: what they share (the time, the patience, and the form of what they find).

Every select gives the same four columns: words with places for the other three (``{id}``, ``{name}``, ``{number}``).

Times are parameters, so that a query is built once for each :class:`QueryShape`. Building all of them takes longer
than running them on a small database, and simulations run thousands.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

import sqlalchemy as sa

from functory.engine.database import prune_watermarks
from functory.engine.database.schema import Id, Instant
from functory.engine.database.transaction import Tx
from functory.engine.events.store import lowest_id_since
from functory.engine.settings import Settings

# The least time that something open may rest; with long leases it is longer.
MIN_PATIENCE_SECONDS = 60.0
# A worker that died, the reaper's grace after an outage, another lease: by then another worker has it.
LEASES = 4

Violations = sa.Select[*tuple[Any, ...]]


@dataclass(frozen=True)
class QueryShape:
    """The parameters that change the text of the queries."""

    drained: bool  # nothing should be open at all
    since: bool  # only rows that were made from a time on are checked
    pruned: bool  # some of it may be gone
    lease_seconds: float
    max_depth: int
    receipt_days: float


@dataclass(frozen=True)
class QueryParameters:
    """The parameters of one run. ``patience`` is the seconds that an open row may rest without progress."""

    now: datetime
    patience: float
    since: datetime | None = None
    prune_watermark: datetime | None = None

    @classmethod
    def of(
        cls, tx: Tx, settings: Settings, since: datetime | None, patience: float | None
    ) -> QueryParameters:
        """Read them in this transaction. The default ``patience`` is the time that makes a fault sure."""
        if patience is None:
            patience = max(MIN_PATIENCE_SECONDS, LEASES * settings.lease_seconds)
        return cls(tx.now, patience, since, prune_watermarks.read(tx))

    def shape(self, settings: Settings) -> QueryShape:
        """Return the shape of the queries of this run."""
        return QueryShape(
            self.patience <= 0,
            self.since is not None,
            self.prune_watermark is not None,
            settings.lease_seconds,
            settings.max_depth,
            settings.receipt_days,
        )


class QueryScope:
    """The scope that queries of one shape are built with: each time is a parameter, and each run gives its value."""

    def __init__(self, shape: QueryShape) -> None:
        self.shape = shape
        self.drained = shape.drained
        self.lease = timedelta(seconds=shape.lease_seconds)
        self._values: dict[str, Callable[[QueryParameters], Any]] = {}

    def values(self, parameters: QueryParameters) -> dict[str, Any]:
        """Return the parameters' values."""
        return {name: value(parameters) for name, value in self._values.items()}

    def now(self, plus: timedelta = timedelta()) -> Any:
        """Return the time of the run, plus ``plus``."""
        return self._parameter("now", plus, lambda asked: asked.now + plus)

    def now_id(self, plus: timedelta) -> Any:
        """Return the least id of the time of :meth:`now`."""
        return self._parameter("now_id", plus, lambda asked: lowest_id_since(asked.now + plus), Id)

    def overdue_cutoff(self, minus: timedelta = timedelta()) -> Any:
        """Return the time before which due work has rested too long; ``minus`` is how much longer it may rest."""
        return self._parameter("latest", minus, lambda asked: _overdue_cutoff(asked) - minus)

    def overdue_cutoff_id(self) -> Any:
        """Return the least id of the time of :meth:`overdue_cutoff`."""
        return self._parameter(
            "latest_id", timedelta(), lambda asked: lowest_id_since(_overdue_cutoff(asked)), Id
        )

    def ids_since(self, *columns: Any) -> list[Any]:
        """Return the conditions that these ids were made from ``since`` on."""
        if not self.shape.since:
            return []
        least = self._parameter(
            "since_id", timedelta(), lambda asked: lowest_id_since(_given(asked.since)), Id
        )
        return [column >= least for column in columns]

    def times_since(self, *columns: Any) -> list[Any]:
        """Return the conditions that these columns hold times from ``since`` on."""
        if not self.shape.since:
            return []
        since = self._parameter("since", timedelta(), lambda asked: asked.since)
        return [column >= since for column in columns]

    def unpruned(self, time: Any) -> Any:
        """Return the condition that a row of ``time`` cannot have been pruned."""
        if not self.shape.pruned:
            return sa.true()
        return time >= self._parameter("prune_watermark", timedelta(), lambda asked: asked.prune_watermark)

    def unpruned_days(self, day: Any) -> list[Any]:
        """Return the conditions that no row of this day can have been pruned."""
        if not self.shape.pruned:
            return []
        pruned = self._parameter(
            "pruned_day", timedelta(), lambda asked: _given(asked.prune_watermark).date(), sa.Date
        )
        return [day > pruned]

    def _parameter(
        self, name: str, distance: timedelta, value: Callable[[QueryParameters], Any], type_: Any = Instant
    ) -> Any:
        if distance:
            name = f"{name}_{round(distance.total_seconds() * 1000)}".replace("-", "m")
        self._values[name] = value
        return sa.bindparam(name, type_=type_)


def _overdue_cutoff(asked: QueryParameters) -> datetime:
    return asked.now - timedelta(seconds=asked.patience)


def _given(time: datetime | None) -> datetime:
    assert time is not None
    return time


@dataclass(frozen=True)
class InvariantQuery:
    """A built query, which runs with the parameters of one run."""

    statement: Any
    scope: QueryScope

    def run(self, tx: Tx, parameters: QueryParameters, examples: int) -> tuple[int, tuple[str, ...]]:
        """Return the number of rows that it finds, and sentences about the first of them: one statement."""
        broken = tx.rows(self.statement, self.scope.values(parameters) | {"examples": max(1, examples)})
        if not broken:
            return 0, ()
        return broken[0]["total"], tuple(row["words"].format(**row) for row in broken[:examples])


@functools.lru_cache(maxsize=256)
def build_query(selects: Callable[[QueryScope], Sequence[Violations]], shape: QueryShape) -> InvariantQuery:
    """Return the query of these selects for a shape."""
    look = QueryScope(shape)
    found = selects(look)
    rows = (sa.union_all(*found) if len(found) > 1 else found[0]).subquery("broken")
    statement = (
        sa.select(rows, sa.func.count().over().label("total"))
        .order_by(rows.c.words, rows.c.id, rows.c.name)
        .limit(sa.bindparam("examples", type_=sa.Integer))
    )
    return InvariantQuery(statement, look)


def violations(words: Any, id_: Any = None, name: Any = None, number: Any = None) -> Violations:
    """Return the columns of a select: the message about each row that it finds."""
    return sa.select(
        (sa.literal(words, sa.Text) if isinstance(words, str) else words).label("words"),
        (sa.cast(sa.null(), Id) if id_ is None else id_).label("id"),
        sa.cast(sa.null() if name is None else name, sa.Text).label("name"),
        sa.cast(sa.null() if number is None else number, sa.Integer).label("number"),
    )


def message_for(*cases: tuple[Any, str]) -> Any:
    """Return the message of the first condition that holds; the last message where none does."""
    *first, (_, last) = cases
    said = [(condition, sa.literal(words, sa.Text)) for condition, words in first]
    return sa.case(*said, else_=sa.literal(last, sa.Text)) if said else sa.literal(last, sa.Text)

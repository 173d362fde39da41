"""What the queries of the invariants share: the moment, the patience, and the form of what they find.

Every select gives the same four columns: words with places for the other three (``{id}``, ``{name}``, ``{number}``).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

import sqlalchemy as sa

from engine import horizon
from engine.events import least_id
from engine.settings import Settings
from engine.tables import Id
from engine.tx import Tx

# The least time that something open may rest; with long leases it is longer.
LEAST_PATIENCE = 60.0
# A worker that died, the reaper's grace after an outage, another lease: by then somebody else has it.
LEASES = 4

Found = sa.Select[*tuple[Any, ...]]


@dataclass(frozen=True)
class Look:
    """One asking: as of when, since when, and how patient."""

    tx: Tx
    settings: Settings
    since: datetime | None = None
    wanted: float | None = None

    @property
    def patience(self) -> float:
        """Seconds that something open may rest without progress."""
        if self.wanted is not None:
            return self.wanted
        return max(LEAST_PATIENCE, LEASES * self.settings.lease_seconds)

    @property
    def drained(self) -> bool:
        """Whether nothing should be open at all."""
        return self.patience <= 0

    @property
    def latest(self) -> datetime:
        """What was due before this moment has rested too long."""
        return self.tx.now - timedelta(seconds=self.patience)

    def recent(self, *columns: Any) -> list[Any]:
        """The condition that these ids are of what is looked at: made from ``since`` on."""
        return [] if self.since is None else [column >= least_id(self.since) for column in columns]

    def unpruned(self, moment: Any) -> Any:
        """The condition that what belongs to ``moment`` cannot have been pruned."""
        reached = horizon.read(self.tx)
        return sa.true() if reached is None else moment >= reached

    def from_then(self, *columns: Any) -> list[Any]:
        """The same for moments."""
        return [] if self.since is None else [column >= self.since for column in columns]


def found(words: Any, id_: Any = None, name: Any = None, number: Any = None) -> Found:
    """The head of a select: what is said of each row that it finds."""
    return sa.select(
        (sa.literal(words, sa.Text) if isinstance(words, str) else words).label("words"),
        (sa.cast(sa.null(), Id) if id_ is None else id_).label("id"),
        sa.cast(sa.null() if name is None else name, sa.Text).label("name"),
        sa.cast(sa.null() if number is None else number, sa.Integer).label("number"),
    )


def sentences(tx: Tx, selects: Sequence[Found], examples: int) -> tuple[int, tuple[str, ...]]:
    """How many rows these selects find together, and sentences about the first of them: one statement."""
    rows = (sa.union_all(*selects) if len(selects) > 1 else selects[0]).subquery("broken")
    statement = (
        sa.select(rows, sa.func.count().over().label("total"))
        .order_by(rows.c.words, rows.c.id, rows.c.name)
        .limit(max(1, examples))
    )
    broken = tx.rows(statement)
    if not broken:
        return 0, ()
    return broken[0]["total"], tuple(row["words"].format(**row) for row in broken[:examples])


def words_of(*cases: tuple[Any, str]) -> Any:
    """The words of the first condition that holds; the last one's where none does."""
    *first, (_, last) = cases
    said = [(condition, sa.literal(words, sa.Text)) for condition, words in first]
    return sa.case(*said, else_=sa.literal(last, sa.Text)) if said else sa.literal(last, sa.Text)

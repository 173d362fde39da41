"""The root budget: the number of executions that one first event or call may cause in all.

Depth alone does not stop a fan-out. The counter row is raised in the very transaction that creates
the executions, so the number is exact with any number of routers.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import sqlalchemy as sa

from functory.engine.database import audit
from functory.engine.database.connection import Database
from functory.engine.database.schema import Id, budget, execution
from functory.engine.database.transaction import Tx
from functory.engine.errors import NotFound


def take(tx: Tx, wanted: Mapping[str, int], maximum: int) -> Callable[[], dict[str, tuple[int, int]]]:
    """Count ``wanted`` executions of each root, whether or not its budget allows them, and lock the budgets until the
    commit. Returns a function for what was used before, and the maximum (``maximum`` for a new one), by root: called
    after another statement, it takes no round trip.

    The caller gives back with :func:`give_back` what it does not start. So the usual case, in which every budget
    allows what is wanted, takes one statement. Rows are locked in the order of their ids: two routers never wait for
    each other in a circle.
    """
    rows = [
        {"root_id": root, "used": count, "maximum": maximum, "created_at": tx.now}
        for root, count in sorted(wanted.items())
    ]
    read = tx.upsert(budget, rows, _count_in)
    return lambda: {row["root_id"]: (row["used"] - wanted[row["root_id"]], row["maximum"]) for row in read()}


def _count_in(new: Any) -> dict[str, Any]:
    return {"used": budget.c.used + new.used}


_GIVEN_BACK = (
    sa.update(budget)
    .where(budget.c.root_id == sa.bindparam("root", type_=Id))
    .values(used=budget.c.used - sa.bindparam("count", type_=sa.Integer))
)


def give_back(tx: Tx, unused: Mapping[str, int]) -> None:
    """Reduce the counters of budgets that :func:`take` has locked: these executions were not started."""
    reduced = [{"root": root, "count": count} for root, count in sorted(unused.items()) if count]
    if reduced:
        tx.execute(_GIVEN_BACK, reduced)


def set_maximum(tx: Tx, root_id: str, maximum: int) -> None:
    """Change the budget of a root; a budget below the executions it has caused stops it.

    Raises :class:`NotFound` when it has caused none yet.
    """
    least = sa.case((budget.c.used > maximum, budget.c.used), else_=maximum)
    if tx.execute(sa.update(budget).where(budget.c.root_id == root_id).values(maximum=least)).rowcount == 0:
        raise NotFound(f"root {root_id} has no budget row", "it has caused no execution")


def change(database: Database, root_id: str, maximum: int, *, author: str = "") -> dict[str, Any]:
    """Change the budget of a root (:func:`set_maximum`), with an audit entry. Returns ``used`` and ``maximum``."""
    with database.write() as tx:
        set_maximum(tx, root_id, maximum)
        audit.append(tx, author, "budget.raise", root_id, {"maximum": maximum})
        row = tx.first(sa.select(budget.c.used, budget.c.maximum).where(budget.c.root_id == root_id))
    assert row is not None
    return row


def used_by_others(tx: Tx, least: int, trigger_id: str) -> dict[str, int]:
    """Return, for each root that has used at least ``least`` of its budget, its executions that other triggers and
    calls started.
    """
    others = sa.or_(execution.c.trigger_id.is_(None), execution.c.trigger_id != trigger_id)
    return tx.pairs(
        sa.select(budget.c.root_id, sa.func.count(execution.c.id))
        .join(execution, execution.c.root_id == budget.c.root_id)
        .where(budget.c.used >= least, execution.c.id != execution.c.root_id, others)
        .group_by(budget.c.root_id)
    )

"""The root budget: the number of executions that one first event or call may cause in all.

Depth alone does not stop a fan-out. The counter row is raised in the very transaction that creates
the executions, so the number is exact with any number of routers.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

import sqlalchemy as sa

from functory.engine.database.schema import budget, execution
from functory.engine.database.transaction import Tx
from functory.engine.errors import NotFound


def lock(tx: Tx, roots: Collection[str], maximum: int) -> dict[str, tuple[int, int]]:
    """Lock the budgets of ``roots`` until the commit. Returns (used, maximum) by root.

    Rows are locked in the order of their ids, so that two routers never wait for each other in a circle.
    """
    if not roots:
        return {}
    # New rows first: a transaction that waits for another one's insert must not hold a lock yet.
    new = [{"root_id": root, "used": 0, "maximum": maximum, "created_at": tx.now} for root in sorted(roots)]
    tx.insert_missing(budget, new)
    return {
        row["root_id"]: (row["used"], row["maximum"]) for row in tx.rows(_LOCKED, {"roots": sorted(roots)})
    }


_LOCKED = (
    sa.select(budget)
    .where(budget.c.root_id.in_(sa.bindparam("roots", expanding=True)))
    .order_by(budget.c.root_id)
    .with_for_update()
)
_SPENT = (
    sa.update(budget)
    .where(budget.c.root_id == sa.bindparam("root"))
    .values(used=budget.c.used + sa.bindparam("more"))
)


def spend(tx: Tx, taken: Mapping[str, int]) -> None:
    """Raise the counters of locked budgets."""
    raised = [{"root": root, "more": count} for root, count in sorted(taken.items()) if count]
    if raised:
        tx.execute(_SPENT, raised)


def set_maximum(tx: Tx, root_id: str, maximum: int) -> None:
    """Change the budget of a root; a budget below the executions it has caused stops it.

    Raises :class:`NotFound` when it has caused none yet.
    """
    least = sa.case((budget.c.used > maximum, budget.c.used), else_=maximum)
    if tx.execute(sa.update(budget).where(budget.c.root_id == root_id).values(maximum=least)).rowcount == 0:
        raise NotFound(f"root {root_id} has no budget row", "it has caused no execution")


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

"""The budget of a root: how many executions one first event or call may cause in all.

Depth alone does not stop a fan-out. The counter row is raised in the very transaction that creates
the executions, so the number is exact with any number of routers.
"""

from __future__ import annotations

from collections.abc import Mapping

import sqlalchemy as sa

from engine.database import Tx
from engine.errors import NotFound
from engine.tables import budget


def take(tx: Tx, wanted: Mapping[str, int], maximum: int) -> dict[str, tuple[int, int, int]]:
    """Take up to ``wanted[root]`` executions from each root's budget.

    Returns (granted, used before, maximum) by root. Rows are locked in the order of their ids, so
    that two routers never wait for each other in a circle.
    """
    result: dict[str, tuple[int, int, int]] = {}
    if not wanted:
        return result
    roots = sorted(wanted)
    statement = sa.select(budget).where(budget.c.root_id.in_(roots)).order_by(budget.c.root_id)
    if tx.dialect == "postgresql":
        statement = statement.with_for_update()
    # New rows first: whoever waits for a row that somebody else inserts must not hold a lock yet.
    tx.insert_missing(budget, [{"root_id": root, "used": 0, "maximum": maximum, "created_at": tx.now} for root in roots])
    for row in tx.rows(statement):
        granted = max(0, min(wanted[row["root_id"]], row["maximum"] - row["used"]))
        result[row["root_id"]] = (granted, row["used"], row["maximum"])
    raised = [{"root": root, "more": granted} for root, (granted, _, _) in sorted(result.items()) if granted]
    if raised:
        tx.execute(sa.update(budget).where(budget.c.root_id == sa.bindparam("root"))
                   .values(used=budget.c.used + sa.bindparam("more")), raised)
    return result


def raise_to(tx: Tx, root_id: str, maximum: int) -> None:
    """Give a root a larger budget. Raises :class:`NotFound` when it has caused nothing yet."""
    if tx.execute(sa.update(budget).where(budget.c.root_id == root_id).values(maximum=maximum)).rowcount == 0:
        raise NotFound(f"root {root_id} has no budget row", "it has caused no execution")

"""Retention of runs of agents: they are deleted with their tree (:mod:`functory.engine.maintenance.tree_deletion`)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import sqlalchemy as sa

from functory.engine.agents import memory
from functory.engine.database.connection import Tx
from functory.engine.database.schema import approval, run, run_step, run_wait


def delete_of_trees(tx: Tx, roots: Sequence[str]) -> Counter[str]:
    """Delete the runs of trees. None of them may be open."""
    runs = sa.select(run.c.id).where(run.c.root_id.in_(roots))
    ids = list(tx.execute(runs).scalars())
    gone = Counter[str](memory=memory.forget_runs(tx, ids) if ids else 0)
    for table, condition in (
        (approval, approval.c.root_id.in_(roots)),
        (run_wait, run_wait.c.run_id.in_(runs)),
        (run_step, run_step.c.run_id.in_(runs)),
        (run, run.c.root_id.in_(roots)),
    ):
        gone[table.name] += tx.execute(sa.delete(table).where(condition)).rowcount
    return +gone

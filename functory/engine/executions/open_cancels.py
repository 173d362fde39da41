"""Open cancels: executions that have ended, or are cancelled with their tree, while something below them is open.

A parent that ends without success takes its children along: those that it has called or submitted, unless it asked for
a child that is left alone (:data:`functory.engine.database.schema.executions.execution` has ``ends_with_parent``). The
transaction of its end writes a row of ``open_cancel`` if such a child is open. No child can follow: an attempt that has
ended starts none (:func:`functory.engine.events.causation.check_fence`). So one statement is the whole cost for a
parent, and the row remains until :mod:`functory.engine.maintenance.canceller` has reached every child, also after a
crash. A child that ends by it has a row of its own for its children.

A parent that is tried again has not ended, and its children go on.
"""

from __future__ import annotations

import sqlalchemy as sa

from functory.engine.database.schema import Id, Instant, execution, open_cancel
from functory.engine.database.transaction import Tx
from functory.engine.executions.execution_row import ExecutionRow

# Children that are not cancelled yet: one that runs has its request once.
CANCELLABLE = sa.or_(
    execution.c.state == "queued",
    sa.and_(execution.c.state == "running", execution.c.cancel_requested_at.is_(None)),
)
_ID = sa.bindparam("id", type_=Id)
GOES_ALONG = sa.and_(execution.c.parent_id == _ID, execution.c.ends_with_parent, CANCELLABLE)
# Built once, because it runs with every end that is no success.
_OF_CHILDREN = sa.insert(open_cancel).from_select(
    ["execution_id", "whole_tree", "author", "requested_at", "found"],
    sa.select(_ID, sa.false(), sa.literal(""), sa.bindparam("now", type_=Instant), sa.false()).where(
        sa.exists().where(GOES_ALONG)
    ),
)


def begin_if_failed(tx: Tx, row: ExecutionRow, state: str) -> None:
    """Let an execution that ends as ``state`` in this transaction take its children along, unless it succeeded.

    ``row`` is the execution before its end. One statement; none for a success, and for one that never started.
    """
    if state == "succeeded" or row.started_at is None:
        return
    if tx.execute(_OF_CHILDREN, {"id": row.id, "now": tx.now}).rowcount:
        tx.wake("cancels")


def begin_of_tree(tx: Tx, id_: str, author: str) -> None:
    """Let a cancel reach everything that an execution has caused. Nothing happens while the same cancel is open."""
    row = {
        "execution_id": id_,
        "whole_tree": True,
        "author": author,
        "requested_at": tx.now,
        "found": False,
    }
    tx.insert_missing(open_cancel, [row])
    tx.wake("cancels")

"""The canceller: lets cancels reach what is below the cancelled executions, a page in each transaction.

Two cancels are open (:mod:`functory.engine.executions.open_cancels`): that of the children of an execution that ended
without success, and that of a whole tree. The second passes over the open executions of the tree, oldest first, until a
pass finds nothing below the execution, and every event from before that pass is routed.

What undoes a step (a compensation), and what the event of a cancelled execution has started, goes on: it belongs to the
cancel. Any number of processes may call :func:`advance`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import sqlalchemy as sa

from functory.engine.database.connection import Database, Tx
from functory.engine.database.id_lists import one_of
from functory.engine.database.schema import Id, event, execution, open_cancel, run
from functory.engine.events import routing_queue
from functory.engine.executions import cancellation, open_cancels
from functory.engine.executions.cancel_row import OPEN, cancel_locked, error_of
from functory.engine.executions.execution_row import LOCKED_COLUMNS, LockedExecution
from functory.engine.executions.runs import rows as run_rows
from functory.engine.executions.runs import transitions
from functory.engine.service import Service
from functory.engine.settings import Settings

# Executions of one transaction, so that it stays short.
PAGE = 100
# Cancels of one round.
ROUND = 100
# A pass over a tree that has found something is followed by another one.
RECHECK_SECONDS = 1.0
# Events of these types come after a cancel, and what they start may clean up.
REPORTS = ("execution.cancelled", "run.cancelled")


class Canceller(Service):
    """Lets cancels go down."""

    name, topic = "canceller", "cancels"

    def __init__(self, database: Database, settings: Settings) -> None:
        self.poll_seconds = settings.poll_seconds
        self._database = database
        self._waits = False

    def run_once(self) -> bool:
        """Advance the open cancels, each by one page. True when one of them can go on at once. Raises
        :class:`Unavailable`.
        """
        more, self._waits = advance(self._database)
        return more

    def next_due(self) -> float | None:
        """Return the seconds to the next pass over a tree that is not at its end."""
        return RECHECK_SECONDS if self._waits else None


def advance(database: Database) -> tuple[bool, bool]:
    """Advance the open cancels, each by one page. Returns whether one of them can go on at once, and whether that of a
    tree may have to wait: for executions to end, or for events to be routed.
    """
    with database.read() as tx:
        found = tx.rows(_OPEN_CANCELS)
    more = len(found) == ROUND
    for one in found:
        with database.write() as tx:
            own = tx.first(_LOCKED, {"id": one["execution_id"], "tree": one["whole_tree"]})
            if own is not None:
                more |= (_advance_tree if own["whole_tree"] else _advance_children)(tx, own)
    return more, any(one["whole_tree"] for one in found)


def _advance_children(tx: Tx, own: Mapping[str, Any]) -> bool:
    """Cancel a page of the children of an execution. True when there may be more, or some below them."""
    children = tx.all(LockedExecution, _CHILDREN, {"id": own["execution_id"]})
    for row in children:
        cancel_locked(tx, row, f"execution {own['execution_id']}")
    full = len(children) == PAGE
    if not full:
        tx.execute(_DONE, {"id": own["execution_id"], "tree": False})
    # One between two attempts has ended with this, and may have children.
    return full or any(row.state == "queued" and row.started_at is not None for row in children)


def _advance_tree(tx: Tx, own: Mapping[str, Any]) -> bool:
    """Cancel a page of the open executions below one. True when there may be more in this pass."""
    target = own["execution_id"]
    root = tx.scalar(_ROOT, {"id": target})
    changes: dict[str, Any] = {"found": own["found"], "pass_id": own["pass_id"]}
    if own["after_id"] is None:
        if _cancel_runs(tx, target, root, own["author"]):
            # Runs are locked before executions: those of the pass are looked at in the next transaction.
            return True
        changes = {"found": False, "pass_id": tx.new_id()}
    page = tx.rows(_OPEN_OF_TREE, {"root": root, "after": own["after_id"] or _LEAST})
    below = _below(tx, target, [row["id"] for row in page])
    transitions.lock_runs(tx, {row["id"]: row["cause"] for row in page if row["id"] in below})
    for row in page:
        # One that has its request may still start something: the pass has found it.
        if row["id"] in below and row["cancel_requested_at"] is None:
            cancellation.cancel_open(tx, row["id"], own["author"])
    changes["found"] = changes["found"] or bool(below)
    full = len(page) == PAGE
    if full or changes["found"] or not _all_routed(tx, changes["pass_id"]):
        changes["after_id"] = page[-1]["id"] if full else None
        tx.execute(sa.update(open_cancel).where(*_own(own)).values(changes))
    else:
        tx.execute(_DONE, {"id": target, "tree": True})
    return full


def _cancel_runs(tx: Tx, target: str, root: str, author: str) -> bool:
    """Cancel a page of the open runs below an execution: one that waits for a person has no open execution. True when
    there was one.
    """
    open_runs = list(tx.execute(_OPEN_RUNS, {"root": root}).scalars())
    below = sorted(_below(tx, target, open_runs))[:PAGE]
    for id_ in below:
        found = run_rows.lock(tx, id_)
        if found["ended_at"] is None:
            transitions.cancel(tx, found, error_of(author)["message"])
    return bool(below)


def _all_routed(tx: Tx, before: str) -> bool:
    first = routing_queue.first_unrouted(tx)
    return first is None or first > before


def _below(tx: Tx, target: str, ids: Sequence[str]) -> set[str]:
    """Return those of ``ids`` that ``target`` has caused, and itself. One statement for each level above them."""
    above: dict[str, str | None] = {}
    asked = set(ids)
    while asked:
        for row in tx.rows(_CAUSES, {"ids": sorted(asked)}):
            is_part = row["cause"] != "compensation" and row["type"] not in REPORTS
            above[row["id"]] = (row["parent_id"] or row["cause_execution_id"]) if is_part else None
        asked = {id_ for id_ in above.values() if id_ is not None and id_ not in above and id_ != target}
    below = set()
    for id_ in ids:
        at: str | None = id_
        while at is not None and at != target:
            at = above.get(at)
        if at is not None:
            below.add(id_)
    return below


def _own(own: Mapping[str, Any]) -> tuple[sa.ColumnElement[bool], ...]:
    return open_cancel.c.execution_id == own["execution_id"], open_cancel.c.whole_tree.is_(own["whole_tree"])


# Built once, because every scheduler runs the first in every round.
_OPEN_CANCELS = (
    sa.select(open_cancel.c.execution_id, open_cancel.c.whole_tree)
    .order_by(open_cancel.c.requested_at, open_cancel.c.execution_id)
    .limit(ROUND)
)
_KEY = (
    open_cancel.c.execution_id == sa.bindparam("id", type_=Id),
    open_cancel.c.whole_tree == sa.bindparam("tree", type_=sa.Boolean),
)
_LOCKED = sa.select(open_cancel).where(*_KEY).with_for_update(skip_locked=True)
_DONE = sa.delete(open_cancel).where(*_KEY)
_CHILDREN = (
    sa.select(*LOCKED_COLUMNS)
    .where(open_cancels.GOES_ALONG)
    .order_by(execution.c.id)
    .limit(PAGE)
    .with_for_update()
)
_LEAST = "00000000-0000-0000-0000-000000000000"
_ROOT = sa.select(execution.c.root_id).where(execution.c.id == sa.bindparam("id", type_=Id))
_OPEN_OF_TREE = (
    sa.select(execution.c.id, execution.c.cause, execution.c.cancel_requested_at)
    .where(
        execution.c.root_id == sa.bindparam("root", type_=Id),
        execution.c.id > sa.bindparam("after", type_=Id),
        execution.c.state.in_(OPEN),
    )
    .order_by(execution.c.id)
    .limit(PAGE)
)
_OPEN_RUNS = (
    sa.select(run.c.id)
    .where(run.c.root_id == sa.bindparam("root", type_=Id), run.c.ended_at.is_(None))
    .order_by(run.c.id)
)
_CAUSES = (
    sa.select(
        execution.c.id,
        execution.c.cause,
        execution.c.parent_id,
        event.c.cause_execution_id,
        event.c.type,
    )
    .outerjoin(event, event.c.id == execution.c.event_id)
    .where(one_of(execution.c.id))
)

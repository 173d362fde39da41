"""Questions as people read them: those of runs, and those whether a proposal may become active.

A question of a run belongs to the function of the run, one about a proposal to the proposed function: by that function
a scope (:mod:`functory.engine.access.scopes`) limits which questions are seen.
"""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa

from functory.engine import choices
from functory.engine.access import scopes
from functory.engine.access.scopes import Scope
from functory.engine.database.connection import Database
from functory.engine.database.schema import approval, proposal, run
from functory.engine.database.schema.agents import APPROVAL_KINDS
from functory.engine.database.transaction import Tx
from functory.engine.errors import AlreadyDecided, NotFound
from functory.engine.events.store import as_id

STATES = ("pending", "approved", "edited", "rejected", "answered", "expired", "withdrawn")


def page(
    database: Database,
    *,
    state: str | None = None,
    kind: str | None = None,
    run_id: str | None = None,
    behind: str | None = None,
    limit: int = 50,
    scope: Scope = None,
) -> list[dict[str, Any]]:
    """Return questions with the agent that asks and the function that they are about. Those that wait (``state`` is
    ``pending``) come oldest first, all others newest first. ``behind`` is the last one of the page before.
    """
    conditions = list(scopes.approvals(scope))
    is_upward = state == "pending"
    for name, value, known in (("state", state, STATES), ("kind", kind, APPROVAL_KINDS)):
        if value is not None:
            choices.check(name, [value], known)
            conditions.append(approval.c[name] == value)
    if run_id is not None:
        conditions.append(approval.c.run_id == as_id(run_id, "run"))
    if behind is not None:
        last = as_id(behind, "approval")
        conditions.append(approval.c.id > last if is_upward else approval.c.id < last)
    order = approval.c.id if is_upward else approval.c.id.desc()
    with database.read() as tx:
        return tx.rows(_selected().where(*conditions).order_by(order).limit(limit))


def get(database: Database, id_: str, scope: Scope = None) -> dict[str, Any]:
    """Return one question. Raises :class:`NotFound`, also for one outside of ``scope``."""
    with database.read() as tx:
        return load(tx, id_, scope)


def load(tx: Tx, id_: str, scope: Scope = None) -> dict[str, Any]:
    """Return one question. Raises :class:`NotFound`."""
    statement = _selected().where(approval.c.id == as_id(id_, "approval"))
    found = tx.first(statement.where(*scopes.approvals(scope)))
    if found is None:
        raise NotFound(f"question {id_} not found", try_="functory approval list")
    return found


def open_of_run(tx: Tx, run_id: str) -> list[dict[str, Any]]:
    """Return the questions of a run that wait, the oldest first."""
    open_ = approval.c.run_id == run_id, approval.c.state == "pending"
    return tx.rows(_selected().where(*open_).order_by(approval.c.id))


def already_decided(tx: Tx, id_: str) -> AlreadyDecided:
    """Return the error for a second decision about a question: it says who decided first, and when."""
    found = tx.first(sa.select(approval).where(approval.c.id == id_))
    assert found is not None
    by = f" by {found['decided_by']}" if found["decided_by"] else ""
    at = f" at {found['decided_at']:%Y-%m-%d %H:%M:%S} UTC" if found["decided_at"] else ""
    return AlreadyDecided(
        f"question {id_} is {found['state']}{by}",
        f"a question is decided once, and this one was{at}",
        f"functory approval show {id_}",
        decided_by=found["decided_by"],
        decided_at=found["decided_at"],
    )


def _selected() -> sa.Select[Any]:
    function = sa.func.coalesce(proposal.c.function, run.c.function)
    return (
        sa.select(approval, run.c.agent, run.c.goal, function.label("function"))
        .outerjoin(run, run.c.id == approval.c.run_id)
        .outerjoin(proposal, proposal.c.id == approval.c.proposal_id)
    )

"""Runs and their steps as people read them: one run, pages of runs, pages of steps.

A scope (:mod:`functory.engine.access.scopes`) limits which runs are seen: those whose function is in it.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any

import sqlalchemy as sa

from functory.engine import choices
from functory.engine.access import scopes
from functory.engine.access.scopes import Scope
from functory.engine.agents.agent_fields import Limits
from functory.engine.database import prune_watermarks
from functory.engine.database.clock import lowest_id
from functory.engine.database.connection import Database
from functory.engine.database.dialects import json_member
from functory.engine.database.schema import execution, llm_call, meter, run, run_step
from functory.engine.database.schema.agents import RUN_ENDED, RUN_OPEN
from functory.engine.database.transaction import Tx
from functory.engine.errors import NotFound
from functory.engine.events.store import as_id
from functory.engine.executions.runs import questions, rows
from functory.engine.serialization import json_codec

STATES = (*RUN_OPEN, *RUN_ENDED)
# A list has none of what may be large.
_LISTED = tuple(
    column for column in run.c if column.name not in ("definition", "memo", "pending", "result", "detail")
)
_OF_EXECUTION = (
    "state",
    "version",
    "input",
    "result",
    "error",
    "attempt",
    "run_at",
    "started_at",
    "finished_at",
)


def get(database: Database, id_: str, scope: Scope = None) -> dict[str, Any]:
    """Return a run with its meter (``spent``), what it waits for (``waits``) and its open ``questions``. Raises
    :class:`NotFound`, also for one outside of ``scope``.
    """
    # The run may go on between two of the statements: its state, its reason and its waits must agree.
    with database.read(snapshot=True) as tx:
        own = load(tx, id_, scope)
        own["spent"] = tx.first(sa.select(meter).where(meter.c.root_id == own["root_id"]))
        own["waits"] = rows.waits_of(tx, own["id"])
        own["questions"] = questions.open_of_run(tx, own["id"])
        own["max_steps"] = Limits.of(own["definition"]).steps
    return own


def page(
    database: Database,
    *,
    agent: str | None = None,
    state: str | None = None,
    root_id: str | None = None,
    since: datetime | None = None,
    until: datetime | None = None,
    before: str | None = None,
    limit: int = 50,
    scope: Scope = None,
) -> list[dict[str, Any]]:
    """Return runs without memo and result, newest first, each with ``max_steps`` and what its tree has spent. ``state``
    may be ``open``.
    """
    conditions = list(scopes.runs(scope))
    if agent is not None:
        conditions.append(run.c.agent == agent)
    if state == "open":
        conditions.append(run.c.ended_at.is_(None))
    elif state is not None:
        choices.check("state", [state], ("open", *STATES))
        conditions.append(run.c.state == state)
    if root_id is not None:
        conditions.append(run.c.root_id == as_id(root_id, "execution"))
    # Ids are times.
    if since is not None:
        conditions.append(run.c.id >= lowest_id(since))
    if until is not None:
        conditions.append(run.c.id < lowest_id(until))
    if before is not None:
        conditions.append(run.c.id < as_id(before, "run"))
    with database.read() as tx:
        statement = (
            sa.select(
                *_LISTED,
                json_member(tx, run.c.definition, "limits").label("limits"),
                meter.c.usd_spent,
                meter.c.usd_limit,
            )
            .outerjoin(meter, meter.c.root_id == run.c.root_id)
            .where(*conditions)
        )
        found = tx.rows(statement.order_by(run.c.id.desc()).limit(limit))
    return [row | {"max_steps": _steps_of(row.pop("limits"))} for row in found]


def steps(
    database: Database, id_: str, *, after: int = 0, limit: int | None = None, scope: Scope = None
) -> list[dict[str, Any]]:
    """Return the steps of a run behind number ``after`` with the state, the input and the result of their executions,
    and the cost of the calls that each has asked for.
    """
    cost = (
        sa.select(sa.func.coalesce(sa.func.sum(llm_call.c.cost), 0))
        .where(llm_call.c.execution_id == run_step.c.execution_id)
        .scalar_subquery()
    )
    with database.read(snapshot=True) as tx:
        own = load(tx, id_, scope)
        statement = (
            sa.select(run_step, *(execution.c[name] for name in _OF_EXECUTION), cost.label("cost"))
            .join(execution, execution.c.id == run_step.c.execution_id)
            .where(run_step.c.run_id == own["id"], run_step.c.number > after)
            .order_by(run_step.c.number)
            .limit(limit)
        )
        return [{**row, "cost": int(row["cost"])} for row in tx.rows(statement)]


def cost(database: Database, id_: str, scope: Scope = None) -> dict[str, Any]:
    """Return what the steps of a run have asked of each model (``models``), and the meter of its tree (``tree``), which
    counts its tools and child runs, too.
    """
    sums = [
        sa.func.coalesce(sa.func.sum(llm_call.c[name]), 0).label(name)
        for name in ("cost", "tokens_in", "tokens_out")
    ]
    with database.read(snapshot=True) as tx:
        own = load(tx, id_, scope)
        asked = (
            sa.select(llm_call.c.asked.label("model"), sa.func.count().label("calls"), *sums)
            .join(run_step, run_step.c.execution_id == llm_call.c.execution_id)
            .where(run_step.c.run_id == own["id"])
            .group_by(llm_call.c.asked)
            .order_by(llm_call.c.asked)
        )
        tree = tx.first(sa.select(meter).where(meter.c.root_id == own["root_id"]))
        return {"models": [{**row, "cost": int(row["cost"])} for row in tx.rows(asked)], "tree": tree}


def check_visible(database: Database, id_: str, scope: Scope) -> None:
    """Raise :class:`NotFound` for a run that does not exist or that is outside of ``scope``."""
    if scope is None:
        return
    with database.read() as tx:
        statement = sa.select(run.c.id).where(run.c.id == as_id(id_, "run"))
        if tx.scalar(statement.where(*scopes.runs(scope))) is None:
            raise missing(tx, id_)


def load(tx: Tx, id_: str, scope: Scope = None) -> dict[str, Any]:
    """Return the row of a run. Raises :class:`NotFound`."""
    statement = sa.select(run).where(run.c.id == as_id(id_, "run"))
    found = tx.first(statement.where(*scopes.runs(scope)))
    if found is None:
        raise missing(tx, id_)
    return found


def missing(tx: Tx, id_: str) -> NotFound:
    """Return the error for a run that is not there: it may have been deleted."""
    return prune_watermarks.missing(tx, as_id(id_, "run"), f"run {id_} not found", "functory agent runs list")


def _steps_of(limits: str | None) -> int:
    return Limits.of({"limits": json_codec.loads(limits) if limits else None}).steps

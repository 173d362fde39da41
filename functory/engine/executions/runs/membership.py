"""Which run an execution works for: code that works for a run may do less than other code."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import sqlalchemy as sa

from functory.engine.database.connection import Database
from functory.engine.database.schema import Id, execution, run
from functory.engine.database.transaction import Tx
from functory.engine.executions.runs import consent, rows

_PARENT = sa.select(execution.c.parent_id).where(execution.c.id == sa.bindparam("id", type_=Id))
_RUN = sa.select(run.c.id, run.c.agent, run.c.definition).where(run.c.id == sa.bindparam("id", type_=Id))
# Longer ways up do not exist: the guard of depth is far below.
MAX_LEVELS = 1_000


def run_of(database: Database, execution_id: str) -> Mapping[str, Any] | None:
    """Return the run that an execution is a step of, or that a step of it, or a child of such a one, has started: its
    ``id``, its ``agent``, its ``definition``, and the tools that its code may call by itself (``callable``). None for
    an execution that works for no run.
    """
    with database.read() as tx:
        found = _id_of_run(tx, execution_id)
        row = None if found is None else tx.first(_RUN, {"id": found})
        return None if row is None else row | {"callable": consent.callable_tools(tx, row)}


def tools_of(database: Database, execution_id: str) -> list[str]:
    """Return the functions that the run of an execution may use as tools, some of them only with consent."""
    with database.read() as tx:
        found = _id_of_run(tx, execution_id)
        row = None if found is None else tx.first(_RUN, {"id": found})
        return [] if row is None else consent.tools_of(tx, row)


def reads_outside(database: Database, run_id: str) -> bool:
    """Return True for a run with a tool that may reach hosts: what its code has seen may come from there."""
    with database.read() as tx:
        row = tx.first(_RUN, {"id": run_id})
        return row is not None and consent.reads_outside(tx, row)


def _id_of_run(tx: Tx, execution_id: str) -> str | None:
    at: str | None = execution_id
    for _ in range(MAX_LEVELS):
        if at is None:
            return None
        step = rows.step_of(tx, at)
        if step is not None:
            return step["run_id"]
        at = tx.scalar(_PARENT, {"id": at})
    return None

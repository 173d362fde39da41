"""Moves of queued executions back to the base of a canary that was rolled back: what has not begun runs once, there."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import sqlalchemy as sa

from functory.engine.database.schema import canary_execution, execution
from functory.engine.database.transaction import Tx
from functory.engine.errors import FunctoryError
from functory.engine.functions import limits, versions
from functory.engine.serialization import json_schema

# Executions of one transaction. A scheduler moves the rest in the next ones.
PAGE = 500

_QUEUED = (
    sa.select(execution.c.id, execution.c.input)
    .join(canary_execution, canary_execution.c.execution_id == execution.c.id)
    .where(
        canary_execution.c.canary_id == sa.bindparam("canary_id", type_=canary_execution.c.canary_id.type),
        canary_execution.c.outcome.is_(None),
        canary_execution.c.is_canary,
        execution.c.state == "queued",
        execution.c.attempt == 0,
    )
    .order_by(execution.c.id)
    .limit(PAGE)
    # One that a worker is just claiming is not waited for: it has begun.
    .with_for_update(of=execution, skip_locked=True)
)


def to_base(tx: Tx, row: Mapping[str, Any]) -> int:
    """Give queued executions of a canary (its row) that have no attempt yet to the base, with its limits. Returns
    their number. Those whose input the base does not take keep their version.
    """
    queued = tx.rows(_QUEUED, {"canary_id": row["id"]})
    base = versions.load(tx, row["function"], row["base"]) if queued else None
    if base is None:
        return 0
    limit = limits.parse(base.limits)
    moved, kept = [], []
    for one in queued:
        try:
            json_schema.check(base.input_schema, one["input"], f"input of {base.name}")
        except FunctoryError:
            kept.append(one["id"])
        else:
            moved.append(one["id"])
    for page, outcome in ((moved, "moved"), (kept, "late")):
        tx.update_rows(canary_execution, [{"execution_id": id_, "outcome": outcome} for id_ in page])
    changes = {
        "version": base.number,
        "version_id": base.id,
        "max_attempts": limit.attempts(),
        "retries": limit.retries,
    }
    tx.update_rows(execution, [{"id": id_, **changes} for id_ in moved])
    return len(moved)

"""The rows of a claim: executions that begin to run, their places in the queue tables, and their attempts.

Each takes one statement for any number of executions on PostgreSQL.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

import sqlalchemy as sa

from functory.engine.database.id_lists import among, one_of
from functory.engine.database.schema import Instant, attempt, backlog, execution, in_flight
from functory.engine.database.transaction import Tx
from functory.engine.database.typed_rows import columns
from functory.engine.events import decided_events
from functory.engine.events.decided_events import TriggerFacts
from functory.engine.executions import queue_rows
from functory.engine.executions.execution_row import ExecutionRow
from functory.engine.executions.queue_rows import InFlight
from functory.engine.executions.runnable_versions import RunnableVersion
from functory.engine.functions import grant_approvals
from functory.engine.serialization import json_codec

_COLUMNS = columns(ExecutionRow, execution)
_PLACE = columns(InFlight, in_flight)
_FACTS = [grant_approvals.CHANGE_COUNTER, *decided_events.FACT_COLUMNS]
# A claim returns the execution, the facts, and on PostgreSQL the place.
_FACTS_AT = len(_COLUMNS)
_PLACE_AT = _FACTS_AT + len(_FACTS)
_NOW = sa.bindparam("now", type_=Instant)
# The clocks of two processes differ by some milliseconds: no execution starts before it was created.
_STARTED = sa.case((execution.c.created_at > _NOW, execution.c.created_at), else_=_NOW)
# The conditions of a claim. What was sent is due by the dispatcher's clock; the clock of this process may be slightly
# behind.
_CLAIMABLE = (
    one_of(execution.c.id),
    execution.c.state == "queued",
    sa.or_(
        execution.c.expires_at.is_(None),
        execution.c.expires_at > _NOW,
        execution.c.started_at.is_not(None),
    ),
)
_SENT = sa.select(in_flight.c.execution_id).where(one_of(in_flight.c.execution_id))
_WAITING = sa.select(backlog.c.execution_id).where(
    one_of(backlog.c.execution_id), queue_rows.READY, backlog.c.run_at <= _NOW
)


def _claimed(*conditions: Any) -> Any:
    """The UPDATE that claims executions, and returns them as they are now."""
    return (
        sa.update(execution)
        .where(*conditions)
        .values(
            state="running",
            attempt=execution.c.attempt + 1,
            fence=execution.c.fence + 1,
            lease_until=sa.bindparam("lease", type_=Instant),
            worker_id=sa.bindparam("worker"),
            started_at=sa.func.coalesce(execution.c.started_at, _STARTED),
        )
        .returning(*_COLUMNS, *_FACTS)
    )


@functools.cache
def _claimed_with_places() -> Any:
    """Claims executions and marks their rows in flight, which SQLite cannot do in one statement."""
    queued = sa.or_(among(execution.c.id, _SENT), among(execution.c.id, _WAITING))
    mine = _claimed(*_CLAIMABLE, queued).cte("mine")
    placed = (
        sa.update(in_flight)
        .where(among(in_flight.c.execution_id, sa.select(mine.c.id)))
        .values(claimed=True)
        .returning(*_PLACE)
        .cte("placed")
    )
    places = [placed.c[column.name].label(f"place_{column.name}") for column in _PLACE]
    return sa.select(mine, *places).select_from(mine.outerjoin(placed, placed.c.execution_id == mine.c.id))


_CLAIMED = _claimed(*_CLAIMABLE, sa.or_(execution.c.id.in_(_SENT), execution.c.id.in_(_WAITING)))


@dataclass
class Taken:
    """Claimed executions: their rows, and their places in flight by id.

    ``grant_changes`` is the counter of grant approvals. The facts about triggers are those of the claim.
    """

    rows: list[ExecutionRow] = field(default_factory=list)
    places: dict[str, InFlight] = field(default_factory=dict)
    grant_changes: int | None = None
    facts: TriggerFacts | None = None


def take(tx: Tx, ids: Sequence[str], worker_id: str, lease_until: datetime) -> Taken:
    """queued → running for those of ``ids`` that are due.

    An execution that was never sent is put in flight (:func:`functory.engine.executions.queue_rows.mark_claimed`).
    """
    given = {"now": tx.now, "lease": lease_until, "worker": worker_id, "ids": ids}
    if tx.dialect == "postgresql":
        result = tx.values(_claimed_with_places(), given, [*_COLUMNS, *_FACTS, *_PLACE])
    else:
        result = tx.values(_CLAIMED, given, [*_COLUMNS, *_FACTS])
    taken = Taken()
    for values in result:
        row = ExecutionRow(*values[:_FACTS_AT])
        taken.rows.append(row)
        if taken.facts is None:
            taken.grant_changes, *facts = values[_FACTS_AT:_PLACE_AT]
            taken.facts = TriggerFacts(*facts)
        place = values[_PLACE_AT:]
        if place and place[0] is not None:
            taken.places[row.id] = InFlight(*place)
    missing = [row.id for row in taken.rows if row.id not in taken.places]
    if missing:
        # Never sent; or moved between the queue tables while this statement waited for their rows.
        taken.places |= queue_rows.mark_claimed(tx, missing)
    return taken


# One JSON text for all rows: psycopg takes ten times as long to write arrays of parameters.
_BEGUN = """
    INSERT INTO attempt (execution_id, fence, number, worker_id, isolation, sandbox, started_at, queued_seconds)
    SELECT given.id, given.fence, given.number, :worker, :isolation, box.value, CAST(:now AS timestamptz), given.queued
    FROM json_to_recordset(CAST(:rows AS json)) AS given (id uuid, fence int, number int, box text, queued float8)
    JOIN json_each_text(CAST(:boxes AS json)) AS box ON box.key = given.box
    """


def add_attempts(
    tx: Tx,
    rows: Sequence[ExecutionRow],
    queued_seconds: Sequence[float | None],
    runnable: Mapping[str, RunnableVersion],
    worker_id: str,
    isolation: str,
) -> None:
    """Write the rows of attempts that begin now, for executions as :func:`take` returned them."""
    if tx.dialect == "postgresql":
        given = [
            {
                "id": row.id,
                "fence": row.fence,
                "number": row.attempt,
                "box": row.version_id,
                "queued": queued,
            }
            for row, queued in zip(rows, queued_seconds, strict=True)
        ]
        boxes = {id_: version.sandbox_text for id_, version in runnable.items()}
        parameters = {"rows": json_codec.dumps(given), "boxes": json_codec.dumps(boxes), "now": tx.now}
        tx.later(_BEGUN, parameters | {"worker": worker_id, "isolation": isolation})
        return
    tx.insert(
        attempt,
        [
            {
                "execution_id": row.id,
                "fence": row.fence,
                "number": row.attempt,
                "worker_id": worker_id,
                "isolation": isolation,
                "sandbox": runnable[row.version_id].sandbox,
                "started_at": tx.now,
                "queued_seconds": queued,
            }
            for row, queued in zip(rows, queued_seconds, strict=True)
        ],
    )

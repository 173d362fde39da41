"""Plain endings of one worker, stored together: a few statements for the rows of any number of executions.

The fence is in the condition of the UPDATE. An execution whose row it does not change no longer belongs to its attempt.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import sqlalchemy as sa

from functory.engine.database.schema import Id, Instant, attempt, execution
from functory.engine.database.transaction import Tx
from functory.engine.events.decided_events import FACTS_SQL, TriggerFacts
from functory.engine.executions import attempt_output, queue_rows
from functory.engine.executions.attempt_output import AttemptOutput
from functory.engine.executions.compensation import plan
from functory.engine.executions.ending import Ending
from functory.engine.executions.execution_events import AppendEvents, event_data, execution_event
from functory.engine.executions.execution_row import ExecutionRow
from functory.engine.executions.retry_or_dead import AttemptResult
from functory.engine.executions.runs.transitions import CAUSES
from functory.engine.serialization import json_codec


def is_plain(row: ExecutionRow, attempt_result: AttemptResult) -> bool:
    """Return True for a success that neither holds slots of concurrency groups, nor wrote watched files, nor belongs to
    a run of an agent.

    ``row`` is the execution at its claim. Every other result has steps that depend on rows of other tables.
    """
    return (
        attempt_result.outcome == "succeeded"
        and not row.has_concurrency
        and not attempt_result.file_writes
        and row.cause not in CAUSES
    )


def store(tx: Tx, endings: Sequence[Ending], append_events: AppendEvents) -> set[int]:
    """running → succeeded for those of ``endings`` whose attempt owns its execution. Returns their positions.

    Writes state, result and end of the attempts, spans, logs and events.
    """
    facts: TriggerFacts | None = None
    if tx.dialect == "postgresql":
        own, facts = _store_on_postgresql(tx, endings)
    else:
        own = _store_on_sqlite(tx, endings)
    output: list[AttemptOutput] = []
    events: list[dict[str, Any]] = []
    for position in sorted(own):
        ending = endings[position]
        plan.wake_compensator(tx, ending.claim.row)
        output.append(ending.attempt_result.output(ending.key))
        events += success_events(tx, ending)
    attempt_output.insert(tx, output)
    append_events(tx, events, facts)
    if own:
        tx.wake("finished")
    return own


def success_events(tx: Tx, ending: Ending) -> list[dict[str, Any]]:
    """Return the event rows of a success: its end, and each output pattern that matched."""
    claim, attempt_result = ending.claim, ending.attempt_result
    row, metadata = claim.row, claim.version.metadata
    data = event_data(row, "succeeded") | {
        "error": None,
        "duration_seconds": round(attempt_result.duration_seconds, 6),
        "metadata": metadata,
        "output": attempt_result.result,
    }
    events = [execution_event(tx, row, "execution.succeeded", data)]
    for name, groups in ending.matched:
        data = {
            "pattern": name,
            "groups": groups,
            "output": attempt_result.result,
            "function": row.function,
            "version": row.version,
            "execution_id": claim.id,
            "metadata": metadata,
        }
        events.append(execution_event(tx, row, "output.matched", data))
    return events


# One JSON text for all rows: psycopg takes ten times as long to write arrays of parameters. Rows are found by their
# keys before they are joined (see among() of engine.database.id_lists): PostgreSQL believes that the text has a hundred
# rows, and would read a small table whole to join them.
_SUCCEEDED_ON_POSTGRESQL = sa.text(
    f"""
    WITH given AS (
        SELECT * FROM json_to_recordset(CAST(:rows AS json)) AS given (
            position int, id uuid, fence int, result text, warnings text, took float8, waited float8)
    ), own AS (
        UPDATE execution SET state = 'succeeded', lease_until = NULL, error = NULL, warnings = given.warnings,
            finished_at = greatest(:now, execution.started_at), result = given.result, result_kind = 'json'
        FROM given
        WHERE execution.id = ANY(ARRAY(SELECT given.id FROM given))
            AND execution.id = given.id AND execution.fence = given.fence AND execution.state = 'running'
        RETURNING given.*
    ), ended AS (
        UPDATE attempt SET ended_at = :now, outcome = 'succeeded', error = NULL, duration_seconds = own.took,
            waited_seconds = own.waited
        FROM own
        WHERE attempt.execution_id = ANY(ARRAY(SELECT own.id FROM own))
            AND attempt.execution_id = own.id AND attempt.fence = own.fence
    ), landed AS (
        DELETE FROM in_flight WHERE in_flight.execution_id = ANY(ARRAY(SELECT own.id FROM own))
    )
    SELECT position, {", ".join(FACTS_SQL)} FROM own
    """  # noqa: S608
).bindparams(sa.bindparam("rows", type_=sa.Text), sa.bindparam("now", type_=Instant))


def _store_on_postgresql(tx: Tx, endings: Sequence[Ending]) -> tuple[set[int], TriggerFacts | None]:
    rows = [
        {
            "position": position,
            "id": ending.claim.id,
            "fence": ending.claim.fence,
            "result": _json_or_null(ending.attempt_result.result),
            "warnings": json_codec.dumps(list(ending.attempt_result.warnings)),
            "took": ending.attempt_result.duration_seconds,
            "waited": ending.attempt_result.waited_seconds,
        }
        for position, ending in enumerate(endings)
    ]
    # Transactions that change several executions lock them in this order, where the plan keeps it.
    rows.sort(key=lambda row: row["id"])
    found = tx.execute(_SUCCEEDED_ON_POSTGRESQL, {"rows": json_codec.dumps(rows), "now": tx.now})
    own: set[int] = set()
    facts: TriggerFacts | None = None
    for position, *values in found:
        own.add(position)
        facts = facts or TriggerFacts(*values)
    return own, facts


_OWN_ID, _OWN_FENCE = sa.bindparam("own_id", type_=Id), sa.bindparam("own_fence")
_RUNNING = sa.select(execution.c.id, execution.c.fence).where(
    execution.c.id.in_(sa.bindparam("ids", expanding=True)), execution.c.state == "running"
)
_SUCCEEDED = (
    sa.update(execution)
    .where(execution.c.id == _OWN_ID, execution.c.fence == _OWN_FENCE, execution.c.state == "running")
    .values(state="succeeded", lease_until=None, error=None, result_kind="json")
)
_ENDED = (
    sa.update(attempt)
    .where(attempt.c.execution_id == _OWN_ID, attempt.c.fence == _OWN_FENCE)
    .values(outcome="succeeded", error=None)
)


def _store_on_sqlite(tx: Tx, endings: Sequence[Ending]) -> set[int]:
    own = _running(tx, endings) if len(endings) > 1 else {0}
    if not own:
        return own
    mine = [endings[position] for position in sorted(own)]
    keys = [{"own_id": ending.claim.id, "own_fence": ending.claim.fence} for ending in mine]
    changed = tx.execute(
        _SUCCEEDED,
        [
            key
            | {
                "finished_at": max(tx.now, ending.claim.started_at),
                "result": ending.attempt_result.result,
                "warnings": list(ending.attempt_result.warnings),
            }
            for key, ending in zip(keys, mine, strict=True)
        ],
    ).rowcount
    if not changed:
        return set()
    queue_rows.remove_running(tx, [ending.claim.id for ending in mine])
    tx.execute(
        _ENDED,
        [
            key
            | {
                "ended_at": tx.now,
                "duration_seconds": ending.attempt_result.duration_seconds,
                "waited_seconds": ending.attempt_result.waited_seconds,
            }
            for key, ending in zip(keys, mine, strict=True)
        ],
    )
    return own


def _running(tx: Tx, endings: Sequence[Ending]) -> set[int]:
    """Return the positions of those whose attempt owns its execution. No other transaction changes it before the end
    of this one: SQLite has one writer at a time.
    """
    ids = [ending.claim.id for ending in endings]
    running = {(row["id"], row["fence"]) for row in tx.rows(_RUNNING, {"ids": ids})}
    return {
        position
        for position, ending in enumerate(endings)
        if (ending.claim.id, ending.claim.fence) in running
    }


def _json_or_null(value: Any) -> str | None:
    return None if value is None else json_codec.dumps(value)

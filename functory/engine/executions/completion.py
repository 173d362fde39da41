"""How an attempt ends: what becomes of its execution, decided purely, and written in one transaction with its event."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any

import sqlalchemy as sa
import structlog

from functory.engine.database.schema import Id, attempt, execution, log, span
from functory.engine.database.transaction import Tx
from functory.engine.errors import Stale
from functory.engine.events import store as event_store
from functory.engine.events.causation import Cause
from functory.engine.executions import file_writes
from functory.engine.executions.claim import Claim
from functory.engine.executions.compensation import plan
from functory.engine.executions.retry import AttemptResult, NextState
from functory.engine.flow_control import concurrency
from functory.engine.functions import output_patterns

log_ = structlog.get_logger("functory.attempts")

# Carried out for every attempt: built once. What is set is given beside the statement.
_OWN_ID, _OWN_FENCE = sa.bindparam("own_id"), sa.bindparam("own_fence")
_FINISHED = sa.update(execution).where(
    execution.c.id == _OWN_ID, execution.c.fence == _OWN_FENCE, execution.c.state == "running"
)
_ENDED = sa.update(attempt).where(attempt.c.execution_id == _OWN_ID, attempt.c.fence == _OWN_FENCE)


def finish(
    tx: Tx,
    claim: Claim,
    attempt_result: AttemptResult,
    next_state: NextState,
    patterns: Sequence[tuple[str, dict[str, Any]]],
) -> NextState:
    """Write an ending and what becomes of the execution. Raises :class:`Stale` when the attempt is a zombie."""
    if next_state.state == "queued" and _is_cancel_requested(tx, claim.id):
        # Asked for while the last try ended: there is no other one.
        next_state = NextState("cancelled", "execution.cancelled", next_state.failures)
    final = next_state.state != "queued"
    values: dict[str, Any] = {
        "state": next_state.state,
        "failures": next_state.failures,
        "lease_until": None,
        "error": dict(attempt_result.error) if attempt_result.error else None,
        "warnings": list(attempt_result.warnings),
    }
    if final:
        values |= {
            "finished_at": tx.now,
            "result": attempt_result.result,
            "result_kind": attempt_result.result_kind,
        }
    else:
        values |= {
            "run_at": tx.now + timedelta(seconds=next_state.delay),
            "queue_at": tx.now + timedelta(seconds=next_state.delay),
            "dispatched_at": None,
            "dispatch_count": 0,
            "worker_id": None,
        }
    own = {"own_id": claim.id, "own_fence": claim.fence}
    changed = tx.execute(_FINISHED, own | values).rowcount
    if not changed:
        raise Stale(f"execution {claim.id} no longer belongs to this attempt", f"fence {claim.fence}")
    if claim.row["has_concurrency"]:
        (concurrency.release if final else concurrency.release_for_retry)(tx, claim.id)
    tx.execute(
        _ENDED,
        own
        | {
            "ended_at": tx.now,
            "outcome": attempt_result.outcome,
            "error": values["error"],
            "duration_seconds": attempt_result.duration_seconds,
            "waited_seconds": attempt_result.waited_seconds,
        },
    )
    key = {"execution_id": claim.id, "fence": claim.fence}
    tx.insert(span, [key | dict(item) for item in attempt_result.spans])
    tx.insert(log, [key | dict(item) for item in attempt_result.logs])
    file_writes.record_writes(tx, claim.id, attempt_result.file_writes)
    data = event_data(claim.row, next_state.state) | {
        "error": _short(attempt_result.error),
        "duration_seconds": round(attempt_result.duration_seconds, 6),
        "metadata": claim.version["metadata"],
    }
    if next_state.state == "succeeded":
        data |= {"output": attempt_result.result, "output_kind": attempt_result.result_kind}
    if not final:
        data |= {"next_attempt_in": round(next_state.delay, 3)}
    rows = [execution_event(tx, claim.row, next_state.event_type, data)]
    for name, groups in patterns:
        rows.append(
            execution_event(
                tx,
                claim.row,
                "output.matched",
                {
                    "pattern": name,
                    "groups": groups,
                    "output": attempt_result.result,
                    "function": claim.row["function"],
                    "version": claim.row["version"],
                    "execution_id": claim.id,
                    "metadata": claim.version["metadata"],
                },
            )
        )
    event_store.append(tx, rows)
    if final:
        plan.begin_if_failed(tx, claim.row, next_state.state)
    tx.wake("finished" if final else "executions")
    return next_state


def event_data(row: Mapping[str, Any], state: str) -> dict[str, Any]:
    """What every event of an execution tells."""
    return {
        "execution_id": row["id"],
        "function": row["function"],
        "version": row["version"],
        "state": state,
        "attempt": row["attempt"],
        "parent_id": row["parent_id"],
        "trigger_id": row["trigger_id"],
        "event_id": row["event_id"],
    }


def execution_event(tx: Tx, row: Mapping[str, Any], type_: str, data: Mapping[str, Any]) -> dict[str, Any]:
    """An event caused by an execution, with the function's name as its subject."""
    return event_store.record(
        tx,
        type_,
        row["function"],
        data,
        source=f"/functory/executions/{row['id']}",
        cause=Cause.from_row(row),
    )


_CANCEL_REQUESTED = (
    sa.select(execution.c.cancel_requested_at)
    .where(execution.c.id == sa.bindparam("id", type_=Id))
    .with_for_update()
)


def _is_cancel_requested(tx: Tx, id_: str) -> bool:
    """Whether somebody asked for it; holds the row, so that nobody can ask between the look and the write."""
    return tx.scalar(_CANCEL_REQUESTED, {"id": id_}) is not None


def match_outputs(claim: Claim, attempt_result: AttemptResult) -> list[tuple[str, dict[str, Any]]]:
    """The output patterns of the function that its result matches, each with its groups."""
    patterns = claim.version["output_patterns"]
    if not patterns:
        return []
    try:
        return output_patterns.match(patterns, attempt_result.result)
    except Exception:
        # A pattern was valid when it was saved; one that no longer is must not undo a good result.
        log_.exception(
            "output patterns could not be matched", function=claim.row["function"], execution_id=claim.id
        )
        return []


def _short(error: Mapping[str, Any] | None) -> dict[str, Any] | None:
    return (
        None
        if error is None
        else {key: error[key] for key in ("type", "message", "traceback") if key in error}
    )

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
from functory.engine.executions.retry import Ending, Next
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
    tx: Tx, claim: Claim, ending: Ending, following: Next, patterns: Sequence[tuple[str, dict[str, Any]]]
) -> Next:
    """Write an ending and what becomes of the execution. Raises :class:`Stale` when the attempt is a zombie."""
    if following.state == "queued" and _is_cancelled(tx, claim.id):
        # Asked for while the last try ended: there is no other one.
        following = Next("cancelled", "execution.cancelled", following.failures)
    final = following.state != "queued"
    values: dict[str, Any] = {
        "state": following.state,
        "failures": following.failures,
        "lease_until": None,
        "error": dict(ending.error) if ending.error else None,
        "warnings": list(ending.warnings),
    }
    if final:
        values |= {"finished_at": tx.now, "result": ending.result, "result_kind": ending.result_kind}
    else:
        values |= {
            "run_at": tx.now + timedelta(seconds=following.delay),
            "queue_at": tx.now + timedelta(seconds=following.delay),
            "dispatched_at": None,
            "dispatch_count": 0,
            "worker_id": None,
        }
    own = {"own_id": claim.id, "own_fence": claim.fence}
    changed = tx.execute(_FINISHED, own | values).rowcount
    if not changed:
        raise Stale(f"execution {claim.id} no longer belongs to this attempt", f"fence {claim.fence}")
    if claim.row["laned"]:
        (concurrency.leave if final else concurrency.step_back)(tx, claim.id)
    tx.execute(
        _ENDED,
        own
        | {
            "ended_at": tx.now,
            "outcome": ending.outcome,
            "error": values["error"],
            "duration_seconds": ending.duration_seconds,
            "waited_seconds": ending.waited_seconds,
        },
    )
    key = {"execution_id": claim.id, "fence": claim.fence}
    tx.insert(span, [key | dict(item) for item in ending.spans])
    tx.insert(log, [key | dict(item) for item in ending.logs])
    file_writes.written(tx, claim.id, ending.written)
    data = describe(claim.row, following.state) | {
        "error": _short(ending.error),
        "duration_seconds": round(ending.duration_seconds, 6),
        "metadata": claim.version["metadata"],
    }
    if following.state == "succeeded":
        data |= {"output": ending.result, "output_kind": ending.result_kind}
    if not final:
        data |= {"next_attempt_in": round(following.delay, 3)}
    rows = [event_of(tx, claim.row, following.event, data)]
    for name, groups in patterns:
        rows.append(
            event_of(
                tx,
                claim.row,
                "output.matched",
                {
                    "pattern": name,
                    "groups": groups,
                    "output": ending.result,
                    "function": claim.row["function"],
                    "version": claim.row["version"],
                    "execution_id": claim.id,
                    "metadata": claim.version["metadata"],
                },
            )
        )
    event_store.add(tx, rows)
    if final:
        plan.begin(tx, claim.row, following.state)
    tx.wake("finished" if final else "executions")
    return following


def describe(row: Mapping[str, Any], state: str) -> dict[str, Any]:
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


def event_of(tx: Tx, row: Mapping[str, Any], type_: str, data: Mapping[str, Any]) -> dict[str, Any]:
    """An event caused by an execution, with the function's name as its subject."""
    return event_store.record(
        tx, type_, row["function"], data, source=f"/functory/executions/{row['id']}", cause=Cause.of(row)
    )


_ASKED = (
    sa.select(execution.c.cancel_requested_at)
    .where(execution.c.id == sa.bindparam("id", type_=Id))
    .with_for_update()
)


def _is_cancelled(tx: Tx, id_: str) -> bool:
    """Whether somebody asked for it; holds the row, so that nobody can ask between the look and the write."""
    return tx.scalar(_ASKED, {"id": id_}) is not None


def matched(claim: Claim, ending: Ending) -> list[tuple[str, dict[str, Any]]]:
    """The output patterns of the function that its result matches, each with its groups."""
    patterns = claim.version["output_patterns"]
    if not patterns:
        return []
    try:
        return output_patterns.match(patterns, ending.result)
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

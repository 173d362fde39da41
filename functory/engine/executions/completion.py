"""Completion: the result of an attempt and the next state of its execution, written in one transaction with the event.

:func:`functory.engine.executions.retry_or_dead.retry_or_dead` makes the decision; this module writes it.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any

import sqlalchemy as sa
import structlog

from functory.engine.database.connection import Database
from functory.engine.database.schema import Id, attempt, execution, log, span
from functory.engine.database.transaction import Tx
from functory.engine.errors import Stale, Unavailable
from functory.engine.events import store as event_store
from functory.engine.executions import file_writes
from functory.engine.executions.claims import Claim
from functory.engine.executions.compensation import plan
from functory.engine.executions.execution_events import event_data, execution_event
from functory.engine.executions.retry_or_dead import AttemptResult, NextState, retry_or_dead
from functory.engine.flow_control import concurrency
from functory.engine.functions import output_matcher

log_ = structlog.get_logger("functory.attempts")

# Built once, because they run for every attempt. The values to set are parameters of the execution.
_OWN_ID, _OWN_FENCE = sa.bindparam("own_id"), sa.bindparam("own_fence")
_FINISHED = sa.update(execution).where(
    execution.c.id == _OWN_ID, execution.c.fence == _OWN_FENCE, execution.c.state == "running"
)
_ENDED = sa.update(attempt).where(attempt.c.execution_id == _OWN_ID, attempt.c.fence == _OWN_FENCE)


class Completions:
    """The results of one worker's attempts."""

    def __init__(self, database: Database, rng: random.Random | None = None) -> None:
        self._database = database
        self._random = rng or random.Random()  # noqa: S311  (jitter)
        # Results whose commit outcome is unknown, by (execution id, fence).
        self._unknown_results: dict[tuple[str, int], AttemptResult] = {}

    def finish(self, claim: Claim, attempt_result: AttemptResult) -> NextState:
        """running → succeeded, failed, timed_out, cancelled, dead, or queued for another attempt.

        One transaction writes the state, the attempt's end, spans, logs, exactly one event about the execution, and the
        ``output.matched`` events of a success. Raises :class:`~functory.engine.errors.Stale` for a zombie.
        """
        next_state = retry_or_dead(claim.row, claim.limits, attempt_result, self._random.random())
        matched = match_outputs(claim, attempt_result) if next_state.state == "succeeded" else []
        key = (claim.id, claim.fence)
        try:
            done = self._database.group_commit(
                lambda tx: finish(tx, claim, attempt_result, next_state, matched)
            )
        except Unavailable:
            self._unknown_results[key] = attempt_result
            raise
        except Stale:
            if self._unknown_results.pop(key, None) == attempt_result and self._is_stored(
                claim, attempt_result
            ):
                return next_state
            raise
        self._unknown_results.pop(key, None)
        return done

    def _is_stored(self, claim: Claim, attempt_result: AttemptResult) -> bool:
        """Return True when this result is in the database: it was committed although the commit was reported as failed.

        Only a finish writes the duration of an attempt; attempts ended by the reaper or an operator have none.
        """
        with self._database.read() as tx:
            row = tx.first(
                sa.select(attempt.c.outcome, attempt.c.duration_seconds, attempt.c.waited_seconds).where(
                    attempt.c.execution_id == claim.id, attempt.c.fence == claim.fence
                )
            )
        return row is not None and row == {
            "outcome": attempt_result.outcome,
            "duration_seconds": attempt_result.duration_seconds,
            "waited_seconds": attempt_result.waited_seconds,
        }


def finish(
    tx: Tx,
    claim: Claim,
    attempt_result: AttemptResult,
    next_state: NextState,
    patterns: Sequence[tuple[str, dict[str, Any]]],
) -> NextState:
    """Write an attempt's result and the execution's next state.

    Raises :class:`~functory.engine.errors.Stale` when the attempt is a zombie.
    """
    if next_state.state == "queued" and _is_cancel_requested(tx, claim.id):
        # The cancel was requested while this attempt ended: no other attempt follows.
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
            # Results of earlier versions may be "repr".
            "result_kind": "json",
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
        data["output"] = attempt_result.result
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


_CANCEL_REQUESTED = (
    sa.select(execution.c.cancel_requested_at)
    .where(execution.c.id == sa.bindparam("id", type_=Id))
    .with_for_update()
)


def _is_cancel_requested(tx: Tx, id_: str) -> bool:
    """Return True when a cancel was requested. Locks the row, so that no request comes between this read and the
    write.
    """
    return tx.scalar(_CANCEL_REQUESTED, {"id": id_}) is not None


def match_outputs(claim: Claim, attempt_result: AttemptResult) -> list[tuple[str, dict[str, Any]]]:
    """Return the function's output patterns that its result matches, each with its groups."""
    patterns = claim.version["output_patterns"]
    if not patterns:
        return []
    try:
        return output_matcher.match(patterns, attempt_result.result)
    except Exception:
        # The patterns were valid when they were saved. A broken one must not turn a success into a failure.
        log_.exception("output patterns not matched", function=claim.row["function"], execution_id=claim.id)
        return []


def _short(error: Mapping[str, Any] | None) -> dict[str, Any] | None:
    return (
        None
        if error is None
        else {key: error[key] for key in ("type", "message", "traceback") if key in error}
    )

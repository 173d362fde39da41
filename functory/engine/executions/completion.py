"""Completion: the result of an attempt and the next state of its execution, written in one transaction with the event.

:func:`functory.engine.executions.retry_or_dead.retry_or_dead` makes the decision; this module writes it.
"""

from __future__ import annotations

import contextlib
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import sqlalchemy as sa
import structlog

from functory.engine.agents import directives
from functory.engine.database.connection import Database
from functory.engine.database.driver_errors import translate_driver_error
from functory.engine.database.id_lists import one_of_keys
from functory.engine.database.schema import Id, attempt, execution
from functory.engine.database.transaction import Tx
from functory.engine.database.typed_rows import TypedRow, columns
from functory.engine.errors import Stale, Unavailable
from functory.engine.executions import (
    attempt_output,
    bad_ends,
    cancel_row,
    file_writes,
    open_cancels,
    queue_rows,
    success_batch,
)
from functory.engine.executions.attempt_row import END_COLUMNS, AttemptEnd
from functory.engine.executions.claims import Claim
from functory.engine.executions.compensation import plan
from functory.engine.executions.ending import Ending
from functory.engine.executions.execution_events import (
    AppendEvents,
    append_for_router,
    event_data,
    execution_event,
)
from functory.engine.executions.retry_or_dead import AttemptResult, NextState, retry_or_dead
from functory.engine.executions.runs import advance, transitions
from functory.engine.flow_control import concurrency
from functory.engine.functions import output_matcher
from functory.engine.settings import Settings
from functory.engine.telemetry import metrics

log_ = structlog.get_logger("functory.attempts")

# Built once, because they run for every attempt. The values to set are parameters of the execution.
_OWN_ID, _OWN_FENCE = sa.bindparam("own_id"), sa.bindparam("own_fence")
_FINISHED = sa.update(execution).where(
    execution.c.id == _OWN_ID, execution.c.fence == _OWN_FENCE, execution.c.state == "running"
)
_ENDED = sa.update(attempt).where(attempt.c.execution_id == _OWN_ID, attempt.c.fence == _OWN_FENCE)
_ATTEMPTS = sa.select(*END_COLUMNS).where(one_of_keys((attempt.c.execution_id, attempt.c.fence)))


class _CancelRequest(TypedRow, frozen=True):
    """When and by whom it was requested that an execution is cancelled."""

    cancel_requested_at: datetime | None
    cancelled_by: str | None


_CANCEL_REQUEST = (
    sa.select(*columns(_CancelRequest, execution))
    .where(execution.c.id == sa.bindparam("id", type_=Id))
    .with_for_update()
)


class Completions:
    """The results of one worker's attempts."""

    def __init__(
        self,
        database: Database,
        rng: random.Random | None = None,
        append_events: AppendEvents = append_for_router,
        settings: Settings | None = None,
    ) -> None:
        self._database = database
        self._append_events = append_events
        self._settings = settings or Settings()
        self._random = rng or random.Random()  # noqa: S311  (jitter)
        # Results whose commit outcome is unknown, by (execution id, fence).
        self._unknown_results: dict[tuple[str, int], AttemptResult] = {}

    def finish(self, claim: Claim, attempt_result: AttemptResult) -> NextState:
        """running → succeeded, failed, timed_out, cancelled, dead, or queued for another attempt.

        Raises :class:`~functory.engine.errors.Stale` for a zombie; otherwise as :meth:`finish_many`.
        """
        (ending,) = self.finish_many([(claim, attempt_result)])
        if isinstance(ending, Exception):
            raise ending
        return ending

    def finish_many(self, results: Sequence[tuple[Claim, AttemptResult]]) -> list[NextState | Exception]:
        """Store the results of several attempts in one transaction. Returns what followed each, in order.

        The transaction writes the states, the ends of the attempts, spans, logs, exactly one event about each
        execution, and the ``output.matched`` events of successes. For an attempt that no longer owns its execution the
        list holds :class:`~functory.engine.errors.Stale`, and for a result that cannot be stored its error: the others
        are stored all the same. Raises :class:`~functory.engine.errors.Unavailable` when none is known to be stored;
        the same call may then be repeated.
        """
        endings = [
            Ending(
                claim,
                attempt_result,
                retry_or_dead(claim.row, claim.limits, attempt_result, self._random.random()),
                match_outputs(claim, attempt_result) if attempt_result.outcome == "succeeded" else [],
            )
            for claim, attempt_result in results
        ]
        try:
            done = self._store_together(endings)
        except Unavailable:
            self._unknown_results |= {ending.key: ending.attempt_result for ending in endings}
            raise
        unknown = {
            position
            for position, (ending, outcome) in enumerate(zip(endings, done, strict=True))
            if isinstance(outcome, Stale) and self._unknown_results.get(ending.key) == ending.attempt_result
        }
        if unknown:
            stored = self._stored([endings[position] for position in unknown])
            for position in unknown:
                if endings[position].key in stored:
                    done[position] = endings[position].next_state
        for ending in endings:
            self._unknown_results.pop(ending.key, None)
        return done

    def _store_together(self, endings: Sequence[Ending]) -> list[NextState | Exception]:
        """Store all in one transaction; when one of the plain successes cannot be stored, each in its own."""
        try:
            with metrics.transaction("finish"):
                return self._database.group_commit(self._storing(endings))
        except Unavailable:
            raise
        except Exception as error:
            if len(endings) == 1:
                return [error]
        return [self._store_together([ending])[0] for ending in endings]

    def _storing(self, endings: Sequence[Ending]) -> Callable[[Tx], list[NextState | Exception]]:
        return lambda tx: store_endings(tx, endings, self._append_events, self._settings)

    def _stored(self, endings: Sequence[Ending]) -> set[tuple[str, int]]:
        """Return the keys of those results that are in the database: they were committed although the commit was
        reported as failed.

        Only a finish writes the duration of an attempt; attempts ended by the reaper or an operator have none.
        """
        keys = sorted(ending.key for ending in endings)
        with self._database.read() as tx:
            ends = {
                (end.execution_id, end.fence): end for end in tx.all(AttemptEnd, _ATTEMPTS, {"keys": keys})
            }
        return {
            ending.key
            for ending in endings
            if (end := ends.get(ending.key)) is not None
            and (end.outcome, end.duration_seconds, end.waited_seconds)
            == (
                ending.attempt_result.outcome,
                ending.attempt_result.duration_seconds,
                ending.attempt_result.waited_seconds,
            )
        }


def store_endings(
    tx: Tx, endings: Sequence[Ending], append_events: AppendEvents, settings: Settings
) -> list[NextState | Exception]:
    """Write results and next states: plain successes together, each other ending under a savepoint of its own."""
    done: list[NextState | Exception] = [ending.next_state for ending in endings]
    transitions.lock_runs(tx, {ending.claim.id: ending.claim.row.cause for ending in endings})
    plain = [
        position
        for position, ending in enumerate(endings)
        if success_batch.is_plain(ending.claim.row, ending.attempt_result)
    ]
    if plain:
        own = success_batch.store(tx, [endings[position] for position in plain], append_events)
        for place, position in enumerate(plain):
            if place not in own:
                done[position] = _stale(endings[position].claim)
    others = sorted(set(range(len(endings))) - set(plain))
    for position in others:
        ending = endings[position]
        try:
            with contextlib.nullcontext() if len(endings) == 1 else tx.savepoint():
                done[position] = finish(tx, ending, append_events, settings)
        except Exception as error:
            refused = translate_driver_error(tx.connection.engine.url.render_as_string(), error) or error
            if len(endings) == 1 or isinstance(refused, Unavailable):
                raise
            done[position] = refused
    return done


def _stale(claim: Claim) -> Stale:
    return Stale(f"execution {claim.id} no longer belongs to this attempt", f"fence {claim.fence}")


def finish(tx: Tx, ending: Ending, append_events: AppendEvents, settings: Settings) -> NextState:
    """Write an attempt's result and the execution's next state. Returns that state: a cancel may have come meanwhile.

    Raises :class:`~functory.engine.errors.Stale` when the attempt is a zombie.
    """
    claim, attempt_result, next_state = ending.claim, ending.attempt_result, ending.next_state
    request = _cancel_request(tx, claim.id) if next_state.state in ("queued", "cancelled") else None
    if request is not None and next_state.state == "queued":
        # The cancel was requested while this attempt ended: no other attempt follows.
        next_state = NextState("cancelled", "execution.cancelled", next_state.failures)
    if request is not None and attempt_result.outcome == "cancelled" and request.cancelled_by:
        attempt_result = replace(attempt_result, error=cancel_row.error_of(request.cancelled_by))
    final = next_state.state != "queued"
    returned = attempt_result.result
    if claim.row.cause == transitions.STEP:
        attempt_result = replace(attempt_result, result=directives.stored(returned))
    values: dict[str, Any] = {
        "state": next_state.state,
        "failures": next_state.failures,
        "lease_until": None,
        "error": _with_reason(attempt_result.error, next_state.why_final),
        "warnings": list(attempt_result.warnings),
    }
    if final:
        values |= {
            # The claim may have taken its start from a clock that is ahead by some milliseconds.
            "finished_at": max(tx.now, claim.started_at),
            "result": attempt_result.result,
            # Results of earlier versions may be "repr".
            "result_kind": "json",
        }
    else:
        values |= {
            "run_at": tx.now + timedelta(seconds=next_state.delay),
            "worker_id": None,
        }
    own = {"own_id": claim.id, "own_fence": claim.fence}
    changed = tx.execute(_FINISHED, own | values).rowcount
    if not changed:
        raise _stale(claim)
    if final:
        queue_rows.remove_running(tx, [claim.id])
        bad_ends.record(tx, claim.id, next_state.state)
    else:
        queue_rows.requeue(tx, claim.id, values["run_at"])
    if claim.row.has_concurrency:
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
    attempt_output.insert(tx, [attempt_result.output((claim.id, claim.fence))])
    file_writes.record_writes(tx, claim.id, attempt_result.file_writes)
    if next_state.state == "succeeded":
        events = success_batch.success_events(tx, replace(ending, attempt_result=attempt_result))
    else:
        data = event_data(claim.row, next_state.state) | {
            "error": _short(attempt_result.error),
            "duration_seconds": round(attempt_result.duration_seconds, 6),
            "metadata": claim.version.metadata,
        }
        if request is not None:
            data |= {"author": request.cancelled_by}
        if not final:
            data |= {"next_attempt_in": round(next_state.delay, 3)}
        events = [execution_event(tx, claim.row, next_state.event_type, data)]
    append_events(tx, events)
    if final:
        plan.begin_if_failed(tx, claim.row, next_state.state)
        open_cancels.begin_if_failed(tx, claim.row, next_state.state)
        if next_state.state == "succeeded":
            advance.after_success(tx, claim.row, returned, claim.grants, settings)
        else:
            transitions.after_end(tx, claim.row, next_state.state, attempt_result.error)
    tx.wake("finished" if final else "executions")
    return next_state


def _cancel_request(tx: Tx, id_: str) -> _CancelRequest | None:
    """Return the request for a cancel; None without any. Locks the row, so that no request comes between this read and
    the write.
    """
    row = tx.one(_CancelRequest, _CANCEL_REQUEST, {"id": id_})
    return None if row is None or row.cancel_requested_at is None else row


def match_outputs(claim: Claim, attempt_result: AttemptResult) -> list[tuple[str, dict[str, Any]]]:
    """Return the function's output patterns that its result matches, each with its groups."""
    patterns = claim.version.output_patterns
    if not patterns:
        return []
    try:
        return output_matcher.match(patterns, attempt_result.result)
    except Exception:
        # The patterns were valid when they were saved. A broken one must not turn a success into a failure.
        log_.exception("output patterns not matched", function=claim.row.function, execution_id=claim.id)
        return []


def _with_reason(error: Mapping[str, Any] | None, why_final: str) -> dict[str, Any] | None:
    """Return the error as it is stored: with the reason why no further attempt follows, where retries are left."""
    return dict(error) | ({"final": why_final} if why_final else {}) if error else None


def _short(error: Mapping[str, Any] | None) -> dict[str, Any] | None:
    return (
        None
        if error is None
        else {key: error[key] for key in ("type", "message", "traceback") if key in error}
    )

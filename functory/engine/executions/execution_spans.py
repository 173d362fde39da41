"""Spans of executions, for traces: an execution, its waits in the queue, its attempts and their calls. Pure.

A span has names, states, numbers and ids, and never a value or a text of a function: those stay in the database.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

from functory.engine.executions.claims import Claim
from functory.engine.executions.execution_row import ExecutionRow
from functory.engine.telemetry.trace_context import (
    attempt_span,
    event_span,
    execution_span,
    firing_span,
    span_id,
)
from functory.engine.telemetry.traces import Span, SpanLink

Row = Mapping[str, Any]


def of_attempt(
    claim: Claim,
    outcome: str,
    error: Row | None,
    *,
    ended_at: datetime,
    duration_seconds: float,
    calls: Sequence[Row] = (),
    final_state: str | None = None,
) -> list[Span]:
    """Return the spans of an attempt that has ended: its wait in the queue, itself, and its ``calls``.

    With a ``final_state`` its execution has ended too, and its span comes first. The code ran for ``duration_seconds``
    until ``ended_at``; the attempt began with the claim.
    """
    row = claim.row
    own, whole = attempt_span(claim.id, claim.fence), execution_span(claim.id)
    attributes = _attributes(row) | {"functory.attempt": row.attempt}
    spans = [] if final_state is None else [_execution(row, final_state, error, ended_at)]
    queued_at = min(max(row.run_at, row.created_at), claim.claimed_at)
    spans.append(
        Span(
            row.root_id,
            span_id("queue", claim.id, claim.fence),
            whole,
            "queue",
            queued_at,
            claim.claimed_at,
            attributes,
        )
    )
    spans.append(
        Span(
            row.root_id,
            own,
            whole,
            f"attempt {row.attempt}",
            claim.claimed_at,
            ended_at,
            attributes | {"functory.outcome": outcome, "functory.run_seconds": duration_seconds},
            error=None if outcome in ("succeeded", "released") else _type(error, outcome),
        )
    )
    began = ended_at - timedelta(seconds=duration_seconds)
    for call in calls:
        parent, start = call["parent_seq"], began + timedelta(seconds=call["offset_seconds"])
        spans.append(
            Span(
                row.root_id,
                _call_span(claim, call["seq"]),
                own if parent is None else _call_span(claim, parent),
                f"call {call['function']}",
                start,
                start + timedelta(seconds=call["duration_seconds"] or 0.0),
                {"functory.function": call["function"], "functory.version": call["version"]},
                error=None if call["error"] is None else _type(call["error"], "error"),
            )
        )
    return spans


def of_lost_attempt(
    row: ExecutionRow, outcome: str, error: Row, *, started_at: datetime, ended_at: datetime
) -> list[Span]:
    """Return the span of an attempt that ended without its worker."""
    attributes = _attributes(row) | {"functory.attempt": row.attempt, "functory.outcome": outcome}
    return [
        Span(
            row.root_id,
            attempt_span(row.id, row.fence),
            execution_span(row.id),
            f"attempt {row.attempt}",
            started_at,
            ended_at,
            attributes,
            error=_type(error, outcome),
        )
    ]


def of_ended(row: ExecutionRow, state: str, error: Row | None, ended_at: datetime) -> list[Span]:
    """Return the span of an execution that ended without an attempt that says so: cancelled, expired or lost."""
    return [_execution(row, state, error, ended_at)]


def _execution(row: ExecutionRow, state: str, error: Row | None, ended_at: datetime) -> Span:
    parent, links = None, ()
    if row.parent_id is not None:
        parent = execution_span(row.parent_id)
    elif row.event_id is not None:
        parent = event_span(row.event_id)
        if row.trigger_id is not None:
            links = (SpanLink(row.root_id, parent, "triggered by"),)
            parent = firing_span(row.trigger_id, row.event_id)
    return Span(
        row.root_id,
        execution_span(row.id),
        parent,
        f"execution {row.function}",
        row.created_at,
        ended_at,
        _attributes(row) | {"functory.state": state, "functory.cause": row.cause},
        "consumer" if row.event_id is not None else "internal",
        links,
        error=None if state == "succeeded" else _type(error, state),
    )


def _attributes(row: ExecutionRow) -> dict[str, str | int | float | bool]:
    return {
        "functory.execution.id": row.id,
        "functory.function": row.function,
        "functory.version": row.version,
    }


def _call_span(claim: Claim, seq: int) -> str:
    return span_id("call", claim.id, claim.fence, seq)


def _type(error: Row | None, otherwise: str) -> str:
    return str((error or {}).get("type") or otherwise)

"""The retry decision: what state follows an attempt, and how long the next one waits."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from functory.engine.functions.limits import Limits


def backoff(limits: Limits, failures: int, jitter: float) -> float:
    """Seconds until the next try after ``failures`` failed ones: doubled each time, capped, and
    spread by ``jitter`` (0 to 1) over its upper half, so that a herd of retries does not return at once."""
    delay = min(limits.retry_max_delay, limits.retry_delay * 2 ** max(failures - 1, 0))
    return delay * (0.5 + jitter / 2)


@dataclass(frozen=True)
class AttemptResult:
    """How an attempt ended. ``outcome`` is succeeded, failed, timed_out, crashed or cancelled.

    ``retryable`` False ends the execution whatever retries are left (a wrong input stays wrong). ``written`` is what
    it left in watched files, as :func:`functory.engine.sources.file_watches.written` takes it.
    """

    outcome: str
    result: Any = None
    result_kind: str = "json"
    warnings: Sequence[str] = ()
    error: Mapping[str, Any] | None = None
    retryable: bool = True
    spans: Sequence[Mapping[str, Any]] = ()
    logs: Sequence[Mapping[str, Any]] = ()
    file_writes: Sequence[tuple[bytes, str]] = ()
    duration_seconds: float = 0.0
    waited_seconds: float = 0.0


@dataclass(frozen=True)
class NextState:
    """What becomes of the execution: its state, and for another try the delay in seconds."""

    state: str
    event_type: str
    failures: int
    delay: float = 0.0


def decide(row: Mapping[str, Any], limit: Limits, attempt_result: AttemptResult, jitter: float) -> NextState:
    """The state machine's answer to an ending, as a pure function."""
    failures = row["failures"] + (1 if attempt_result.outcome in ("failed", "timed_out") else 0)
    if attempt_result.outcome == "succeeded":
        return NextState("succeeded", "execution.succeeded", failures)
    if attempt_result.outcome == "cancelled":
        return NextState("cancelled", "execution.cancelled", failures)
    tries_left = row["attempt"] < row["max_attempts"]
    if attempt_result.outcome == "crashed":
        if tries_left and attempt_result.retryable:
            return NextState(
                "queued", "execution.attempt_failed", failures, backoff(limit, row["attempt"], jitter)
            )
        return NextState("dead", "execution.dead", failures)
    if attempt_result.retryable and tries_left and failures <= row["retries"]:
        return NextState("queued", "execution.attempt_failed", failures, backoff(limit, failures, jitter))
    return NextState(attempt_result.outcome, f"execution.{attempt_result.outcome}", failures)

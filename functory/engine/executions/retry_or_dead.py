"""Retry rules: what follows an attempt (a retry after a backoff, a final state, or ``dead``, the dead letter).

Both decisions are pure. :func:`retry_or_dead` is for an attempt that reports its result, and
:mod:`functory.engine.executions.completion` writes it. :func:`retry_or_dead_after_lost_lease` is for an attempt whose
worker is gone, and :mod:`functory.engine.maintenance.lost_workers` writes it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from functory.engine.executions.attempt_output import AttemptOutput
from functory.engine.functions.limits import Limits


def backoff(limits: Limits, failures: int, jitter: float) -> float:
    """Return the seconds until the next attempt after ``failures`` failed ones: doubled each time and capped.

    ``jitter`` (0 to 1) spreads it over its upper half, so that retries do not all come back at once.
    """
    delay = min(limits.retry_max_delay, limits.retry_delay * 2 ** max(failures - 1, 0))
    return delay * (0.5 + jitter / 2)


@dataclass(frozen=True)
class AttemptResult:
    """The result of an attempt. ``outcome`` is succeeded, failed, timed_out, crashed or cancelled.

    ``retryable`` False ends the execution even if retries are left (a wrong input stays wrong). ``file_writes`` are the
    watched files that it wrote, as :func:`functory.engine.executions.file_writes.record_writes` takes them.
    ``spans`` and ``logs`` are those that were not stored while it ran; with ``output_repeated`` some of them may be.
    ``result_bytes`` is the size in which the result came. Durations are in seconds.
    """

    outcome: str
    result: Any = None
    warnings: Sequence[str] = ()
    error: Mapping[str, Any] | None = None
    retryable: bool = True
    spans: Sequence[Mapping[str, Any]] = ()
    logs: Sequence[Mapping[str, Any]] = ()
    output_repeated: bool = False
    file_writes: Sequence[tuple[bytes, str]] = ()
    result_bytes: int = 0
    duration_seconds: float = 0.0
    waited_seconds: float = 0.0

    def output(self, key: tuple[str, int]) -> AttemptOutput:
        """Return the output that is still to be stored, of the attempt with this execution id and fence."""
        return AttemptOutput(key, self.logs, self.spans, self.output_repeated)


@dataclass(frozen=True)
class NextState:
    """The execution's next state, and for a retry its delay in seconds."""

    state: str
    event_type: str
    failures: int
    delay: float = 0.0


def retry_or_dead(
    row: Mapping[str, Any], limit: Limits, attempt_result: AttemptResult, jitter: float
) -> NextState:
    """Return the state that follows ``attempt_result``.

    A failure is retried while attempts and retries are left, and else ends as its outcome. A crash is retried while
    attempts are left, and else ends as ``dead``.
    """
    failures = row["failures"] + (1 if attempt_result.outcome in ("failed", "timed_out") else 0)
    if attempt_result.outcome == "succeeded":
        return NextState("succeeded", "execution.succeeded", failures)
    if attempt_result.outcome == "cancelled":
        return NextState("cancelled", "execution.cancelled", failures)
    attempts_left = row["attempt"] < row["max_attempts"]
    if attempt_result.outcome == "crashed":
        if attempts_left and attempt_result.retryable:
            return NextState(
                "queued", "execution.attempt_failed", failures, backoff(limit, row["attempt"], jitter)
            )
        return NextState("dead", "execution.dead", failures)
    if attempt_result.retryable and attempts_left and failures <= row["retries"]:
        return NextState("queued", "execution.attempt_failed", failures, backoff(limit, failures, jitter))
    return NextState(attempt_result.outcome, f"execution.{attempt_result.outcome}", failures)


def retry_or_dead_after_lost_lease(row: Mapping[str, Any]) -> Literal["queued", "dead", "cancelled"]:
    """Return the state after a lost lease: ``cancelled`` if a cancel was requested, ``dead`` if no attempts are
    left.
    """
    if row["cancel_requested_at"] is not None:
        return "cancelled"
    return "dead" if row["attempt"] >= row["max_attempts"] else "queued"

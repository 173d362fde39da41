"""Retry rules: what follows an attempt (a retry after a backoff, a final state, or ``dead``, the dead letter).

Both decisions are pure. :func:`retry_or_dead` is for an attempt that reports its result, and
:mod:`functory.engine.executions.completion` writes it. :func:`retry_or_dead_after_lost_lease` is for an attempt whose
worker is gone, and :mod:`functory.engine.maintenance.lost_workers` writes it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from functory.engine.backoff import HALF, pause
from functory.engine.executions.attempt_output import AttemptOutput
from functory.engine.executions.execution_row import ExecutionRow
from functory.engine.functions.limits import Limits


def backoff(limits: Limits, failures: int, jitter: float) -> float:
    """Return the seconds until the next attempt after ``failures`` failed ones: doubled each time and capped.

    ``jitter`` (0 to 1) spreads it over its upper half, so that retries do not all come back at once.
    """
    return pause(failures, limits.retry_delay, limits.retry_max_delay, spread=HALF, draw=jitter)


# The longest wait that an error may ask for, in seconds: a day, as for ``retry_delay``.
MAX_RETRY_AFTER = 86_400.0


@dataclass(frozen=True)
class AttemptResult:
    """The result of an attempt. ``outcome`` is succeeded, failed, timed_out, crashed or cancelled.

    ``retryable`` False ends the execution even if retries are left (a wrong input stays wrong), and so does ``final``
    (its code says so). ``error_types`` are the classes of its error as ``module:name``; ``retry_after`` is the wait
    that the error asks for. ``file_writes`` are the watched files that it wrote, as
    :func:`functory.engine.executions.file_writes.record_writes` takes them.
    ``spans`` and ``logs`` are those that were not stored while it ran; with ``output_repeated`` some of them may be.
    ``result_bytes`` is the size in which the result came. Durations are in seconds.
    """

    outcome: str
    result: Any = None
    warnings: Sequence[str] = ()
    error: Mapping[str, Any] | None = None
    retryable: bool = True
    error_types: Sequence[str] = ()
    final: bool = False
    retry_after: float | None = None
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
    """The execution's next state, and for a retry its delay in seconds.

    ``why_final`` says why none follows although retries are left.
    """

    state: str
    event_type: str
    failures: int
    delay: float = 0.0
    why_final: str = ""


def retry_or_dead(
    row: ExecutionRow, limit: Limits, attempt_result: AttemptResult, jitter: float
) -> NextState:
    """Return the state that follows ``attempt_result``.

    A failure is retried while attempts and retries are left, unless its error is final, and else ends as its outcome. A
    crash is retried while attempts are left, and else ends as ``dead``.
    """
    failures = row.failures + (1 if attempt_result.outcome in ("failed", "timed_out") else 0)
    if attempt_result.outcome == "succeeded":
        return NextState("succeeded", "execution.succeeded", failures)
    if attempt_result.outcome == "cancelled":
        return NextState("cancelled", "execution.cancelled", failures)
    attempts_left = row.attempt < row.max_attempts
    if attempt_result.outcome == "crashed":
        if attempts_left and attempt_result.retryable:
            return NextState(
                "queued", "execution.attempt_failed", failures, backoff(limit, row.attempt, jitter)
            )
        return NextState("dead", "execution.dead", failures)
    retries_left = attempts_left and failures <= row.retries
    why_final = _why_final(limit, attempt_result) if retries_left else ""
    if retries_left and not why_final:
        asked = attempt_result.retry_after
        delay = backoff(limit, failures, jitter) if asked is None else min(asked, MAX_RETRY_AFTER)
        return NextState("queued", "execution.attempt_failed", failures, delay)
    outcome = attempt_result.outcome
    return NextState(outcome, f"execution.{outcome}", failures, why_final=why_final)


_RETRY_AFTER = "functory:RetryAfter"


def _why_final(limit: Limits, attempt_result: AttemptResult) -> str:
    """Return why a failure is not retried; empty for one that is."""
    types = attempt_result.error_types
    if not attempt_result.retryable:
        return "another attempt cannot mend it"
    if attempt_result.final:
        return "its code raised Final"
    if named := _named(limit.final_on, types):
        return f"final_on names {named}"
    if limit.retry_on and not _named(limit.retry_on, types) and _RETRY_AFTER not in types:
        return f"retry_on names only {', '.join(limit.retry_on)}"
    return ""


def _named(names: Sequence[str], types: Sequence[str]) -> str | None:
    """Return the first of ``names`` that names one of ``types`` (``module:name``)."""
    return next((name for name in names if any(_names(name, type_) for type_ in types)), None)


def _names(name: str, type_: str) -> bool:
    """Return True if ``name`` means the class: alone, or with its module or a package that holds it."""
    module, _, qualified = type_.partition(":")
    if name in (qualified, qualified.rpartition(".")[2]):
        return True
    package = name.removesuffix(f".{qualified}")
    return package != name and f"{module}.".startswith(f"{package}.")


def retry_or_dead_after_lost_lease(row: ExecutionRow) -> Literal["queued", "dead", "cancelled"]:
    """Return the state after a lost lease: ``cancelled`` if a cancel was requested, ``dead`` if no attempts are
    left.
    """
    if row.cancel_requested_at is not None:
        return "cancelled"
    return "dead" if row.attempt >= row.max_attempts else "queued"

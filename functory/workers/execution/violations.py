"""Sandbox violations: counts the attempts that were ended at a limit of their sandbox, and the requests it refused."""

from __future__ import annotations

import signal

from functory.engine.telemetry import sandbox_metrics
from functory.workers.sandbox.protocol.job import Outcome

_BY_STATUS = {
    "out_of_memory": "memory",
    "scratch_full": "disk",
    "output_too_large": "output",
    "protocol_error": "protocol",
}


def kind_of(outcome: Outcome) -> str | None:
    """Return the limit at which a run was ended: memory, cpu, time, disk, output, protocol or syscall; None for a run
    that met none.
    """
    if outcome.signal == signal.SIGSYS:
        return "syscall"
    if outcome.status == "timed_out":
        return "cpu" if outcome.kill_reason == "cpu" else "time"
    return _BY_STATUS.get(outcome.status)


def count(outcome: Outcome) -> None:
    """Count a run that was ended at a limit."""
    if outcome.status == "succeeded":
        return
    kind = kind_of(outcome)
    if kind is not None:
        sandbox_metrics.sandbox_violations.labels(kind).inc()

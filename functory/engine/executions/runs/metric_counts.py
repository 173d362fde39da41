"""What the metrics count of runs and their questions, once it is committed."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from functory.engine.database.transaction import Tx
from functory.engine.telemetry import run_metrics

NO_REASON = "none"


def started(tx: Tx, own: Mapping[str, Any]) -> None:
    """Count a run that begins."""
    name = _name(own)
    _after_commit(tx, lambda: run_metrics.runs_started.labels(run_metrics.agent_label(name)).inc())


def ended(tx: Tx, own: Mapping[str, Any]) -> None:
    """Count a run that has its final state and reason."""
    name, state, reason = _name(own), own["state"], own["reason"] or NO_REASON
    _after_commit(
        tx, lambda: run_metrics.runs_ended.labels(run_metrics.agent_label(name), state, reason).inc()
    )


def step(tx: Tx, kind: str) -> None:
    """Count a step by what it is given."""
    _after_commit(tx, lambda: run_metrics.run_steps.labels(kind).inc())


def asked(tx: Tx, kind: str) -> None:
    """Count a question."""
    _after_commit(tx, lambda: run_metrics.approvals_requested.labels(kind).inc())


def decided(tx: Tx, question: Mapping[str, Any], outcome: str) -> None:
    """Count a question by its outcome, and the time until then if a person has decided it."""
    kind = question["kind"]
    seconds = max(0.0, (tx.now - question["requested_at"]).total_seconds())

    def count() -> None:
        run_metrics.approvals_decided.labels(kind, outcome).inc()
        if outcome not in ("expired", "withdrawn"):
            run_metrics.approval_seconds.labels(kind).observe(seconds)

    _after_commit(tx, count)


def _name(own: Mapping[str, Any]) -> str:
    """Return the agent of a run, or the function of a run without one."""
    return str(own["agent"] or own["function"])


def _after_commit(tx: Tx, count: Callable[[], None]) -> None:
    tx.at_end(lambda committed: count() if committed else None)

"""Counts firings, suppressions, failures and guard blocks in metrics and log, after their transaction is committed."""

from __future__ import annotations

from collections import Counter

from functory.engine.firings import failures, suppressions
from functory.engine.firings.firings import FiringCounts
from functory.engine.telemetry import metrics
from functory.triggers.routing.drop_report import DropReport

# The label `result` of the firings metric, for each reason of flow control.
RESULT_BY_REASON = {
    "idempotent": "deduplicated",
    "rate_limited": "throttled",
    "singleton": "blocked",
    "overlap": "blocked",
    "debounced": "blocked",
    "late": "blocked",
    "unmatched": "blocked",
    "awaited": "blocked",
    "cancelled": "blocked",
}


_report = DropReport()


def count_firings(counts: FiringCounts) -> None:
    """Count the firings of one transaction."""
    for name, count in Counter(counts.fired).items():
        metrics.trigger_fires.labels(metrics.trigger_label(name), "fired").inc(count)
    for (name, reason), count in Counter(counts.suppressed).items():
        label = metrics.trigger_label(name)
        metrics.trigger_fires.labels(label, RESULT_BY_REASON.get(reason, "blocked")).inc(count)
        if reason in RESULT_BY_REASON:
            metrics.flow_dropped.labels(reason, label).inc(count)
        if reason in failures.REASONS:
            metrics.trigger_failures.labels(label, reason).inc(count)
        if reason in suppressions.GUARD_REASONS:
            metrics.guard_blocks.labels(reason).inc(count)
    _report.add(one for one in counts.suppressed if one[1] in suppressions.GUARD_REASONS)

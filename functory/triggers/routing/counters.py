"""What decisions come to in the metrics."""

from __future__ import annotations

from functory.engine.telemetry import metrics
from functory.engine.triggers import suppressions
from functory.engine.triggers.routing import Routed

# Reasons of flow control, by the result that they are in the count of firings.
FLOW = {
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


def tally(done: Routed) -> None:
    """Count the firings of one transaction."""
    for name in done.fired:
        metrics.trigger_fires.labels(metrics.trigger_label(name), "fired").inc()
    for name, reason in done.suppressed:
        label = metrics.trigger_label(name)
        metrics.trigger_fires.labels(label, FLOW.get(reason, "blocked")).inc()
        if reason in FLOW:
            metrics.flow_dropped.labels(reason, label).inc()
        if reason in suppressions.GUARDS:
            metrics.guard_blocks.labels(reason).inc()

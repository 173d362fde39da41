"""Prometheus metric families, each one line of a table, with bounded labels.

Label values come from closed sets or from a :class:`LabelBudget`: names of functions, triggers and
event types are written by users (and by programs), so after the first few hundred the rest become
``_other``. Ids, versions, texts and URLs are never labels.
"""

from __future__ import annotations

import platform
import threading
from collections.abc import Callable, Sequence

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

OTHER = "_other"
TIERS = ("A", "B", "C", "none")
FAST_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5)

registry = CollectorRegistry(auto_describe=True)


class LabelBudget:
    """A budget of label values: the first ``size`` names stay as they are, later ones become ``_other``."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._names: set[str] = set()
        self._lock = threading.Lock()

    def __call__(self, name: str) -> str:
        if name in self._names:
            return name
        with self._lock:
            if len(self._names) < self._size:
                self._names.add(name)
                return name
        return OTHER


function_label = LabelBudget(200)
trigger_label = LabelBudget(200)
type_label = LabelBudget(40)
kind_label = LabelBudget(20)


def _counter(name: str, text: str, *labels: str) -> Counter:
    return Counter(name, text, labels, registry=registry)


def _gauge(name: str, text: str, *labels: str) -> Gauge:
    return Gauge(name, text, labels, registry=registry)


def _histogram(name: str, text: str, *labels: str, buckets: Sequence[float]) -> Histogram:
    return Histogram(name, text, labels, registry=registry, buckets=buckets)


def observe_many(histogram: Histogram, value: float, count: int) -> None:
    """Observe ``value`` ``count`` times, at the cost of once."""
    # The library's own observe(), which has no number of times.
    histogram._sum.inc(value * count)  # pyright: ignore[reportPrivateUsage]
    for index, bound in enumerate(histogram._upper_bounds):  # pyright: ignore[reportPrivateUsage]
        if value <= bound:
            histogram._buckets[index].inc(count)  # pyright: ignore[reportPrivateUsage]
            break


# The families, one each: name, help, labels; histograms with their buckets in the unit of the name.

build_info = _gauge("functory_build_info", "Version of this process; always 1.", "version", "python", "role")

# Events: outbox, router, sources.
events_published = _counter("functory_events_published_total", "Events confirmed by the broker.", "type")
outbox_publish = _histogram(
    "functory_outbox_publish_seconds", "Time to publish one batch of events.", "result", buckets=FAST_SECONDS
)
event_size = _histogram(
    "functory_event_size_bytes", "Size of the published envelopes.", buckets=[256 * 4**n for n in range(7)]
)
source_events = _counter("functory_source_events_total", "Events that sources ingested.", "kind")
file_events = _counter("functory_file_events_total", "Changes of files that watches reported.", "type")
file_scans = _counter(
    "functory_file_scans_total", "Scans of watched folders, by the reason for the scan.", "reason"
)
file_scan_duration = _histogram(
    "functory_file_scan_duration_seconds",
    "Time to compare a watched folder with its recorded files.",
    buckets=(0.01, 0.05, 0.1, 0.5, 1, 5, 10, 30, 60, 300),
)
events_received = _counter(
    "functory_events_received_total",
    "CloudEvents sent to /events, by mode and result; a refused batch is one.",
    "mode",
    "result",
)
lineage_tokens = _counter(
    "functory_lineage_tokens_total",
    "Lineage tokens in requests to webhooks and /events: continued, or ignored as forged, stale, foreign, unknown.",
    "result",
)
router_events = _counter("functory_router_events_total", "Routed events by outcome.", "outcome")
router_match = _histogram(
    "functory_router_match_seconds",
    "Time to decide about one event; the mean of a batch counts for each of its events.",
    buckets=(0.00001, 0.0001, 0.0005, 0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1),
)
router_lag = _gauge(
    "functory_router_lag_seconds", "Age of the oldest event of the last batch when it was routed."
)
causation_depth = _histogram(
    "functory_causation_depth", "Causal depth of routed events.", buckets=(0, 1, 2, 3, 5, 8, 13, 21)
)

# Triggers.
trigger_fires = _counter("functory_trigger_fires_total", "Decisions about matches.", "trigger", "result")
trigger_failures = _counter(
    "functory_trigger_failures_total",
    "Matches of which no execution could be made, by reason.",
    "trigger",
    "reason",
)
flow_dropped = _counter(
    "functory_flow_dropped_total",
    "Matches that flow control dropped without an execution, by reason.",
    "reason",
    "trigger",
)
condition_errors = _counter(
    "functory_trigger_condition_errors_total",
    "Conditions that raised an error or returned no boolean.",
    "trigger",
    "kind",
)
guard_blocks = _counter("functory_guard_blocks_total", "Firings that a guard stopped.", "guard")

# Executions.
executions_finished = _counter(
    "functory_executions_finished_total", "Finished executions by final state.", "function", "status"
)
execution_attempts = _counter("functory_execution_attempts_total", "Ended attempts by outcome.", "result")
execution_duration = _histogram(
    "functory_execution_duration_seconds",
    "Run time of attempts.",
    "function",
    buckets=(0.01, 0.05, 0.1, 0.5, 1, 5, 30, 120, 600, 3600),
)
execution_queue = _histogram(
    "functory_execution_queue_seconds",
    "Time from creation to the first start.",
    buckets=(0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1, 5, 10, 60, 300, 600),
)
executions_lost = _counter(
    "functory_executions_reaped_total", "Executions that the reaper requeued or ended, by result.", "result"
)
sagas = _counter(
    "functory_sagas_total",
    "Failed executions whose steps were all compensated, or of which one could not be.",
    "result",
)
compensations = _counter(
    "functory_compensations_total",
    "Steps of failed executions by the final state of their compensation.",
    "state",
)
zombies = _counter(
    "functory_zombie_finishes_total", "Finishes refused because the attempt no longer owned its execution."
)
dispatched = _counter("functory_executions_dispatched_total", "Executions sent to the broker.")
pruned_rows = _counter("functory_pruned_rows_total", "Rows deleted by retention, by table.", "table")

# Workers.
worker_slots = _gauge("functory_worker_slots", "Slots of this worker.", "state")
sandbox_tier = _gauge(
    "functory_sandbox_tier",
    "Confinement of functions in this process: 1 at its tier (A, B, C, or none for not at all), 0 at the others.",
    "tier",
)
degraded_claims = _counter(
    "functory_degraded_claims_total", "Executions that a worker claimed without a message for them."
)
worker_stalls = _counter(
    "functory_worker_stalls_total", "Workers that ended themselves because sent messages did not arrive."
)
service_stalls = _counter(
    "functory_service_stalls_total",
    "Roles that ended themselves because a round of this service made no progress.",
    "service",
)
worker_last_intake = _gauge(
    "functory_worker_last_intake_timestamp_seconds",
    "When this worker last took an execution, or found that none was waiting.",
)

# Schedules and webhooks.
schedule_ticks = _counter(
    "functory_schedule_ticks_total",
    "Events of schedules: fired on time, late (caught up after a downtime), backfill, manual.",
    "result",
)
schedule_missed = _counter(
    "functory_schedule_missed_catchup_window_total",
    "Ticks of schedules that were skipped after a downtime: beyond the catch-up window, or by the catch-up policy.",
    "reason",
)
schedule_lag = _histogram(
    "functory_schedule_lag_seconds",
    "Time from when a tick was due to the commit of its event.",
    buckets=(0.01, 0.05, 0.1, 0.5, 1, 5, 10, 60, 300),
)
http_connections_cut = _counter(
    "functory_http_connections_cut_total",
    "Connections that the server ended: the client was slow, or the server full.",
    "reason",
)
webhook_requests = _counter(
    "functory_webhook_requests_total", "Requests to webhooks by answer and reason.", "status_class", "reason"
)
webhook_seconds = _histogram(
    "functory_webhook_seconds",
    "Time from a request's headers to its answer.",
    buckets=(0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 5, 20),
)


def set_build_info(role: str, version: str) -> None:
    """Set the build information of this process."""
    build_info.labels(version, platform.python_version(), role).set(1)


def set_sandbox_tier(tier: str) -> None:
    """Set the isolation tier of this process (one of :data:`TIERS`)."""
    for known in TIERS:
        sandbox_tier.labels(known).set(known == tier)


def serve(port: int, host: str) -> tuple[int, Callable[[], None]]:
    """Serve ``/metrics`` on its own port (0: a free one). Returns the port and a function that stops it."""
    from prometheus_client import start_http_server

    server, thread = start_http_server(port, addr=host, registry=registry)

    def stop() -> None:
        server.shutdown()
        server.server_close()
        thread.join(timeout=5)

    return server.server_port, stop

"""Prometheus metrics: the families that exist now, with bounded labels.

Label values come from closed sets or from a :class:`LabelBudget`: names of functions, triggers and
event types are written by users (and by programs), so after the first few hundred the rest become
``_other``. Ids, versions, texts and URLs are never labels.
"""

from __future__ import annotations

import platform
import threading
from collections.abc import Callable

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

OTHER = "_other"
TIERS = ("A", "B", "C", "none")

registry = CollectorRegistry(auto_describe=True)


class LabelBudget:
    """Admits the first ``size`` names; later ones are counted together as ``_other``."""

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

build_info = Gauge(
    "functory_build_info",
    "Version of this process; always 1.",
    ["version", "python", "role"],
    registry=registry,
)
events_published = Counter(
    "functory_events_published_total", "Events confirmed by the broker.", ["type"], registry=registry
)
outbox_publish = Histogram(
    "functory_outbox_publish_seconds",
    "Time to publish one batch of events.",
    ["result"],
    buckets=(0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5),
    registry=registry,
)
event_size = Histogram(
    "functory_event_size_bytes",
    "Size of the published envelopes.",
    buckets=tuple(256 * 4**n for n in range(7)),
    registry=registry,
)
file_events = Counter(
    "functory_file_events_total", "Changes of files that watches told of.", ["type"], registry=registry
)
file_scans = Counter(
    "functory_file_scans_total",
    "Scans of watched folders, by what made them necessary.",
    ["reason"],
    registry=registry,
)
file_scan_duration = Histogram(
    "functory_file_scan_duration_seconds",
    "Time to compare a watched folder with what is known of it.",
    buckets=(0.01, 0.05, 0.1, 0.5, 1, 5, 10, 30, 60, 300),
    registry=registry,
)
router_events = Counter(
    "functory_router_events_total", "Routed events by outcome.", ["outcome"], registry=registry
)
router_match = Histogram(
    "functory_router_match_seconds",
    "Time to decide about one event.",
    buckets=(0.00001, 0.0001, 0.0005, 0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1),
    registry=registry,
)
router_lag = Gauge(
    "functory_router_lag_seconds",
    "Age of the oldest event of the last batch when it was routed.",
    registry=registry,
)
trigger_fires = Counter(
    "functory_trigger_fires_total", "Decisions about matches.", ["trigger", "result"], registry=registry
)
flow_dropped = Counter(
    "functory_flow_dropped_total",
    "Matches that flow control let go without an execution, by reason.",
    ["reason", "trigger"],
    registry=registry,
)
condition_errors = Counter(
    "functory_trigger_condition_errors_total",
    "Conditions that raised or gave no boolean.",
    ["trigger", "kind"],
    registry=registry,
)
guard_blocks = Counter(
    "functory_guard_blocks_total", "Firings that a guard stopped.", ["guard"], registry=registry
)
causation_depth = Histogram(
    "functory_causation_depth",
    "Causal depth of routed events.",
    buckets=(0, 1, 2, 3, 5, 8, 13, 21),
    registry=registry,
)
executions_finished = Counter(
    "functory_executions_finished_total",
    "Finished executions by final state.",
    ["function", "status"],
    registry=registry,
)
execution_attempts = Counter(
    "functory_execution_attempts_total", "Ended attempts by outcome.", ["result"], registry=registry
)
execution_duration = Histogram(
    "functory_execution_duration_seconds",
    "Run time of attempts.",
    ["function"],
    buckets=(0.01, 0.05, 0.1, 0.5, 1, 5, 30, 120, 600, 3600),
    registry=registry,
)
execution_queue = Histogram(
    "functory_execution_queue_seconds",
    "Time from creation to the first start.",
    buckets=(0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1, 5, 10, 60, 300, 600),
    registry=registry,
)
executions_lost = Counter(
    "functory_executions_reaped_total", "What the reaper did.", ["result"], registry=registry
)
sagas = Counter(
    "functory_sagas_total",
    "Failed executions whose steps were all undone, or of which one could not be.",
    ["result"],
    registry=registry,
)
compensations = Counter(
    "functory_compensations_total",
    "Steps of failed executions by the state that they came to.",
    ["state"],
    registry=registry,
)
zombies = Counter(
    "functory_zombie_finishes_total",
    "Finishes refused because the attempt was no longer the owner.",
    registry=registry,
)
worker_slots = Gauge("functory_worker_slots", "Slots of this worker.", ["state"], registry=registry)
sandbox_tier = Gauge(
    "functory_sandbox_tier",
    "How this process confines functions: 1 at its tier (A, B, C, or none for not at all), 0 at the others.",
    ["tier"],
    registry=registry,
)
dispatched = Counter(
    "functory_executions_dispatched_total", "Executions sent to the broker.", registry=registry
)
pruned_rows = Counter(
    "functory_pruned_rows_total",
    "Rows deleted because they were old, by table.",
    ["table"],
    registry=registry,
)
degraded_claims = Counter(
    "functory_degraded_claims_total",
    "Executions that a worker claimed by itself because no message had come for them.",
    registry=registry,
)
worker_stalls = Counter(
    "functory_worker_stalls_total",
    "Workers that ended themselves because messages were sent and did not come.",
    registry=registry,
)
worker_last_intake = Gauge(
    "functory_worker_last_intake_timestamp_seconds",
    "When this worker last took in work, or made sure that none waits for it.",
    registry=registry,
)
source_events = Counter(
    "functory_source_events_total", "Events that sources have brought in.", ["kind"], registry=registry
)

schedule_ticks = Counter(
    "functory_schedule_ticks_total",
    "Events of schedules: fired on time, late (caught up after a downtime), backfill, manual.",
    ["result"],
    registry=registry,
)
schedule_missed = Counter(
    "functory_schedule_missed_catchup_window_total",
    "Times of schedules that became nothing after a downtime: beyond the catch-up window, or by the catch-up policy.",
    ["reason"],
    registry=registry,
)
schedule_lag = Histogram(
    "functory_schedule_lag_seconds",
    "From when a time was due to the commit's moment of its event.",
    buckets=(0.01, 0.05, 0.1, 0.5, 1, 5, 10, 60, 300),
    registry=registry,
)

webhook_requests = Counter(
    "functory_webhook_requests_total",
    "Requests to webhooks by answer and reason.",
    ["status_class", "reason"],
    registry=registry,
)
webhook_seconds = Histogram(
    "functory_webhook_seconds",
    "Time from a request's headers to its answer.",
    buckets=(0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 5, 20),
    registry=registry,
)
events_received = Counter(
    "functory_events_received_total",
    "CloudEvents sent to /events, by mode and result; a refused batch is one.",
    ["mode", "result"],
    registry=registry,
)


def set_build_info(role: str, version: str) -> None:
    """Set the build information of this process."""
    build_info.labels(version, platform.python_version(), role).set(1)


def set_sandbox_tier(tier: str) -> None:
    """Say which tier of confinement this process runs functions with."""
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

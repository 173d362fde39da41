"""Prometheus metric families, each one line of a table, with bounded labels and the roles that move them.

Label values come from closed sets or from a :class:`LabelBudget`: names of functions, triggers and event types are
written by users and by programs, so after the first few hundred the rest become ``_other``. Ids, versions, texts and
URLs are never labels.
"""

from __future__ import annotations

import platform
from collections.abc import Collection
from contextlib import AbstractContextManager
from typing import Any

from prometheus_client import ProcessCollector

from functory.engine.telemetry import model_metrics, run_metrics, sandbox_metrics, server_metrics
from functory.engine.telemetry.label_budget import LabelBudget, NameLabels
from functory.engine.telemetry.observation import observe, observe_many
from functory.engine.telemetry.registry import ROLES, counter, gauge, histogram, registry

# The families of the other modules are shown as well.
__all__ = [
    "model_metrics",
    "observe",
    "observe_many",
    "registry",
    "run_metrics",
    "sandbox_metrics",
    "server_metrics",
]

FAST_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5)
SIZES = tuple(256 * 4**n for n in range(7))

SERVER, ROUTER, SCHEDULER, WATCHER, WORKER, GATEWAY = ROLES

function_label = LabelBudget(200)
trigger_label = LabelBudget(200)
type_label = LabelBudget(40)
kind_label = LabelBudget(20)

# Memory, CPU time and open files of this process.
ProcessCollector(registry=registry)

# The families, one each: name, help, labels; histograms with their buckets in the unit of the name.

build_info = gauge("functory_build_info", "Version of this process; always 1.", "version", "python", "role")

# The database and its secrets.
database_seconds = histogram(
    "functory_db_transaction_seconds",
    "Time of database transactions, by operation.",
    "op",
    buckets=FAST_SECONDS,
)
secret_reads = counter(
    "functory_secret_reads_total",
    "Reads of secrets by functions, sources and gateways: ok, denied (no grant), missing, decrypt_error.",
    "result",
    on=(SERVER, WATCHER, WORKER, GATEWAY),
)

# Events: outbox, router, sources.
events_published = counter(
    "functory_events_published_total", "Events confirmed by the broker.", "type", on=(ROUTER, WORKER)
)
outbox_publish = histogram(
    "functory_outbox_publish_seconds",
    "Time to publish one batch of events.",
    "result",
    buckets=FAST_SECONDS,
    on=(ROUTER, WORKER),
)
event_size = histogram(
    "functory_event_size_bytes", "Size of the published envelopes.", buckets=SIZES, on=(ROUTER, WORKER)
)
source_events = counter(
    "functory_source_events_total", "Events that sources ingested.", "kind", on=(SERVER, WATCHER)
)
file_events = counter(
    "functory_file_events_total", "Changes of files that watches reported.", "type", on=(WATCHER,)
)
file_scans = counter(
    "functory_file_scans_total",
    "Scans of watched folders, by the reason for the scan.",
    "reason",
    on=(WATCHER,),
)
file_scan_duration = histogram(
    "functory_file_scan_duration_seconds",
    "Time to compare a watched folder with its recorded files.",
    buckets=(0.01, 0.05, 0.1, 0.5, 1, 5, 10, 30, 60, 300),
    on=(WATCHER,),
)
lineage_tokens = counter(
    "functory_lineage_tokens_total",
    "Lineage tokens in requests to webhooks and /events: continued, or ignored as forged, stale, foreign, unknown.",
    "result",
    on=(SERVER,),
)
router_events = counter(
    "functory_router_events_total", "Routed events by outcome.", "outcome", on=(ROUTER, WORKER)
)
router_match = histogram(
    "functory_router_match_seconds",
    "Time to decide about one event; the mean of a batch counts for each of its events.",
    buckets=(0.00001, 0.0001, 0.0005, 0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1),
    on=(ROUTER,),
)
router_candidates = histogram(
    "functory_router_candidates",
    "Patterns that were tested for one event.",
    buckets=(0, 1, 3, 10, 30, 100, 300, 1000),
    on=(ROUTER,),
)
router_lag = gauge(
    "functory_router_lag_seconds",
    "Age of the oldest event of the last batch when it was routed.",
    on=(ROUTER,),
)
causation_depth = histogram(
    "functory_causation_depth",
    "Causal depth of routed events.",
    buckets=(0, 1, 2, 3, 5, 8, 13, 21),
    on=(ROUTER, WORKER),
)

# Triggers.
trigger_fires = counter(
    "functory_trigger_fires_total", "Decisions about matches.", "trigger", "result", on=(ROUTER,)
)
trigger_failures = counter(
    "functory_trigger_failures_total",
    "Matches of which no execution could be made, by reason.",
    "trigger",
    "reason",
    on=(ROUTER,),
)
flow_dropped = counter(
    "functory_flow_dropped_total",
    "Matches that flow control dropped without an execution, by reason.",
    "reason",
    "trigger",
    on=(ROUTER,),
)
condition_errors = counter(
    "functory_trigger_condition_errors_total",
    "Conditions that raised an error or returned no boolean.",
    "trigger",
    "kind",
    on=(ROUTER,),
)
guard_blocks = counter("functory_guard_blocks_total", "Firings that a guard stopped.", "guard", on=(ROUTER,))

# Executions.
executions_created = counter(
    "functory_executions_created_total",
    "Created executions, by what caused them; counted by the process that created them.",
    "function",
    "cause",
    on=(SERVER, ROUTER, SCHEDULER, WORKER),
)
executions_finished = counter(
    "functory_executions_finished_total",
    "Finished executions by final state; counted by the process that ended them.",
    "function",
    "status",
    on=(SERVER, ROUTER, SCHEDULER, WORKER, GATEWAY),
)
execution_attempts = counter(
    "functory_execution_attempts_total", "Ended attempts by outcome.", "result", on=(WORKER,)
)
execution_duration = histogram(
    "functory_execution_duration_seconds",
    "Run time of attempts.",
    "function",
    buckets=(0.01, 0.05, 0.1, 0.5, 1, 5, 30, 120, 600, 3600),
    on=(WORKER,),
)
execution_queue = histogram(
    "functory_execution_queue_seconds",
    "Time from when an execution was due to its first start.",
    buckets=(0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1, 5, 10, 60, 300, 600),
    on=(WORKER,),
)
execution_output = histogram(
    "functory_execution_output_bytes", "Size of the results of executions.", buckets=SIZES, on=(WORKER,)
)
executions_lost = counter(
    "functory_executions_reaped_total",
    "Executions that the reaper requeued or ended, by result.",
    "result",
    on=(SCHEDULER,),
)
sagas = counter(
    "functory_sagas_total",
    "Failed executions whose steps were all compensated, or of which one could not be.",
    "result",
    on=(SCHEDULER,),
)
compensations = counter(
    "functory_compensations_total",
    "Steps of failed executions by the final state of their compensation.",
    "state",
    on=(SCHEDULER,),
)
zombies = counter(
    "functory_zombie_finishes_total",
    "Finishes refused because the attempt no longer owned its execution.",
    on=(WORKER,),
)
dispatched = counter(
    "functory_executions_dispatched_total", "Executions sent to the broker.", on=(SERVER, ROUTER, SCHEDULER)
)
pruned_rows = counter(
    "functory_pruned_rows_total", "Rows deleted by retention, by table.", "table", on=(SCHEDULER,)
)

# Workers.
worker_slots = gauge(
    "functory_worker_slots", "Slots of this worker.", "state", on=(WORKER,), over_children="livesum"
)
degraded_claims = counter(
    "functory_degraded_claims_total",
    "Executions that a worker claimed without a message for them.",
    on=(WORKER,),
)
worker_stalls = counter(
    "functory_worker_stalls_total",
    "Workers that ended themselves because sent messages did not arrive.",
    on=(WORKER,),
)
service_stalls = counter(
    "functory_service_stalls_total",
    "Roles that ended themselves because a round of this service made no progress.",
    "service",
    on=(ROUTER, SCHEDULER, WATCHER, GATEWAY),
)
worker_last_intake = gauge(
    "functory_worker_last_intake_timestamp_seconds",
    "When this worker last took an execution, or found that none was waiting.",
    on=(WORKER,),
)

# Schedules.
schedule_ticks = counter(
    "functory_schedule_ticks_total",
    "Events of schedules: fired on time, late (caught up after a downtime), backfill, manual.",
    "result",
    on=(SERVER, SCHEDULER),
)
schedule_missed = counter(
    "functory_schedule_missed_catchup_window_total",
    "Ticks of schedules that were skipped after a downtime: beyond the catch-up window, or by the catch-up policy.",
    "reason",
    on=(SCHEDULER,),
)
trace_spans = counter(
    "functory_trace_spans_total",
    "Spans of traces: exported; failed, because their receiver did not take them; dropped, because too many waited.",
    "result",
)
schedule_lag = histogram(
    "functory_schedule_lag_seconds",
    "Time from when a tick was due to the commit of its event.",
    buckets=(0.01, 0.05, 0.1, 0.5, 1, 5, 10, 60, 300),
    on=(SCHEDULER,),
)


def set_process(role: str, version: str, shown: Collection[str] | None = None) -> None:
    """Set the build information of this process, and whose families it shows: those of its role by default."""
    build_info.labels(version, platform.python_version(), role).set(1)
    registry.show_roles((role,) if shown is None else shown)


def transaction(op: str) -> AbstractContextManager[Any]:
    """Measure the database transaction ``op`` that the block runs."""
    return database_seconds.labels(op).time()


def restrict_names(mode: NameLabels, pinned: Collection[str]) -> None:
    """Apply the settings ``metrics_name_labels`` and ``metrics_pinned_names`` to labels with names of functions,
    triggers or agents.
    """
    for budget in (function_label, trigger_label, run_metrics.agent_label):
        budget.restrict(mode, pinned)

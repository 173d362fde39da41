"""The dashboard of workers: who is alive, what confines functions, what they tried."""

from __future__ import annotations

from tests.support.grafana.board import board
from tests.support.grafana.panels import course, figure, ranking
from tests.support.grafana.promql import (
    gained,
    largest,
    or_zero,
    quantile_of_few,
    rate,
    series,
    total,
)

STEP = "$__rate_interval"


def workers() -> str:
    """The dashboard of workers and sandboxes."""
    wrong = [
        figure("Workers", total("worker_up"), "Workers that send heartbeats.", critical=1, low=True, width=4),
        figure(
            "Oldest heartbeat",
            largest("worker_heartbeat_age_seconds"),
            "Of all workers that are registered.",
            unit="s",
            warning=30,
            critical=60,
            width=4,
        ),
        figure(
            "Lost workers",
            or_zero(gained("executions_reaped_total", 'result="lost"')),
            "Executions of the time range whose worker died.",
            warning=1,
            width=4,
        ),
        figure(
            "Replaced processes",
            or_zero(gained("worker_restarts_total", 'reason="crash"')),
            "Fork servers that crashed in the time range.",
            warning=1,
            width=4,
        ),
        figure(
            "Refused by the sandbox",
            or_zero(gained("sandbox_violations_total", 'kind!~"memory|cpu|time|disk|output"')),
            "What functions tried in the time range and may not do.",
            warning=1,
            width=4,
        ),
        figure(
            "Workers without a sandbox",
            or_zero(total("sandbox_tier", 'tier="none"')),
            "Functions may do there whatever the user of the worker may.",
            critical=1,
            width=4,
        ),
    ]
    where = [
        ranking(
            "Busy slots",
            total("worker_slots", 'state="busy"', by="instance"),
            ["instance"],
            "executions",
            "Executions that run now.",
            width=6,
        ),
        ranking(
            "Time since the last intake",
            f"time() - {series('worker_last_intake_timestamp_seconds')}",
            ["instance"],
            "age",
            "Since a worker took an execution, or found that none was waiting. More than a minute is too long.",
            unit="s",
            width=6,
        ),
        ranking(
            "Isolation",
            f"{series('sandbox_tier')} == 1",
            ["instance", "tier"],
            "state",
            "The tier in which each worker runs functions.",
            width=6,
            words={"1": ("in force", "text")},
        ),
        ranking(
            "Memory",
            f"{series('process_resident_memory_bytes')} * on (instance) group_left (role) {series('build_info')}",
            ["instance", "role"],
            "resident",
            "Of each process of Functory.",
            unit="bytes",
            width=6,
        ),
    ]
    since = [
        course(
            "Executions that run",
            {"{{instance}}": total("worker_slots", 'state="busy"', by="instance")},
            "Busy slots by worker.",
            stacked=True,
        ),
        course(
            "Heartbeats",
            {
                "workers": total("worker_up"),
                "oldest heartbeat in seconds": largest("worker_heartbeat_age_seconds"),
            },
            "A heartbeat that grows old is a worker that hangs or is gone.",
        ),
        course(
            "Sent to workers",
            {
                "dispatched": rate("executions_dispatched_total"),
                "claimed without a message": rate("degraded_claims_total"),
            },
            "Executions a second. Many claims without a message: the broker is away, or a worker gets nothing from it.",
            unit="ops",
        ),
        course(
            "Workers that ended themselves, late finishes",
            {
                "stalled workers": gained("worker_stalls_total", window=STEP),
                "refused finishes": gained("zombie_finishes_total", window=STEP),
            },
            "A refused finish is one of a worker that had lost its lease: its result was not stored.",
        ),
        course(
            "Work of the reaper",
            {"{{result}}": gained("executions_reaped_total", by="result", window=STEP)},
            "Executions whose worker was lost, by what became of them.",
            stacked=True,
            width=8,
        ),
        course(
            "Replaced processes",
            {"{{reason}}": gained("worker_restarts_total", by="reason", window=STEP)},
            "Fork servers and children of a pool.",
            stacked=True,
            width=8,
        ),
        course(
            "Refusals and limits",
            {"{{kind}}": gained("sandbox_violations_total", by="kind", window=STEP)},
            "Attempts that a limit ended, and requests that the sandbox refused.",
            stacked=True,
            width=8,
        ),
        course(
            "Time to start a sandbox",
            {
                "cold, p95": quantile_of_few(0.95, "sandbox_start_seconds", 'cold="true"'),
                "warm, p95": quantile_of_few(0.95, "sandbox_start_seconds", 'cold="false"'),
            },
            "Cold: the fork server had to be started first.",
            unit="s",
        ),
        course(
            "Cold starts",
            {
                "cold": rate("sandbox_start_seconds_count", 'cold="true"'),
                "warm": rate("sandbox_start_seconds_count", 'cold="false"'),
            },
            "Starts of sandboxes a second.",
            unit="ops",
            stacked=True,
        ),
        course(
            "Time to install packages",
            {"{{result}} p95": quantile_of_few(0.95, "env_build_seconds", by="result")},
            "One environment in twenty took longer.",
            unit="s",
        ),
        course(
            "Environments",
            {"{{result}}": gained("env_cache_total", by="result", window=STEP)},
            "Hit: it was there already. Miss: it had to be built.",
            stacked=True,
        ),
    ]
    return board(
        "workers",
        "Workers and sandbox",
        "Who is alive, what confines functions, what they tried.",
        {"Is anything wrong?": wrong, "Where?": where, "Since when?": since},
    )

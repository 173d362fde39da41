"""The first dashboard: is anything wrong, where, since when."""

from __future__ import annotations

from tests.support.grafana.board import board
from tests.support.grafana.panels import ANSWERS, course, figure, ranking
from tests.support.grafana.promql import (
    BAD,
    gained,
    largest,
    or_zero,
    processes,
    quantile,
    rate,
    series,
    share,
    top,
    total,
)

FIRING = 'count(ALERTS{alertname=~"Functory.*", alertstate="firing", job=~"$job|"})'
FINISHED = "executions_finished_total"


def overview() -> str:
    """The dashboard in which a look begins."""
    wrong = [
        figure("Alerts", or_zero(FIRING), "Alerts of Functory that fire.", critical=1),
        figure(
            "Processes away",
            or_zero(f"count({series('up')} == 0)"),
            "Processes that could not be scraped.",
            critical=1,
        ),
        figure(
            "Failing",
            share(gained(FINISHED, BAD, window="10m"), gained(FINISHED, window="10m")),
            "Share of the executions of the last ten minutes that failed, timed out or are dead.",
            unit="percentunit",
            warning=0.05,
            critical=0.2,
            address="/executions?unresolved=true",
        ),
        figure(
            "Oldest due execution",
            largest("execution_oldest_queued_seconds"),
            "How long the oldest execution has waited that could start now.",
            unit="s",
            warning=60,
            critical=300,
            address="/executions?state=queued",
        ),
        figure(
            "Oldest event to route",
            largest("router_backlog_seconds"),
            "Age of the oldest event about which no router has decided.",
            unit="s",
            warning=10,
            critical=30,
            address="/events",
        ),
        figure(
            "Oldest event to publish",
            largest("outbox_oldest_age_seconds"),
            "Age of the oldest event that is not on the broker.",
            unit="s",
            warning=10,
            critical=60,
        ),
        figure("Workers", total("worker_up"), "Workers that send heartbeats.", critical=1, low=True),
        figure(
            "Broken invariants",
            or_zero(total("invariant_violations")),
            "Rows that break a promise of the engine.",
            critical=1,
            address="/health",
        ),
    ]
    where = [
        ranking(
            "Most failing functions",
            top(gained(FINISHED, BAD, by="function, status")),
            ["function", "status"],
            "executions",
            "Executions of the time range that ended badly.",
            address="/executions?function=${__value.raw}&unresolved=true",
        ),
        ranking(
            "Triggers that start nothing",
            top(
                f"({gained('trigger_failures_total', by='trigger, reason')} or label_replace("
                f"{gained('trigger_condition_errors_total', by='trigger')}, "
                '"reason", "condition_error", "", ""))'
            ),
            ["trigger", "reason"],
            "matches",
            "Matches of the time range that could not start their function, and conditions that failed.",
            address="/triggers/${__value.raw}",
        ),
        ranking(
            "Processes",
            processes(),
            ["instance", "role", "version"],
            "state",
            "The processes that Prometheus knows, with their roles and versions.",
            words=ANSWERS,
        ),
    ]
    since = [
        course(
            "Finished executions",
            {"{{status}}": rate(FINISHED, by="status")},
            "Executions that ended, a second, by their final state.",
            unit="ops",
            stacked=True,
            address="/executions?state=${__field.labels.status}",
        ),
        course(
            "Share of executions that fail",
            {"failing": share(rate(FINISHED, BAD), rate(FINISHED))},
            "The red line is the threshold of the alert FunctoryHighFailureRatio.",
            unit="percentunit",
            critical=0.2,
        ),
        course(
            "Time until an execution starts",
            {f"p{p}": quantile(p / 100, "execution_queue_seconds") for p in (50, 95)},
            "From when an execution was due to its first start.",
            unit="s",
        ),
        course(
            "Run time",
            {f"p{p}": quantile(p / 100, "execution_duration_seconds") for p in (50, 95)},
            "The time of attempts.",
            unit="s",
        ),
        course(
            "Open executions",
            {"{{state}}": total("executions_in_state", by="state")},
            "Executions that have not ended, by their state.",
            stacked=True,
        ),
        course(
            "What waits, and how long",
            {
                "due execution": largest("execution_oldest_queued_seconds"),
                "event to route": largest("router_backlog_seconds"),
                "event to publish": largest("outbox_oldest_age_seconds"),
            },
            "The age of the oldest one of each kind.",
            unit="s",
        ),
        course(
            "Workers",
            {"alive": total("worker_up"), "busy slots": total("worker_slots", 'state="busy"')},
            "Workers that send heartbeats, and executions that run in them.",
        ),
        course(
            "Stopped by guards",
            {"{{guard}}": gained("guard_blocks_total", by="guard", window="$__rate_interval")},
            "Firings that a guard against loops and floods stopped.",
            stacked=True,
            address="/suppressions",
        ),
    ]
    return board(
        "overview",
        "Overview",
        "Is anything wrong, where, since when.",
        {"Is anything wrong?": wrong, "Where?": where, "Since when?": since},
    )

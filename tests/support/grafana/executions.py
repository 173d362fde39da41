"""The dashboard of executions: which functions fail, are slow, or wait."""

from __future__ import annotations

from tests.support.grafana.board import board
from tests.support.grafana.panels import course, figure, ranking, spread
from tests.support.grafana.promql import (
    BAD,
    CHOSEN,
    buckets,
    gained,
    largest,
    or_zero,
    quantile,
    rate,
    share,
    top,
    total,
)

FINISHED, CREATED, DURATION = (
    "executions_finished_total",
    "executions_created_total",
    "execution_duration_seconds",
)


def executions() -> str:
    """The dashboard with the variable ``function``."""
    wrong = [
        figure(
            "Ended badly",
            or_zero(gained(FINISHED, BAD, CHOSEN)),
            "Executions of the time range that failed, timed out or are dead.",
            warning=1,
            width=4,
            address="/executions?unresolved=true",
        ),
        figure(
            "Share that ended badly",
            share(gained(FINISHED, BAD, CHOSEN), gained(FINISHED, CHOSEN)),
            "Of all executions that ended in the time range.",
            unit="percentunit",
            warning=0.05,
            critical=0.2,
            width=4,
        ),
        figure(
            "Lost workers",
            or_zero(gained("executions_reaped_total", 'result="lost"')),
            "Executions of the time range whose worker died. They run again. For all functions.",
            warning=1,
            width=4,
        ),
        figure(
            "Oldest due execution",
            largest("execution_oldest_queued_seconds"),
            "How long the oldest execution has waited that could start now. For all functions.",
            unit="s",
            warning=60,
            critical=300,
            width=4,
            address="/executions?state=queued",
        ),
        figure(
            "Run time, p95",
            quantile(0.95, DURATION, CHOSEN, window="$__range"),
            "One attempt in twenty took longer.",
            unit="s",
            width=4,
        ),
        figure(
            "Stuck compensations",
            or_zero(gained("sagas_total", 'result="stuck"')),
            "Failed executions of the time range of which a step could not be undone. For all functions.",
            critical=1,
            width=4,
        ),
    ]
    where = [
        ranking(
            "Most failing functions",
            top(gained(FINISHED, BAD, CHOSEN, by="function, status")),
            ["function", "status"],
            "executions",
            "Executions of the time range that ended badly.",
            address="/executions?function=${__value.raw}&unresolved=true",
        ),
        ranking(
            "Slowest functions",
            top(quantile(0.95, DURATION, CHOSEN, by="function", window="$__range")),
            ["function"],
            "p95",
            "One attempt in twenty of the time range took longer.",
            unit="s",
            address="/functions/${__value.raw}",
        ),
        ranking(
            "What starts executions",
            top(gained(CREATED, CHOSEN, by="function, cause")),
            ["function", "cause"],
            "executions",
            "New executions of the time range by function and cause.",
            address="/executions?function=${__value.raw}",
        ),
    ]
    since = [
        course(
            "Finished executions",
            {"{{status}}": rate(FINISHED, CHOSEN, by="status")},
            "Executions that ended, a second, by their final state.",
            unit="ops",
            stacked=True,
            address="/executions?state=${__field.labels.status}",
        ),
        course(
            "Attempts",
            {"{{result}}": rate("execution_attempts_total", by="result")},
            "Attempts that ended, a second. More attempts than executions: there are retries. For all functions.",
            unit="ops",
            stacked=True,
        ),
        course(
            "New executions",
            {"{{cause}}": rate(CREATED, CHOSEN, by="cause")},
            "Executions that were started, a second, by their cause.",
            unit="ops",
            stacked=True,
        ),
        course(
            "Open executions",
            {"{{state}}": total("executions_in_state", by="state")},
            "Executions that have not ended, by their state. For all functions.",
            stacked=True,
        ),
        spread("Run time", buckets(DURATION, CHOSEN), "How many attempts took how long."),
        course(
            "Run time, quantiles",
            {f"p{p}": quantile(p / 100, DURATION, CHOSEN) for p in (50, 95, 99)},
            "The time of attempts.",
            unit="s",
        ),
        course(
            "Time until an execution starts",
            {f"p{p}": quantile(p / 100, "execution_queue_seconds") for p in (50, 95, 99)},
            "From when an execution was due to its first start. For all functions.",
            unit="s",
        ),
        course(
            "Size of results",
            {f"p{p}": quantile(p / 100, "execution_output_bytes") for p in (50, 95)},
            "For all functions.",
            unit="bytes",
        ),
        course(
            "Work of the reaper",
            {"{{result}}": gained("executions_reaped_total", by="result", window="$__rate_interval")},
            "Executions whose worker was lost, by what became of them. For all functions.",
            stacked=True,
        ),
        course(
            "Compensations",
            {"{{state}}": gained("compensations_total", by="state", window="$__rate_interval")},
            "Steps of failed executions by the end of their compensation. For all functions.",
            stacked=True,
        ),
    ]
    return board(
        "executions",
        "Executions",
        "Which functions fail, are slow, or wait.",
        {"Is anything wrong?": wrong, "Where?": where, "Since when?": since},
        by_function=True,
    )

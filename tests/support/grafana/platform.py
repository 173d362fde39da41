"""The dashboard of the platform: database, HTTP, access, processes."""

from __future__ import annotations

from tests.support.grafana.board import board
from tests.support.grafana.panels import ANSWERS, course, figure, ranking
from tests.support.grafana.promql import (
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

STEP = "$__rate_interval"
USED = 'state="used"'
POOL = "db_pool_connections"


def platform() -> str:
    """The dashboard of what Functory stands on."""
    pool = f"max ({total(POOL, USED, by='instance')} / {total(POOL, by='instance')})"
    wrong = [
        figure(
            "Leading schedulers",
            or_zero(total("leader", 'role="scheduler"')),
            "One holds the lease and shows the state gauges.",
            critical=1,
            low=True,
        ),
        figure(
            "Fullest pool",
            pool,
            "Share of the database connections of one process that are in use.",
            unit="percentunit",
            warning=0.7,
            critical=0.9,
        ),
        figure(
            "Transactions, p95",
            quantile(0.95, "db_transaction_seconds"),
            "One transaction in twenty took longer.",
            unit="s",
            warning=0.25,
            critical=1,
        ),
        figure(
            "Answers with 5xx",
            share(
                gained("http_requests_total", 'status_class="5xx"', window="10m"),
                gained("http_requests_total", window="10m"),
            ),
            "Share of the requests of the last ten minutes.",
            unit="percentunit",
            warning=0.01,
            critical=0.05,
        ),
        figure(
            "Wrong credentials",
            or_zero(gained("auth_failures_total")),
            "Requests of the time range with a wrong password, token or session.",
            warning=10,
            address="/audit",
        ),
        figure(
            "Unreadable secrets",
            or_zero(gained("secret_reads_total", 'result="decrypt_error"')),
            "Reads of secrets in the time range for which no key fitted.",
            critical=1,
            address="/secrets",
        ),
        figure(
            "Broken invariants",
            or_zero(total("invariant_violations")),
            "Rows that break a promise of the engine.",
            critical=1,
            address="/health",
        ),
        figure(
            "Stalled services",
            or_zero(gained("service_stalls_total")),
            "Roles that ended themselves in the time range, because a service made no progress.",
            critical=1,
        ),
    ]
    where = [
        ranking(
            "Processes",
            processes(),
            ["instance", "role", "version"],
            "state",
            "The processes that Prometheus knows, with their roles and versions.",
            words=ANSWERS,
        ),
        ranking(
            "Slowest transactions",
            top(quantile(0.95, "db_transaction_seconds", by="op", window="$__range")),
            ["op"],
            "p95",
            "One transaction in twenty of the time range took longer.",
            unit="s",
        ),
        ranking(
            "Slowest routes",
            top(quantile(0.95, "http_request_seconds", by="route", window="$__range")),
            ["route"],
            "p95",
            "One request in twenty of the time range took longer.",
            unit="s",
        ),
    ]
    database = [
        course(
            "Connections in use",
            {"{{instance}}": total(POOL, USED, by="instance")},
            "Of the pool of each process.",
        ),
        course(
            "Time of transactions",
            {"{{op}} p95": quantile(0.95, "db_transaction_seconds", by="op")},
            "One transaction in twenty took longer.",
            unit="s",
            critical=1,
        ),
        course(
            "Transactions",
            {"{{op}}": rate("db_transaction_seconds_count", by="op")},
            "Transactions a second, by their purpose.",
            unit="ops",
            stacked=True,
        ),
        course(
            "Leading schedulers",
            {"{{instance}}": total("leader", 'role="scheduler"', by="instance")},
            "Who holds the lease of the state gauges: a change is a scheduler that has ended, or could not write.",
        ),
        course(
            "Deleted rows",
            {"{{table}}": gained("pruned_rows_total", by="table", window=STEP)},
            "Rows that retention has deleted.",
            stacked=True,
        ),
        course(
            "Stored functions and versions",
            {
                "functions, {{origin}}": total("functions", by="origin"),
                "versions, {{origin}}": total("function_versions", by="origin"),
            },
            "By who has saved them.",
        ),
    ]
    http = [
        course(
            "Requests by status",
            {"{{status_class}}": rate("http_requests_total", by="status_class")},
            "Answered requests a second.",
            unit="reqps",
            stacked=True,
            width=8,
        ),
        course(
            "Errors by route",
            {"{{route}}": gained("http_requests_total", 'status_class="5xx"', by="route", window=STEP)},
            "Answers with 5xx.",
            stacked=True,
            width=8,
        ),
        course(
            "Time of requests",
            {f"p{p}": quantile(p / 100, "http_request_seconds") for p in (50, 95, 99)},
            "From a request's headers to the start of its answer.",
            unit="s",
            width=8,
        ),
        course(
            "Live streams",
            {"open": total("streams")},
            "Pages and programs that follow what happens.",
            width=8,
        ),
        course(
            "Trouble of streams and connections",
            {
                "rows left out": or_zero(gained("stream_dropped_rows_total", window=STEP)),
                "late rows": or_zero(gained("stream_late_rows_total", window=STEP)),
                "cut connections": or_zero(gained("http_connections_cut_total", window=STEP)),
            },
            "Slow clients, long transactions, a full server.",
            width=8,
        ),
        course(
            "Wrong credentials",
            {"{{kind}}": gained("auth_failures_total", by="kind", window=STEP)},
            "Requests with a wrong password, token or session, or from another site's page.",
            stacked=True,
            width=8,
        ),
    ]
    process = [
        course(
            "Memory",
            {"{{instance}}": series("process_resident_memory_bytes")},
            "Resident memory of each process.",
            unit="bytes",
            width=8,
        ),
        course(
            "Processor",
            {"{{instance}}": f"rate({series('process_cpu_seconds_total')}[{STEP}])"},
            "Cores that each process uses.",
            width=8,
        ),
        course(
            "File descriptors",
            {"{{instance}}": f"{series('process_open_fds')} / {series('process_max_fds')}"},
            "Share of the limit of each process.",
            unit="percentunit",
            critical=0.9,
            width=8,
        ),
        course(
            "Reads of secrets",
            {"{{result}}": gained("secret_reads_total", by="result", window=STEP)},
            "By functions, and by the engine for them.",
            stacked=True,
            width=8,
        ),
        course(
            "Broken invariants",
            {"{{invariant}}": largest("invariant_violations", by="invariant")},
            "Rows that break a promise, until a complete check finds none.",
            stacked=True,
            width=8,
        ),
        course(
            "Age of the last check",
            {"age": f"time() - ({largest('invariants_checked_timestamp_seconds')} > 0)"},
            "Since the invariants were checked.",
            unit="s",
            width=8,
        ),
    ]
    return board(
        "platform",
        "Platform",
        "Database, HTTP, access and processes.",
        {
            "Is anything wrong?": wrong,
            "Where?": where,
            "Since when? Database": database,
            "Since when? HTTP": http,
            "Since when? Processes and safety": process,
        },
    )

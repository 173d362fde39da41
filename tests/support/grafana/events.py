"""The dashboard of events: from a source through the outbox and the router to an execution."""

from __future__ import annotations

from tests.support.grafana.board import board
from tests.support.grafana.panels import course, figure, ranking, spread
from tests.support.grafana.promql import (
    buckets,
    gained,
    largest,
    or_zero,
    quantile,
    quantile_of_few,
    rate,
    top,
    total,
)

STEP = "$__rate_interval"


def events() -> str:
    """The dashboard of events, triggers and sources."""
    wrong = [
        figure(
            "Oldest event to route",
            largest("router_backlog_seconds"),
            "Age of the oldest event about which no router has decided.",
            unit="s",
            warning=10,
            critical=30,
        ),
        figure(
            "Oldest event to publish",
            largest("outbox_oldest_age_seconds"),
            "Age of the oldest event that is not on the broker.",
            unit="s",
            warning=10,
            critical=60,
        ),
        figure(
            "In quarantine",
            or_zero(largest("events_quarantined")),
            "Events about which no router could decide.",
            warning=1,
            address="/events?state=quarantined",
        ),
        figure(
            "Condition errors",
            or_zero(gained("trigger_condition_errors_total")),
            "Conditions of triggers that failed in the time range.",
            warning=1,
            address="/suppressions",
        ),
        figure(
            "Matches without a start",
            or_zero(gained("trigger_failures_total")),
            "Matches of the time range of which no execution could be made.",
            warning=1,
            address="/suppressions",
        ),
        figure(
            "Stopped by guards",
            or_zero(gained("guard_blocks_total")),
            "Firings of the time range that a guard stopped.",
            warning=1,
            address="/suppressions",
        ),
        figure(
            "Sources with a problem",
            or_zero(total("source_problems")),
            "Enabled sources that cannot work.",
            warning=1,
            address="/sources",
        ),
        figure(
            "Ticks left out",
            or_zero(gained("schedule_missed_catchup_window_total", 'reason="window"')),
            "Ticks of schedules that were older than the catch-up window after a downtime, in the time range.",
            warning=1,
        ),
    ]
    where = [
        course(
            "From event to execution",
            {
                "published": rate("events_published_total"),
                "routed": rate("router_events_total"),
                "matched": rate("router_events_total", 'outcome="matched"'),
                "fired": rate("trigger_fires_total", 'result="fired"'),
                "executions": rate("executions_created_total", 'cause="trigger"'),
            },
            "Each line is what is left of the one above, a second.",
            unit="ops",
            width=8,
        ),
        ranking(
            "Busiest triggers",
            top(gained("trigger_fires_total", by="trigger, result")),
            ["trigger", "result"],
            "matches",
            "Decisions about matches in the time range.",
            address="/triggers/${__value.raw}",
        ),
        ranking(
            "Refused events",
            top(gained("events_rejected_total", by="reason")),
            ["reason"],
            "events",
            "Events of the time range that webhooks and /events did not take.",
        ),
    ]
    routing = [
        course(
            "Published events",
            {"{{type}}": rate("events_published_total", by="type")},
            "Events that the broker has confirmed, a second, by type.",
            unit="ops",
            stacked=True,
        ),
        course(
            "Routed events",
            {"{{outcome}}": rate("router_events_total", by="outcome")},
            "Events about which a router has decided, a second.",
            unit="ops",
            stacked=True,
        ),
        course(
            "Events that wait",
            {
                "to route": largest("router_backlog_seconds"),
                "to publish": largest("outbox_oldest_age_seconds"),
                "last batch of a router": largest("router_lag_seconds"),
            },
            "The age of the oldest one.",
            unit="s",
            critical=30,
        ),
        course(
            "Events that wait, number",
            {"{{queue}}": total("queue_depth", by="queue"), "to publish": total("outbox_pending")},
            "Events to route and to publish, and executions to claim.",
        ),
        course(
            "Time to publish a batch",
            {"{{result}} p95": quantile(0.95, "outbox_publish_seconds", by="result")},
            "One batch in twenty took longer.",
            unit="s",
            width=8,
        ),
        course(
            "Time to decide about an event",
            {f"p{p}": quantile(p / 100, "router_match_seconds") for p in (50, 95)},
            "Patterns and conditions of all triggers.",
            unit="s",
            width=8,
        ),
        course(
            "Patterns looked at",
            {f"p{p}": quantile(p / 100, "router_candidates") for p in (50, 95)},
            "Triggers whose patterns were compared with an event: the index leaves the others out.",
            width=8,
        ),
        spread(
            "Depth of events",
            buckets("causation_depth"),
            "How many steps led to an event: growing depth is a chain of triggers, perhaps a loop.",
            unit="short",
            width=8,
        ),
        course(
            "Size of events",
            {f"p{p}": quantile(p / 100, "event_size_bytes") for p in (50, 95)},
            "The published envelopes.",
            unit="bytes",
            width=8,
        ),
        course(
            "Ignored lineage tokens",
            {"{{result}}": gained("lineage_tokens_total", by="result", window=STEP)},
            "Requests that name the execution that caused them, and whether that was believed.",
            width=8,
        ),
    ]
    triggers = [
        course(
            "Firings",
            {"{{result}}": rate("trigger_fires_total", by="result")},
            "Decisions about matches, a second.",
            unit="ops",
            stacked=True,
            width=8,
        ),
        course(
            "Stopped by guards",
            {"{{guard}}": gained("guard_blocks_total", by="guard", window=STEP)},
            "Firings that a guard against loops and floods stopped.",
            stacked=True,
            width=8,
            address="/suppressions",
        ),
        course(
            "Condition errors",
            {
                "{{trigger}} {{kind}}": gained(
                    "trigger_condition_errors_total", by="trigger, kind", window=STEP
                )
            },
            "Conditions that failed.",
            stacked=True,
            width=8,
        ),
        course(
            "Matches without a start",
            {"{{trigger}} {{reason}}": gained("trigger_failures_total", by="trigger, reason", window=STEP)},
            "Their function is not there, or the input does not fit.",
            stacked=True,
            width=8,
        ),
        course(
            "Waiting in flow control",
            {"{{control}}": total("flow_waiting", by="control")},
            "Matches and executions that a limit lets wait.",
            stacked=True,
            width=8,
        ),
        course(
            "Dropped by flow control",
            {"{{reason}}": gained("flow_dropped_total", by="reason", window=STEP)},
            "Matches without an execution, by reason.",
            stacked=True,
            width=8,
        ),
    ]
    sources = [
        course(
            "Events of sources",
            {"{{kind}}": rate("source_events_total", by="kind")},
            "Events that sources took in, a second.",
            unit="ops",
            stacked=True,
            width=8,
        ),
        course(
            "Ticks of schedules",
            {"{{result}}": gained("schedule_ticks_total", by="result", window=STEP)},
            "Fired on time, late, backfilled or by hand.",
            stacked=True,
            width=8,
        ),
        course(
            "Delay of ticks",
            {f"p{p}": quantile_of_few(p / 100, "schedule_lag_seconds") for p in (50, 95)},
            "From when a tick was due to the commit of its event.",
            unit="s",
            width=8,
        ),
        course(
            "Requests to webhooks",
            {"{{status_class}}": rate("webhook_requests_total", by="status_class")},
            "Requests a second by their answer.",
            unit="reqps",
            stacked=True,
            width=8,
        ),
        course(
            "Time of webhooks",
            {f"p{p}": quantile(p / 100, "webhook_seconds") for p in (50, 95)},
            "From a request's headers to its answer.",
            unit="s",
            width=8,
        ),
        course(
            "Events over HTTP",
            {"{{mode}} {{result}}": rate("events_received_total", by="mode, result")},
            "CloudEvents sent to /events, a second.",
            unit="ops",
            stacked=True,
            width=8,
        ),
        course(
            "Changes of files",
            {"{{type}}": rate("file_events_total", by="type")},
            "Events of watched folders, a second.",
            unit="ops",
            stacked=True,
            width=8,
        ),
        course(
            "Scans of folders",
            {"{{reason}}": gained("file_scans_total", by="reason", window=STEP)},
            "Comparisons of a whole folder with what is known of it.",
            stacked=True,
            width=8,
        ),
        course(
            "Time of scans",
            {"p95": quantile_of_few(0.95, "file_scan_duration_seconds")},
            "One scan in twenty took longer.",
            unit="s",
            width=8,
        ),
    ]
    return board(
        "events",
        "Events and triggers",
        "From a source through the outbox and the router to an execution.",
        {
            "Is anything wrong?": wrong,
            "Where?": where,
            "Since when? Routing": routing,
            "Since when? Triggers": triggers,
            "Since when? Sources": sources,
        },
    )

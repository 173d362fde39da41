"""Metric families of the server: requests, webhooks, received events, logins and live streams."""

from __future__ import annotations

from functory.engine.telemetry.registry import counter, gauge, histogram

SERVER = ("server",)

REQUEST_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 5, 20)

# Reasons of rejected events by the status of the answer; every other one is a wrong request.
_REJECTIONS = {
    401: "auth",
    403: "auth",
    # Of a webhook: an unknown name and a wrong signature have the same answer.
    404: "auth",
    408: "slow",
    413: "too_large",
    415: "content_type",
    429: "rate",
    503: "unavailable",
}

http_requests = counter(
    "functory_http_requests_total",
    "Answered requests, by the template of their route.",
    "route",
    "method",
    "status_class",
    on=SERVER,
)
http_request_seconds = histogram(
    "functory_http_request_seconds",
    "Time from a request's headers to the start of its answer, by the template of its route.",
    "route",
    buckets=(0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 5, 20),
    on=SERVER,
)
http_connections_cut = counter(
    "functory_http_connections_cut_total",
    "Connections that the server ended: the client was slow, or the server full.",
    "reason",
    on=SERVER,
)
auth_failures = counter(
    "functory_auth_failures_total",
    "Requests without valid credentials: a wrong password, token or session, or from another site's page (origin).",
    "kind",
    on=SERVER,
)
webhook_requests = counter(
    "functory_webhook_requests_total",
    "Requests to webhooks by answer and reason.",
    "status_class",
    "reason",
    on=SERVER,
)
webhook_seconds = histogram(
    "functory_webhook_seconds",
    "Time from a request's headers to its answer.",
    buckets=REQUEST_SECONDS,
    on=SERVER,
)
events_received = counter(
    "functory_events_received_total",
    "CloudEvents sent to /events, by mode and result; a refused batch is one.",
    "mode",
    "result",
    on=SERVER,
)
events_rejected = counter(
    "functory_events_rejected_total",
    "Events that /events and webhooks did not take, by reason; a refused batch is one.",
    "reason",
    on=SERVER,
)
streams = gauge("functory_streams", "Live streams that clients have open.", on=SERVER)
stream_late_rows = counter(
    "functory_stream_late_rows_total",
    "Rows that the live stream found only seconds after their ids were made: their transaction was long.",
    on=SERVER,
)
stream_dropped_rows = counter(
    "functory_stream_dropped_rows_total",
    "Rows that were not sent to a live stream because its client reads too slowly.",
    on=SERVER,
)


def rejection(status: int) -> str:
    """Return the reason for which an answer with this status took no event."""
    return _REJECTIONS.get(status, "invalid")

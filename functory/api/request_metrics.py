"""Request metrics: counts answers by the template of their route, never by a path: a stranger chooses paths."""

from __future__ import annotations

import time

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from functory.engine.telemetry import metrics, server_metrics, traces

METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
OTHER = "other"
PREFIX = "/api/v1"


class RequestMetrics:
    """Middleware that counts each request, and measures the time to the start of its answer."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        began = time.perf_counter()

        async def count(message: Message) -> None:
            if message["type"] == "http.response.start":
                _count(scope, message["status"], time.perf_counter() - began)
            await send(message)

        await self._app(scope, receive, count)


def route_of(scope: Scope) -> str | None:
    """Return the template of the route of a request. Files of the dashboard and unknown paths have none.

    The router stores the route that it has found without the prefix of the router that includes it.
    """
    route = getattr(scope.get("route"), "path", None) or None
    if route is not None and scope["path"].startswith(PREFIX) and not route.startswith(PREFIX):
        return f"{PREFIX}{route}"
    return route


def _count(scope: Scope, status: int, seconds: float) -> None:
    route = route_of(scope) or OTHER
    method = scope["method"] if scope["method"] in METHODS else OTHER
    server_metrics.http_requests.labels(route, method, f"{status // 100}xx").inc()
    trace = traces.exemplar_of_request(scope["headers"])
    metrics.observe(server_metrics.http_request_seconds.labels(route), seconds, trace)

"""The FastAPI application: its routes, and one form for every error."""

from __future__ import annotations

from fastapi import FastAPI, Request, Response
from fastapi.responses import JSONResponse
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest

from functory._version import __version__
from functory.api import callers, cloudevents, problem_details, webhooks
from functory.api.health import OPTIONAL_CHECKS, Health
from functory.client import Functory
from functory.engine.telemetry import metrics


def create_app(functory: Functory) -> FastAPI:
    """The application over ``functory``, which the caller starts and closes."""
    # The pages of documentation load scripts from other hosts: they are left out.
    app = FastAPI(title="Functory", version=__version__, docs_url=None, redoc_url=None, openapi_url=None)
    problem_details.install(app)
    health, settings = Health(functory), functory.settings
    webhooks.mount(app, functory)
    cloudevents.mount(app, functory)

    @app.get("/healthz", tags=["health"])
    def healthz() -> dict[str, str]:
        """Report that this process is alive."""
        return {"status": "alive"}

    @app.get(
        "/readyz", tags=["health"], responses={503: {"description": "Something that is needed is away."}}
    )
    def readyz(request: Request, response: Response) -> dict[str, object]:
        """Report readiness; to a caller that may read metrics also each part with ``ok``, and ``why`` for a part that
        is not.

        ``degraded`` lists unavailable parts that the deployment works without. They do not make the answer a 503.
        """
        parts = health.checks()
        away = [name for name, part in parts.items() if not part["ok"]]
        ready = OPTIONAL_CHECKS.issuperset(away)
        response.status_code = 200 if ready else 503
        if not callers.may_observe(settings, request):
            # A load balancer needs no more, and the parts tell a stranger what to attack.
            return {"ready": ready}
        return {"ready": ready, "degraded": away if ready else [], "checks": parts}

    @app.get("/metrics", tags=["health"], response_class=Response)
    def exposition(request: Request) -> Response:
        """The metrics of this process in Prometheus' text format."""
        if not callers.may_observe(settings, request):
            return callers.refuse_observer(settings)
        return Response(generate_latest(metrics.registry), media_type=CONTENT_TYPE_LATEST)

    @app.get("/openapi.json", include_in_schema=False)
    def description(request: Request) -> Response:
        if not callers.may_observe(settings, request):
            return callers.refuse_observer(settings)
        return JSONResponse(app.openapi())

    return app

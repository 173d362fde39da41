"""The FastAPI application: its routes, and one form for every error."""

from __future__ import annotations

from fastapi import FastAPI, Response
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest

from functory._version import __version__
from functory.api import cloudevents, problem_details, webhooks
from functory.api.health import OPTIONAL_CHECKS, Health
from functory.client import Functory
from functory.engine.telemetry import metrics


def create_app(functory: Functory) -> FastAPI:
    """The application over ``functory``, which the caller starts and closes."""
    # The pages of documentation load scripts from other hosts: they are left out.
    app = FastAPI(title="Functory", version=__version__, docs_url=None, redoc_url=None)
    problem_details.install(app)
    health = Health(functory)
    webhooks.mount(app, functory)
    cloudevents.mount(app, functory)

    @app.get("/healthz", tags=["health"])
    def healthz() -> dict[str, str]:
        """Report that this process is alive."""
        return {"status": "alive"}

    @app.get(
        "/readyz", tags=["health"], responses={503: {"description": "Something that is needed is away."}}
    )
    def readyz(response: Response) -> dict[str, object]:
        """Report readiness: each part with ``ok``, and ``why`` for a part that is not.

        ``degraded`` lists unavailable parts that the deployment works without. They do not make the answer a 503.
        """
        parts = health.checks()
        away = [name for name, part in parts.items() if not part["ok"]]
        ready = OPTIONAL_CHECKS.issuperset(away)
        response.status_code = 200 if ready else 503
        return {"ready": ready, "degraded": away if ready else [], "checks": parts}

    @app.get("/metrics", tags=["health"], response_class=Response)
    def exposition() -> Response:
        """The metrics of this process in Prometheus' text format."""
        return Response(generate_latest(metrics.registry), media_type=CONTENT_TYPE_LATEST)

    return app

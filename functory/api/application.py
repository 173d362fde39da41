"""The FastAPI application: its routes, and one form for every error."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from functools import cache
from importlib import import_module

from fastapi import APIRouter, Depends, FastAPI, Request, Response
from fastapi.concurrency import run_in_threadpool
from fastapi.responses import JSONResponse
from starlette.routing import BaseRoute

from functory import dashboard
from functory._version import __version__
from functory.api import bounded_reads, callers, cloudevents, problem_details, webhooks
from functory.api.access import hosts, login
from functory.api.access.authentication import Authentication
from functory.api.access.rights import Caller
from functory.api.access.security_headers import SecurityHeaders
from functory.api.api_request import Admit
from functory.api.compression import Compression
from functory.api.health import OPTIONAL_CHECKS, Health
from functory.api.request_metrics import RequestMetrics
from functory.client.functory import Functory
from functory.engine.database import audit
from functory.engine.database.refused_attempts import RefusedAttempts
from functory.engine.telemetry import exposition, metrics

Authenticate = Callable[[Request], Caller]

# The nouns under /api/v1, each a module of functory.api.resources with a router.
RESOURCES: tuple[str, ...] = (
    "activity",
    "agents",
    "approvals",
    "backtests",
    "batches",
    "budgets",
    "calls",
    "canaries",
    "events",
    "execution_actions",
    "executions",
    "functions",
    "gate_policies",
    "grants",
    "logins",
    "map",
    "me",
    "memories",
    "models",
    "operations",
    "overview",
    "proposals",
    "runs",
    "search",
    "secrets",
    "sources",
    "stream",
    "suppressions",
    "tokens",
    "trees",
    "triggers",
    "users",
)


def create_app(
    functory: Functory, authenticate: Authenticate | None = None, *, owner: bool = False
) -> FastAPI:
    """The application over ``functory``, which the caller starts and closes.

    A caller of ``/api/v1`` sends a token or the cookie of a login. With ``owner`` a link logs the owner in, who may do
    everything: for ``functory dev`` on this machine. ``authenticate`` takes the place of all this: it returns who sends
    a request, or raises.
    """
    # The pages of documentation load scripts from other hosts: they are left out.
    app = FastAPI(title="Functory", version=__version__, docs_url=None, redoc_url=None, openapi_url=None)
    app.state.functory = functory
    app.state.refused_attempts = RefusedAttempts(functory.database)
    problem_details.install(app)
    app.add_middleware(Compression)
    app.add_middleware(SecurityHeaders)
    app.add_middleware(RequestMetrics)
    health, settings = Health(functory), functory.settings
    app.state.health = health
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
    def scrape(request: Request) -> Response:
        """The metrics of this process in Prometheus' text format, or in OpenMetrics for a client that reads it."""
        if not callers.may_observe(settings, request):
            return callers.refuse_observer(settings)
        body, media_type = exposition.render(metrics.registry, request.headers.get("accept", ""))
        return Response(body, headers={"content-type": media_type})

    @app.get("/openapi.json", include_in_schema=False)
    def description(request: Request) -> Response:
        if not callers.may_observe(settings, request):
            return callers.refuse_observer(settings)
        return JSONResponse(app.openapi())

    if settings.api == "on":
        find_caller = authenticate or Authentication(functory, app.state.refused_attempts, owner=owner)
        app.state.admit = _admission(find_caller, checks_host=authenticate is None)
        app.state.checks_host = authenticate is None
        app.router.routes.extend(_api_routes(owner))
        if settings.oidc_issuer is not None:
            app.include_router(_provider_login(functory))
        dashboard.mount(app, dev=owner)
    return app


def _admission(find_caller: Authenticate, *, checks_host: bool) -> Admit:
    """What finds the caller of a request, and keeps it at ``request.state.caller``: before a body is read, or else
    before the handler.
    """

    async def admit(request: Request) -> None:
        if checks_host:
            hosts.check(request.app.state.functory.settings, request)
        if getattr(request.state, "caller", None) is None:
            request.state.caller = await run_in_threadpool(find_caller, request)

    return admit


@cache
def _api_routes(owner: bool) -> tuple[BaseRoute, ...]:
    """The routes under ``/api/v1``. They find what they need in the state of the application that a request is for, so
    all applications of a process share them: to make them takes a second.
    """
    api = APIRouter(prefix="/api/v1", dependencies=[Depends(_known_host)])
    api.include_router(login.router(owner=owner))
    for name in RESOURCES:
        resource = import_module(f"functory.api.resources.{name}")
        api.include_router(resource.router, dependencies=[Depends(_authenticated)])
    return tuple(api.routes)


def _provider_login(functory: Functory) -> APIRouter:
    from functory.api.access import provider_login

    routes = APIRouter(prefix="/api/v1", dependencies=[Depends(_known_host)])
    routes.include_router(provider_login.router(functory))
    return routes


async def _authenticated(request: Request) -> AsyncIterator[None]:
    await request.app.state.admit(request)
    with audit.acting(request.state.caller.origin), bounded_reads.limit(request):
        yield


def _known_host(request: Request) -> None:
    if request.app.state.checks_host:
        hosts.check(request.app.state.functory.settings, request)

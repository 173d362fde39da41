"""``functory server``: the process that serves HTTP."""

from __future__ import annotations

import contextlib
import threading
from typing import Annotated, Any

import typer

from functory.cli.command_group import Migrate, Port


def server(
    host: Annotated[
        str | None, typer.Option(help="Address to listen on. Default: FUNCTORY_HOST.", show_default=False)
    ] = None,
    port: Port = None,
    migrate: Migrate = False,
) -> int:
    """Serve HTTP: API, webhooks, events, health, metrics. With the in-memory broker it runs all other roles too."""
    from functory.client.functory import Functory
    from functory.engine import role_state, serving_address
    from functory.engine.maintenance import trace_export
    from functory.roles import process

    create_app, Server, ConnectionLimits = import_http_server()
    from functory.api.access import admission

    settings = process.configure("server", embedded=True)
    settings = settings.model_copy(
        update={"host": host or settings.host, "port": settings.port if port is None else port}
    )
    shutdown = process.RoleShutdown().install()
    with contextlib.ExitStack() as stack:
        functory = stack.enter_context(Functory(settings))
        metrics_url = stack.enter_context(process.serve_metrics(settings))
        http = Server(create_app(functory), settings.host, settings.port, ConnectionLimits.of(settings))
        # Before the database is available, so that /readyz can say what is missing.
        http.start()
        stack.enter_context(serving_address.announced(settings, http.url, takes_links=False))
        process.log.info("listening", url=http.url)
        functory.database.on_lost = shutdown.fail
        if process.wait_for_schema(functory.database, shutdown, upgrade=migrate):
            admission.check(functory)
            if admission.has_no_person(functory):
                process.log.info(
                    "the dashboard has no users, so no user can log in",
                    **{"try": "functory user create NAME --role admin"},
                )
            if settings.embedded:
                stack.enter_context(process.show_state_metrics(functory.database, settings))
            functory.start()
            if not settings.embedded:
                stack.callback(trace_export.start(settings, functory.database, "server"))
            process.warn_about_broker(settings)
            process.report_ready(
                "server",
                settings,
                is_progressing=lambda: http.progressing,
                url=http.url,
                metrics=metrics_url or f"{http.url}/metrics",
            )
            shutdown.wait()
        process.log.info("stopping", role="server", grace_seconds=settings.grace_seconds)
        role_state.report_stopping()
        # Requests that wait for a silent database end before the grace period does.
        giving_up = threading.Timer(settings.grace_seconds / 2, functory.database.give_up)
        giving_up.daemon = True
        giving_up.start()
        try:
            return process.exit_status(shutdown, ended=http.stop(settings.grace_seconds))
        finally:
            giving_up.cancel()


def import_http_server() -> tuple[Any, Any, Any]:
    """Import what serves HTTP. Raises :class:`Invalid` when its packages are not installed."""
    from functory.engine import extras
    from functory.engine.errors import Invalid

    try:
        from functory.api import create_app
        from functory.api.bounded_connection import ConnectionLimits
        from functory.api.server import Server
    except ModuleNotFoundError as error:
        if error.name not in ("argon2", "fastapi", "uvicorn", "starlette"):
            raise
        raise Invalid(
            "the HTTP server is not installed",
            f"there is no module {error.name}",
            extras.install_command("server"),
        ) from None
    return create_app, Server, ConnectionLimits

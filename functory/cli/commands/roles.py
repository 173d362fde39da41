"""``functory server | router | worker | scheduler | watcher | dev``: the processes of a deployment."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from functory.workers.execution.executor import Executor

Migrate = Annotated[
    bool, typer.Option("--migrate", help="First bring the database to this version's schema.")
]


class Pool(StrEnum):
    """How a worker runs executions at a time; each runs in a child process of its own in any case."""

    threads = "threads"
    prefork = "prefork"
    solo = "solo"


def router(migrate: Migrate = False) -> int:
    """Turn events into executions, and send events and executions to the broker."""
    from functory.roles import process, services

    return process.run_loops("router", services.router_loops, upgrade=migrate)


def scheduler(migrate: Migrate = False) -> int:
    """Tell of schedules, send what is due, and end what nobody owns any more. Run as many as you like."""
    from functory.roles import process, services

    return process.run_loops("scheduler", services.scheduler_loops, upgrade=migrate, with_state_metrics=True)


def watcher(migrate: Migrate = False) -> int:
    """Listen to sources: watched files, queues and plug-ins. Each is listened to by one watcher at a time."""
    from functory.roles import process, services

    return process.run_loops("watcher", services.watcher_loops, upgrade=migrate)


def worker(
    pool: Annotated[
        Pool,
        typer.Option(help="threads: one process. prefork: a process a slot. solo: one execution at a time."),
    ] = Pool.threads,
    slots: Annotated[
        int | None, typer.Option(min=1, max=512, help="Executions at a time (FUNCTORY_WORKER_SLOTS).")
    ] = None,
    migrate: Migrate = False,
) -> int:
    """Carry out executions: a Celery worker, or with the broker none:// one that claims from the database."""
    from functory.engine.database.connection import Database
    from functory.engine.errors import Invalid
    from functory.roles import process

    settings = process.configure("worker")
    if settings.brokerless and pool is Pool.prefork:
        raise Invalid(
            "--pool prefork needs a broker",
            "FUNCTORY_BROKER_URL is none://, where one process claims for all its slots",
            "functory worker --slots N; each execution runs in a child process of its own in any case",
        )
    if pool is Pool.solo:
        slots = 1
    if slots is not None:
        settings = settings.model_copy(update={"worker_slots": slots})
    ending = process.RoleShutdown().install()
    with contextlib.ExitStack() as stack:
        address = stack.enter_context(process.serve_metrics(settings))
        # Closed again before the worker starts: a prefork child must inherit no connection.
        database = Database(settings.database)
        stack.callback(database.close)
        if not process.wait_for_schema(database, ending, upgrade=migrate):
            return 0
        database.close()

        def ready(slots: int, executor: Executor | None) -> None:
            process.print_ready_line(
                "worker",
                settings,
                pool=pool.value,
                slots=slots,
                sandbox=executor.tier if executor is not None else None,
                metrics=address,
            )

        if ending.requested:
            return 0
        # The program has signal handlers of its own as soon as it can; what came before is handed over.
        if settings.brokerless:
            from functory.workers.processes.brokerless_worker import BrokerlessWorker

            return BrokerlessWorker(
                settings, lambda executor: ready(settings.worker_slots, executor), ending.read_earlier_signals
            ).run()
        from functory.workers.app import make_app

        program = make_app(settings).Worker(
            pool=pool.value,
            concurrency=settings.worker_slots,
            loglevel=settings.log_level.upper(),
        )
        program.ready = lambda worker: ready(worker.slots, worker.app.executor)
        program.heard = ending.read_earlier_signals
        program.start()
        return program.exitcode or 0


def server(
    host: Annotated[str | None, typer.Option(help="Address to listen on (FUNCTORY_HOST).")] = None,
    port: Annotated[
        int | None, typer.Option(min=0, max=65535, help="Port; 0 takes a free one (FUNCTORY_PORT).")
    ] = None,
    migrate: Migrate = False,
) -> int:
    """Serve HTTP: health and metrics. With the in-memory broker it runs all other roles as well."""
    from functory.client import Functory
    from functory.roles import process

    create_app, Server = _import_http_server()
    settings = process.configure("server", embedded=True)
    settings = settings.model_copy(
        update={"host": host or settings.host, "port": settings.port if port is None else port}
    )
    ending = process.RoleShutdown().install()
    with contextlib.ExitStack() as stack:
        functory = stack.enter_context(Functory(settings))
        address = stack.enter_context(process.serve_metrics(settings))
        http = Server(create_app(functory), settings.host, settings.port)
        http.start()
        # At once, so that /readyz can tell what is being waited for.
        process.log.info("listening", url=http.url)
        if process.wait_for_schema(functory.database, ending, upgrade=migrate):
            if settings.embedded:
                stack.enter_context(process.expose_state_metrics(functory.database))
            functory.start()
            process.warn_if_broker_unavailable(settings)
            process.print_ready_line(
                "server", settings, url=http.url, metrics=address or f"{http.url}/metrics"
            )
            ending.wait()
        process.log.info("stopping", role="server", grace_seconds=settings.grace_seconds)
        return 0 if http.stop(settings.grace_seconds) else 1


def dev(
    port: Annotated[
        int | None, typer.Option(min=0, max=65535, help="Port; 0 takes a free one (FUNCTORY_PORT).")
    ] = None,
    reset: Annotated[bool, typer.Option("--reset", help="Delete the data file and start anew.")] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Do not show events as they happen.")] = False,
) -> int:
    """Run all roles in one process, for development. Not for production."""
    from functory.dev import server as development
    from functory.roles import process

    _import_http_server()
    settings = development.dev_settings(process.configure("dev", embedded=True), port)
    if reset:
        development.reset(settings, confirmed=yes)
    return development.run(settings, quiet=quiet)


def _import_http_server() -> tuple[Any, Any]:
    """The parts of the HTTP server. Raises :class:`Invalid` when they are not installed."""
    from functory.engine.errors import Invalid

    try:
        from functory.api import create_app
        from functory.api.server import Server
    except ModuleNotFoundError as error:
        if error.name not in ("fastapi", "uvicorn", "starlette"):
            raise
        raise Invalid(
            "the HTTP server is not installed",
            f"there is no module {error.name}",
            "pip install 'functory[server]'",
        ) from None
    return create_app, Server


COMMANDS: dict[str, Callable[..., int]] = {
    "server": server,
    "router": router,
    "worker": worker,
    "scheduler": scheduler,
    "watcher": watcher,
    "dev": dev,
}

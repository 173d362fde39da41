"""``functory worker``: the process that runs executions."""

from __future__ import annotations

import contextlib
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from functory.cli.command_group import Migrate

if TYPE_CHECKING:
    from functory.workers.execution.executor import Executor


class Pool(StrEnum):
    """How the slots of a worker are run. Each execution runs in a child process of its own in any case."""

    threads = "threads"
    prefork = "prefork"
    solo = "solo"


def worker(
    pool: Annotated[
        Pool,
        typer.Option(
            help="threads: one process. prefork: one process per slot. solo: one execution at a time."
        ),
    ] = Pool.threads,
    slots: Annotated[
        int | None,
        typer.Option(
            min=1,
            max=512,
            help="Number of executions that run at the same time. Default: FUNCTORY_WORKER_SLOTS.",
            show_default=False,
        ),
    ] = None,
    migrate: Migrate = False,
) -> int:
    """Run executions: as a Celery worker, or with the broker none:// by claiming them from the database."""
    from functory.engine.database.connection import Database
    from functory.engine.errors import Invalid
    from functory.roles import process
    from functory.workers.execution.executor import connections

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
    shutdown = process.RoleShutdown().install()
    with contextlib.ExitStack() as stack:
        metrics_url = stack.enter_context(process.serve_metrics(settings))
        # Closed again before the worker starts: a prefork child must not inherit a connection.
        database = Database.of(settings, pool_size=connections(settings.worker_slots))
        stack.callback(database.close)
        if not process.wait_for_schema(database, shutdown, upgrade=migrate):
            return 0
        database.close()

        def print_ready(slots: int, executor: Executor | None) -> None:
            process.report_ready(
                "worker",
                settings,
                # With prefork the executors are in the children, which Celery replaces.
                is_progressing=lambda: executor is None or executor.progressing,
                pool=pool.value,
                slots=slots,
                sandbox=executor.tier if executor is not None else None,
                metrics=metrics_url,
            )

        if shutdown.requested:
            return 0
        # The worker installs its own signal handlers when it starts; signals that came earlier are passed to it.
        from functory.triggers.trigger_knowledge import WorkerTriggerKnowledge

        if settings.brokerless:
            from functory.workers.processes.brokerless_worker import BrokerlessWorker

            return BrokerlessWorker(
                settings,
                lambda executor: print_ready(settings.worker_slots, executor),
                shutdown.read_earlier_signals,
                WorkerTriggerKnowledge,
            ).run()
        from functory.workers.app import make_app

        app = make_app(settings)
        app.know_triggers = WorkerTriggerKnowledge
        if pool is Pool.prefork and metrics_url is not None:
            from functory.engine.telemetry import metrics
            from functory.workers.processes.prefork_counts import PreforkCounts

            app.begin_child = stack.enter_context(PreforkCounts.open(metrics.registry)).begin_child
        program = app.Worker(
            pool=pool.value,
            concurrency=settings.worker_slots,
            loglevel=settings.log_level.upper(),
        )
        program.on_ready = lambda worker: print_ready(worker.slots, worker.app.executor)
        program.read_earlier_signals = shutdown.read_earlier_signals
        program.start()
        return program.exitcode or 0

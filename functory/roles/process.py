"""A role as a process: settings, logs, schema, metrics port, ready line, graceful shutdown.

The commands in :mod:`functory.cli.commands` use these steps in the same order: :func:`configure`, the work,
:func:`report_ready` once it can work, then :meth:`RoleShutdown.wait`. An unavailable database is logged once and
waited for: a supervisor would only restart a role that ended. An unavailable broker is logged and not waited for:
events are routed and executions are claimed without it.
"""

from __future__ import annotations

import contextlib
import faulthandler
import functools
import gc
import os
import select
import signal
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import structlog
from prometheus_client import disable_created_metrics

from functory._version import __version__
from functory.engine import private_files, role_state, thread_switches
from functory.engine.backoff import HALF, Backoff
from functory.engine.database import migrations, postgres_server
from functory.engine.database.connection import Database
from functory.engine.errors import Conflict, FunctoryError, Invalid, Unavailable
from functory.engine.events import broker_server
from functory.engine.http_addresses import http_url
from functory.engine.maintenance import trace_export
from functory.engine.maintenance.pool_gauges import PoolGauges
from functory.engine.maintenance.state_metrics import StateMetrics
from functory.engine.serialization.json_codec import dumps
from functory.engine.settings import Settings, load_settings
from functory.engine.telemetry import exposition, log_config, metrics
from functory.engine.telemetry.registry import ROLES
from functory.roles.service_loop import FIRST_RETRY_PAUSE, MAX_RETRY_PAUSE, ServiceLoop, stop_loops

if TYPE_CHECKING:
    from functory.roles.services import Role

log = structlog.get_logger("functory.role")


# Connections to PostgreSQL that a process of each role keeps. Two of them are for wake-ups.
CONNECTIONS: Mapping[str, int] = {"router": 6, "scheduler": 5, "watcher": 5, "gateway": 5}
# The progress of loops is watched this often, in seconds.
WATCH_SECONDS = 1.0
# How long a reading of the state gauges may still take at the end.
STATE_STOP_SECONDS = 5.0


class RoleShutdown:
    """Shutdown by signal: :meth:`wait` returns at the first SIGTERM or SIGINT, a second one ends the process at once.

    An abrupt end loses nothing: claims and batches are transactions, and leases and redispatch recover the work.
    """

    def __init__(self) -> None:
        self.requested = False
        # Why this process ends without a signal; None while it need not.
        self.failure: FunctoryError | None = None
        # Called at the first signal, in the main thread.
        self.on_request: Callable[[], None] = lambda: None
        # The interpreter's C code writes to it: the kernel may deliver a signal to any thread, and Python runs handlers
        # in the main thread only after its wait returns.
        self._read_fd, self._write_fd = os.pipe()
        os.set_blocking(self._write_fd, False)

    def install(self) -> RoleShutdown:
        """Install the signal handlers. Main thread only."""
        signal.set_wakeup_fd(self._write_fd, warn_on_full_buffer=False)
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._on_signal)
        return self

    def fail(self, error: FunctoryError) -> None:
        """End this process because of ``error``, as a signal would: :meth:`wait` returns."""
        if self.failure is None:
            self.failure = error
            with contextlib.suppress(BlockingIOError):
                os.write(self._write_fd, b"\0")

    def wait(self, timeout: float | None = None) -> bool:
        """Wait for a signal or :meth:`fail`, at most ``timeout`` seconds. True when one of them came."""
        return bool(select.select([self._read_fd], [], [], timeout)[0])

    def read_earlier_signals(self) -> bytes:
        """Numbers of the signals that arrived before another handler took over."""
        return os.read(self._read_fd, 64) if self.wait(0) else b""

    def _on_signal(self, number: int, _frame: Any) -> None:
        if self.requested:
            os._exit(128 + number)
        self.requested = True
        self.on_request()


def configure(role: str, *, embedded: bool = False, settings: Settings | None = None) -> Settings:
    """Read the settings, unless they are given, and set up logs and build information. Raises :class:`Invalid`.

    A role in a process of its own needs a broker that processes share. ``embedded``: this process can run all roles, or
    needs no broker.
    """
    settings = settings or load_settings()
    log_config.configure(settings.log_level, as_json=settings.log_json)
    # SIGUSR1 prints the stack of every thread to stderr: the only thing that a hanging process still answers.
    faulthandler.register(signal.SIGUSR1)
    if settings.embedded and not embedded:
        raise Invalid(
            f"the {role} cannot run by itself with the in-memory broker",
            "messages in memory do not reach another process",
            "functory dev runs all roles in one process; or set FUNCTORY_BROKER_URL to amqp://… or redis://…",
        )
    thread_switches.shorten()
    private_files.restrict_umask()
    private_files.mend(settings)
    # Not when functory.engine.telemetry.metrics is imported: a program that embeds Functory may want these series.
    disable_created_metrics()
    metrics.set_process(role, __version__, ROLES if settings.embedded or role not in ROLES else (role,))
    _show_pools()
    metrics.restrict_names(settings.metrics_name_labels, settings.metrics_pinned_names)
    return settings


@functools.cache
def _show_pools() -> None:
    metrics.registry.register(PoolGauges())


def wait_for_schema(database: Database, shutdown: RoleShutdown, *, upgrade: bool) -> bool:
    """Wait for the database and all connections of its pool, and check or upgrade its schema.

    False after a shutdown signal. Raises :class:`Conflict` for another schema.
    """
    # Spread, because all processes wait for the same database.
    backoff, logged = Backoff(FIRST_RETRY_PAUSE, MAX_RETRY_PAUSE, spread=HALF), False
    # A signal ends the wait for a database that is silent.
    shutdown.on_request = database.give_up
    while not shutdown.requested:
        try:
            database.ping()
            if upgrade:
                migrations.upgrade(database)
            migrations.check(database)
            database.reserve()
            found = postgres_server.problems(database)
        except Unavailable as error:
            if not logged:
                log.warning("database unavailable, retrying", what=error.what, why=error.why, hint=error.try_)
                role_state.report_waiting(f"waits for the database: {error.why}")
                logged = True
            shutdown.wait(backoff.failed())
        else:
            if logged:
                log.info("database available")
            for problem in found:
                log.warning(problem.what, why=problem.why, hint=problem.try_)
            shutdown.on_request = lambda: None
            return True
    return False


def warn_about_broker(settings: Settings) -> None:
    """Log that the broker is unavailable, until it returns workers claim by polling and events wait in the outbox; or
    that its server is not set as Functory needs it.
    """
    try:
        found = broker_server.problems(settings)
    except Unavailable as error:
        log.warning("broker unavailable", what=error.what, why=error.why, hint=error.try_)
        return
    for problem in found:
        log.warning(problem.what, why=problem.why, hint=problem.try_)


@contextlib.contextmanager
def serve_metrics(settings: Settings) -> Iterator[str | None]:
    """Serve /metrics, /healthz and /readyz on ``metrics_port`` inside the block. Yields the URL of the metrics, or None
    without the setting.
    """
    if settings.metrics_port is None:
        yield None
        return
    try:
        port, stop = exposition.serve(
            metrics.registry,
            settings.metrics_port,
            settings.metrics_host,
            {"/healthz": role_state.is_alive, "/readyz": role_state.is_ready},
        )
    except OSError as error:
        raise Conflict(
            f"port {settings.metrics_port} of {settings.metrics_host} cannot be used for metrics",
            error.strerror or str(error),
            "set FUNCTORY_METRICS_PORT to a free one, or to 0",
        ) from None
    try:
        yield f"{http_url(settings.metrics_host, port)}/metrics"
    finally:
        stop()


@contextlib.contextmanager
def show_state_metrics(database: Database, settings: Settings) -> Iterator[None]:
    """Show the gauges of stored state inside the block while no other process of the deployment does."""
    gauges = StateMetrics(database, settings)
    loop = ServiceLoop(gauges, database.wakeup)
    metrics.registry.register(gauges)
    loop.start()
    try:
        yield
    finally:
        metrics.registry.unregister(gauges)
        stop_loops([loop], STATE_STOP_SECONDS)


def report_ready(
    role: str, settings: Settings, *, is_progressing: Callable[[], bool] = lambda: True, **fields: Any
) -> None:
    """Print the ready line on stdout: the role and its connections, without passwords. Tell process supervisors.

    They see a role that hangs when ``is_progressing()`` is false.
    """
    connected = {
        "database": log_config.mask(settings.database).split("?")[0],
        "broker": log_config.mask(settings.broker).split("?")[0],
        "namespace": settings.namespace,
    }
    shown = connected | {name: value for name, value in fields.items() if value is not None}
    if settings.log_json:
        line = dumps({"event": "ready", "role": role, "version": __version__, **shown})
    else:
        line = f"functory {role} ready  " + " ".join(f"{name}={value}" for name, value in shown.items())
    # First, so that /readyz agrees with what the line says.
    role_state.report_ready(is_progressing)
    sys.stdout.write(line + "\n")
    sys.stdout.flush()
    freeze_start()


def freeze_start() -> None:
    """Exempt all that the start has made from garbage collection: modules, routes, and statements live as long as the
    process.

    Else each full collection looks at them. In a server that takes 0.1 to 0.4 s, in which no request is answered.
    """
    gc.collect()
    gc.freeze()


def run_services(
    role: Role,
    *others: Role,
    upgrade: bool,
    with_state_metrics: bool = False,
    settings: Settings | None = None,
) -> int:
    """Run the services of a role, and of ``others`` in the same process, until a signal asks it to end.

    Returns the exit status.

    ``with_state_metrics`` adds the gauges that are read from the database. The status is 1 when a service did not end
    within ``grace_seconds``.
    """
    from functory.roles.services import services

    # A gateway meets the others in the database alone.
    settings = configure(role, embedded=role == "gateway", settings=settings)
    metrics.registry.show_roles((role, *others))
    shutdown = RoleShutdown().install()
    # Each has its own: sessions of the router keep plans that would not suit the statements of others.
    roles: tuple[Role, ...] = (role, *others)
    databases: dict[Role, Database] = {
        one: Database.of(settings, pool_size=CONNECTIONS[one], by_keys=one == "router") for one in roles
    }
    loops: list[ServiceLoop] = []

    def give_up() -> None:
        for database in databases.values():
            database.give_up()

    with contextlib.ExitStack() as stack:
        for database in databases.values():
            stack.callback(database.close)
        metrics_url = stack.enter_context(serve_metrics(settings))
        if all(wait_for_schema(one, shutdown, upgrade=upgrade) for one in databases.values()):
            for one, database in databases.items():
                database.on_lost = shutdown.fail
                database.listen_for_wakeups()
                loops += [ServiceLoop(made, database.wakeup) for made in services(database, settings, one)]
            if with_state_metrics and metrics_url is not None:
                # Without a port nothing reads them, and another scheduler may have one.
                stack.enter_context(show_state_metrics(databases[roles[-1]], settings))
            stack.callback(trace_export.start(settings, databases[role], role))
            for loop in loops:
                loop.start()
            warn_about_broker(settings)
            report_ready(
                role,
                settings,
                is_progressing=lambda: all(loop.stall() is None for loop in loops),
                metrics=metrics_url,
            )
            wait_while_progressing(shutdown, loops)
        log.info("stopping", role=role, grace_seconds=settings.grace_seconds)
        role_state.report_stopping()
        ended = stop_loops(loops, settings.grace_seconds, give_up)
    return exit_status(shutdown, ended=ended)


def wait_while_progressing(shutdown: RoleShutdown, loops: Sequence[ServiceLoop]) -> None:
    """Wait until this process has to end: by a signal, or because one of its loops makes no progress."""
    while not shutdown.wait(WATCH_SECONDS):
        for loop in loops:
            if (stall := loop.stall()) is not None:
                metrics.service_stalls.labels(loop.service.name).inc()
                faulthandler.dump_traceback(all_threads=True)
                shutdown.fail(stall)
                break


def exit_status(shutdown: RoleShutdown, *, ended: bool) -> int:
    """Return the exit status of a role: that of its failure, which is logged; else 1 when something did not end within
    ``grace_seconds``.
    """
    if shutdown.failure is not None:
        error = shutdown.failure
        log.error("ended by itself", what=error.what, why=error.why, hint=error.try_)
        return error.code
    return 0 if ended else 1

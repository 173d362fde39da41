"""A role as a process: settings, logs, schema, metrics port, and an end in order.

``functory.cli.commands.roles`` composes these steps, each role in the same order: :func:`begin`, then whatever it
runs, then :func:`announce` once it can work, then :meth:`Ending.wait`. A database that is away is told once and waited
for: a role that ended instead would only be started again by its supervisor. A broker that is away is told, and not
waited for: events are routed and executions are claimed without it.
"""

from __future__ import annotations

import contextlib
import faulthandler
import os
import select
import signal
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import structlog
from prometheus_client import disable_created_metrics

from functory._version import __version__
from functory.engine.database import migrations
from functory.engine.database.connection import Database
from functory.engine.errors import Conflict, Invalid, Unavailable
from functory.engine.events import exchange
from functory.engine.maintenance.state_metrics import StateCollector
from functory.engine.serialization.json_codec import dumps
from functory.engine.settings import Settings, load_settings
from functory.engine.telemetry import log_config, metrics
from functory.roles.service_loop import MAX_RETRY_PAUSE, ServiceLoop

log = structlog.get_logger("functory.role")


class RoleShutdown:
    """The wish to end: :meth:`wait` hears the first SIGTERM or SIGINT, a second ends the process at once.

    Claims and batches are transactions, so a hard end loses nothing: leases and redispatch mend it.
    """

    def __init__(self) -> None:
        self.requested = False
        # Written below the interpreter: the kernel may give a signal to any thread, and handlers run in the main one
        # only when it comes back from where it waits.
        self._read_fd, self._write_fd = os.pipe()
        os.set_blocking(self._write_fd, False)

    def install(self) -> RoleShutdown:
        """Take over the signals; in the main thread only."""
        signal.set_wakeup_fd(self._write_fd, warn_on_full_buffer=False)
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._on_signal)
        return self

    def wait(self, timeout: float | None = None) -> bool:
        """Wait for the wish, at most ``timeout`` seconds. True when it was heard."""
        return bool(select.select([self._read_fd], [], [], timeout)[0])

    def read_earlier_signals(self) -> bytes:
        """The numbers of the signals that came while this one listened, for who has taken over from it."""
        return os.read(self._read_fd, 64) if self.wait(0) else b""

    def _on_signal(self, number: int, _frame: Any) -> None:
        if self.requested:
            os._exit(128 + number)
        self.requested = True


def configure(role: str, *, embedded: bool = False) -> Settings:
    """Read the settings and set up logs and build information. Raises :class:`Invalid`.

    A role that is a process of its own needs a broker that processes share; ``embedded`` says that this
    one brings all roles along.
    """
    settings = load_settings()
    log_config.configure(settings.log_level, as_json=settings.log_json)
    # Where every thread stands, on stderr: of a process that does nothing any more, nothing else can be asked.
    faulthandler.register(signal.SIGUSR1)
    if settings.embedded and not embedded:
        raise Invalid(
            f"the {role} cannot run by itself with the in-memory broker",
            "messages in memory do not reach another process",
            "functory dev runs all roles in one process; or set FUNCTORY_BROKER_URL to amqp://… or redis://…",
        )
    # Not at the import of functory.engine.telemetry.metrics: a program that embeds us may want these series of its own.
    disable_created_metrics()
    metrics.set_build_info(role, __version__)
    return settings


def retry_until_available(attempt: Callable[[], None], what: str, shutdown: RoleShutdown) -> bool:
    """Call ``attempt`` until it is not :class:`Unavailable`. False when the end was asked for meanwhile."""
    pause, told = 0.1, False
    while not shutdown.requested:
        try:
            attempt()
        except Unavailable as error:
            if not told:
                log.warning(f"waiting for the {what}", what=error.what, why=error.why, hint=error.try_)
                told = True
            shutdown.wait(pause)
            pause = min(MAX_RETRY_PAUSE, pause * 2)
        else:
            if told:
                log.info(f"the {what} is there")
            return True
    return False


def wait_for_schema(database: Database, shutdown: RoleShutdown, *, upgrade: bool) -> bool:
    """Wait for the database, then check its schema or bring it there. False when the end was asked for.

    Raises :class:`Conflict` for another schema.
    """

    def attempt() -> None:
        database.ping()
        if upgrade:
            migrations.upgrade(database)
        migrations.check(database)

    return retry_until_available(attempt, "database", shutdown)


def warn_if_broker_unavailable(settings: Settings) -> None:
    """Say so when the broker is away: until it is there, workers claim by polling and events wait to be published."""
    try:
        exchange.ping(settings)
    except Unavailable as error:
        log.warning("the broker is away", what=error.what, why=error.why, hint=error.try_)


@contextlib.contextmanager
def serve_metrics(settings: Settings) -> Iterator[str | None]:
    """Serve /metrics on ``metrics_port`` inside the block; gives its URL, None without the setting."""
    if settings.metrics_port is None:
        yield None
        return
    try:
        port, stop = metrics.serve(settings.metrics_port, settings.host)
    except OSError as error:
        raise Conflict(
            f"port {settings.metrics_port} of {settings.host} cannot be used for metrics",
            error.strerror or str(error),
            "set FUNCTORY_METRICS_PORT to a free one, or to 0",
        ) from None
    try:
        yield f"http://{settings.host}:{port}/metrics"
    finally:
        stop()


@contextlib.contextmanager
def expose_state_metrics(database: Database) -> Iterator[None]:
    """Offer the gauges that are asked from the database, for the processes that tell them for all."""
    collector = StateCollector(database)
    metrics.registry.register(collector)
    try:
        yield
    finally:
        metrics.registry.unregister(collector)


def print_ready_line(role: str, settings: Settings, **fields: Any) -> None:
    """Print the ready line on stdout: the role and what it is connected to, without any password."""
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
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def run_loops(
    role: str,
    make: Callable[[Database, Settings], Sequence[ServiceLoop]],
    *,
    upgrade: bool,
    with_state_metrics: bool = False,
) -> int:
    """Run a role that consists of loops until it is asked to end. Returns the exit status.

    ``tells_state``: also offer the gauges that are asked from the database. The status is 1 when a loop
    did not end within ``grace_seconds``.
    """
    settings = configure(role)
    ending = RoleShutdown().install()
    database = Database(settings.database)
    loops: list[ServiceLoop] = []
    with contextlib.ExitStack() as stack:
        stack.callback(database.close)
        address = stack.enter_context(serve_metrics(settings))
        if wait_for_schema(database, ending, upgrade=upgrade):
            database.listen_for_wakeups()
            if with_state_metrics:
                stack.enter_context(expose_state_metrics(database))
            loops += make(database, settings)
            for loop in loops:
                loop.start()
            warn_if_broker_unavailable(settings)
            print_ready_line(role, settings, metrics=address)
            ending.wait()
        log.info("stopping", role=role, grace_seconds=settings.grace_seconds)
        ended = stop_loops(loops, settings.grace_seconds)
    return 0 if ended else 1


def stop_loops(loops: Sequence[ServiceLoop], grace: float) -> bool:
    """Let every loop finish its round; False when one was not done after ``grace`` seconds."""
    for loop in loops:
        loop.stop()
    deadline = time.monotonic() + grace
    for loop in loops:
        loop.join(max(0.0, deadline - time.monotonic()))
    late = [loop.role for loop in loops if loop.is_alive()]
    if late:
        log.warning("did not end in time", loops=late)
    return not late

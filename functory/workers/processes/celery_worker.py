"""The Celery worker: Celery's own with an executor, structured logging, and a shutdown that loses nothing.

Both ``functory worker`` and ``celery -A functory.workers.app worker`` run this class. It differs from Celery's in:

- one :class:`Executor` a process: in this one for the threads and solo pools, in each child of a prefork pool (there
  with one slot), since two processes must not share database connections or zygotes;
- its own shutdown signals (``functory.workers.processes.shutdown_signals``). Celery's soft shutdown returns messages
  to the broker, which is useless here: a message is only a hint;
- it serves while the broker is unavailable: its executors claim by polling (``functory.workers.execution.poller``),
  and Celery connects when the broker answers;
- a watchdog (``functory.workers.processes.consumer_watchdog``) ends it when messages are sent and none arrives;
- Celery's banner and its warning about the superuser are left out: the latter is meant for pickled
  messages, and ours are JSON ids.
"""

from __future__ import annotations

import os
import signal
import threading
import warnings
from collections.abc import Callable
from typing import Any

import structlog
from celery import bootsteps, signals
from celery.apps.worker import Worker as BaseWorker
from celery.worker import state

from functory.engine.errors import FunctoryError
from functory.engine.telemetry import log_config
from functory.workers.app import Application
from functory.workers.processes.consumer_watchdog import Watchdog
from functory.workers.processes.shutdown_signals import EX_TEMPFAIL, HARD_SECONDS, ShutdownSignals
from functory.workers.sandbox.checks.startup import check_startup
from functory.workers.sandbox.runner import Runner

log = structlog.get_logger("functory.worker")

# Without an answer of the broker at the start, the worker serves without it after this time.
BROKER_WAIT_SECONDS = 3.0
# Celery's main thread checks for a shutdown this often, in seconds.
LOOK_SECONDS = 1.0
# Celery's messages between workers have no reader here. Its main thread sends heartbeats and retries each one for ever:
# while the broker was unavailable, a worker did not notice its shutdown.
DISABLED_FEATURES = {
    "without_gossip": True,
    "without_mingle": True,
    "without_heartbeat": True,
    "task_events": False,
}


class CeleryWorker(BaseWorker):
    """A worker process. ``on_ready`` is called once, when it can take work: with messages or without.

    ``read_earlier_signals`` as in :meth:`ShutdownSignals.install`.
    """

    app: Application
    on_ready: Callable[[CeleryWorker], None] = staticmethod(lambda _: None)
    read_earlier_signals: Callable[[], bytes] = staticmethod(lambda: b"")
    _startup_error: FunctoryError | None = None
    _tick: Any = None

    def __init__(self, app: Any = None, hostname: str | None = None, **options: Any) -> None:
        super().__init__(app, hostname, **options | DISABLED_FEATURES)

    def on_before_init(self, quiet: bool = True, **options: Any) -> None:
        self._shutdown_signals = ShutdownSignals(
            self.app.settings.grace_seconds, self._drain, self._close_executors
        )
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "You're running the worker with superuser")
            super().on_before_init(quiet=True, **options)

    def on_init_blueprint(self) -> None:
        # With a receiver of this signal Celery does not configure logging.
        signals.setup_logging.connect(self._configure_logging, weak=False)
        super().on_init_blueprint()
        self.app.steps["worker"].add(_BeforeConsumerStep)  # pyright: ignore[reportOptionalSubscript]

    def on_start(self) -> None:
        self._drain_pipe, self._stop_pipe = ParentDeathPipe(), ParentDeathPipe()
        super().on_start()
        if self._shutdown_signals.requested:
            raise SystemExit(0)
        self._ready_lock = threading.Lock()
        self._watchdog = Watchdog(self.app.settings, self._on_stall)
        signals.task_received.connect(self._on_message, weak=False)
        try:
            self._start_executors()
        except FunctoryError as refused:
            self._startup_error = refused
            # Celery reports every other exception as a defect, with a traceback.
            raise SystemExit(refused.code) from None

    def _start_executors(self) -> None:
        if self.is_prefork:
            # Checked once here, so that a missing feature ends the program and not each child again.
            with Runner.from_settings(self.app.settings) as runner:
                check_startup(self.app.settings, runner)
            signals.worker_process_init.connect(self._start_child, weak=False)
            signals.worker_process_shutdown.connect(self._stop_child, weak=False)
        else:
            executor = self.app.open_executor(self.slots, self._watchdog.add_missing_messages)
            executor.database.on_lost = self._shutdown_signals.shut_down_after

    def on_pool_ready(self) -> None:
        """Serve without messages if the broker stays away; Celery calls this before it connects."""
        self._watchdog.start()
        timer = threading.Timer(BROKER_WAIT_SECONDS, self._report_ready)
        timer.daemon = True
        timer.start()

    def on_consumer_ready(self, consumer: Any) -> None:
        signals.worker_ready.send(sender=consumer)
        if self._tick is not None:
            self._tick.cancel()
        # Without a timer the main thread sleeps until a message comes. A new connection may have cleared the timers.
        self._tick = consumer.timer.call_repeatedly(LOOK_SECONDS, lambda: None)
        self._watchdog.message_received()
        self._report_ready()

    def _report_ready(self) -> None:
        if self._ready_lock.acquire(blocking=False):
            log.info("worker ready", slots=self.slots, pool=self.pool_name)
            self.on_ready(self)

    def start(self) -> None:
        """Run until a signal ends it. Raises the ``FunctoryError`` of a failed start."""
        try:
            super().start()
        finally:
            self.app.close_executor()
            self._shutdown_signals.mark_finished()
        self.exitcode = self._shutdown_signals.status or self.exitcode
        if self._startup_error is not None:
            raise self._startup_error

    @property
    def pool_name(self) -> str:
        """The pool: threads, solo or prefork."""
        name = self.pool_cls.__module__.rsplit(".", 1)[-1]
        return {"thread": "threads"}.get(name, name)

    @property
    def is_prefork(self) -> bool:
        """True when child processes of the pool run the executions."""
        return self.pool_name == "prefork"

    @property
    def slots(self) -> int:
        """The number of executions at a time, over all its processes."""
        return 1 if self.pool_name == "solo" else int(self.concurrency or 1)

    def install_platform_tweaks(self, worker: Any) -> None:
        """Install the shutdown signals instead of Celery's handlers."""
        self._shutdown_signals.install(self.read_earlier_signals)

    def _drain(self, grace: float) -> None:
        (self._drain_pipe if grace else self._stop_pipe).signal_children()
        if self.app.executor is not None:
            self.app.executor.drain(grace)
        # Celery reads this between two messages, and between two attempts to connect.
        state.should_stop = self._shutdown_signals.status

    def _close_executors(self) -> None:
        if self.is_prefork:
            # The children release their executions, and Celery waits for them.
            self._shutdown_signals.wait_finished(HARD_SECONDS)
        self.app.close_executor()

    def _on_message(self, **_: Any) -> None:
        self._watchdog.message_received()

    def _on_stall(self) -> None:
        self._shutdown_signals.shut_down(EX_TEMPFAIL)

    def _start_child(self, **_: Any) -> None:
        self.app.begin_child()
        executor = self.app.open_executor(1, self._watchdog.add_missing_messages)
        grace = self.app.settings.grace_seconds
        self._drain_pipe.on_signal(lambda: executor.drain(grace))
        self._stop_pipe.on_signal(lambda: executor.drain(0.0))

        def drain(*_: Any) -> None:
            threading.Thread(
                target=executor.drain, args=(grace,), name="functory-signal", daemon=True
            ).start()

        # A supervisor may send its signal to the whole group of processes.
        signal.signal(signal.SIGTERM, drain)

    def _stop_child(self, **_: Any) -> None:
        self.app.close_executor()

    def _configure_logging(self, **_: Any) -> None:
        log_config.configure(self.app.settings.log_level, as_json=self.app.settings.log_json)


class _BeforeConsumerStep(bootsteps.StartStopStep):
    """A step between Celery's pool and its consumer, which waits for the broker."""

    requires = ("celery.worker.components:Pool",)

    def start(self, parent: Any) -> None:
        parent.on_pool_ready()


class ParentDeathPipe:
    """Signals every forked child once: when the parent calls :meth:`signal_children`, or when it dies.

    No process writes to the pipe: its end of file is the signal, and reaches any number of readers.
    """

    def __init__(self) -> None:
        self._read_end, self._write_end = os.pipe()
        self._lock = threading.Lock()
        self._signalled = False

    def signal_children(self) -> None:
        """Signal the children; a second call does nothing."""
        with self._lock:
            if not self._signalled:
                self._signalled = True
                os.close(self._write_end)

    def on_signal(self, call: Callable[[], None]) -> None:
        """In a child: run ``call`` on a thread when the parent signals or dies."""
        if not self._signalled:
            os.close(self._write_end)

        def listen() -> None:
            os.read(self._read_end, 1)
            call()

        threading.Thread(target=listen, name="functory-parent-death", daemon=True).start()

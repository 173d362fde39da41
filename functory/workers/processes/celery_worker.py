"""The worker program: Celery's, with an executor in it, our logging, and an end that loses nothing.

Both ``functory worker`` and ``celery -A functory.workers.app worker`` run this class. It differs from Celery's in:

- one :class:`Executor` a process: in this one for the threads and solo pools, in each child of a prefork
  pool (there with one slot), since two processes must not share database connections or zygotes;
- what signals ask of it (``workers.processes.shutdown_signals``). Celery's own soft shutdown puts messages
  back, which is of no use
  here: a message is only a hint;
- it serves while the broker is away: its executors claim by themselves what no message comes for
  (``functory.workers.execution.poller``), and Celery connects when the broker is there;
- a watchdog (``functory.workers.processes.consumer_watchdog``) ends it when messages are sent and it gets none;
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

# As long as the broker does not answer at the start, it is waited for this long before the worker serves without it.
BROKER_WAIT_SECONDS = 3.0
# How often Celery's main thread looks whether it is to end, in seconds.
LOOK_SECONDS = 1.0
# Celery's words between workers, which nobody here listens to. It sends heartbeats from its main thread and tries each
# one for ever: while the broker was away, a worker that was asked to end did not hear of it.
DISABLED_FEATURES = {
    "without_gossip": True,
    "without_mingle": True,
    "without_heartbeat": True,
    "task_events": False,
}


class CeleryWorker(BaseWorker):
    """A worker process. ``ready`` is called once, when it can take in work: by messages or without.

    ``heard`` as in :meth:`Orders.install`.
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
        # A receiver of this signal is how Celery learns that logging is not its business.
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
            # Anything else Celery would report as a defect, with a traceback.
            raise SystemExit(refused.code) from None

    def _start_executors(self) -> None:
        if self.is_prefork:
            # Once here, so that a machine that lacks something ends the program and not each child again.
            with Runner.from_settings(self.app.settings) as runner:
                check_startup(self.app.settings, runner)
            signals.worker_process_init.connect(self._start_child, weak=False)
            signals.worker_process_shutdown.connect(self._stop_child, weak=False)
        else:
            self.app.open_executor(self.slots, self._watchdog.add_missing_messages)

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
        # With no timer that is due, it would sleep until a message comes. Each new connection may have cleared them.
        self._tick = consumer.timer.call_repeatedly(LOOK_SECONDS, lambda: None)
        self._watchdog.message_received()
        self._report_ready()

    def _report_ready(self) -> None:
        if self._ready_lock.acquire(blocking=False):
            log.info("ready", slots=self.slots, pool=self.pool_name)
            self.on_ready(self)

    def start(self) -> None:
        """Run until a signal ends it. Raises the ``FunctoryError`` for which it could not begin."""
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
        """threads, solo or prefork."""
        name = self.pool_cls.__module__.rsplit(".", 1)[-1]
        return {"thread": "threads"}.get(name, name)

    @property
    def is_prefork(self) -> bool:
        """Whether executions are carried out in children of this process."""
        return self.pool_name == "prefork"

    @property
    def slots(self) -> int:
        """Executions at a time, of all its processes together."""
        return 1 if self.pool_name == "solo" else int(self.concurrency or 1)

    def install_platform_tweaks(self, worker: Any) -> None:
        """Our signal handlers instead of Celery's."""
        self._shutdown_signals.install(self.read_earlier_signals)

    def _drain(self, grace: float) -> None:
        (self._drain_pipe if grace else self._stop_pipe).signal_children()
        if self.app.executor is not None:
            self.app.executor.drain(grace)
        # Celery looks at this between two messages, and between two tries to reach the broker.
        state.should_stop = self._shutdown_signals.status

    def _close_executors(self) -> None:
        if self.is_prefork:
            # The children give back what they run, and Celery waits for them.
            self._shutdown_signals.wait_finished(HARD_SECONDS)
        self.app.close_executor()

    def _on_message(self, **_: Any) -> None:
        self._watchdog.message_received()

    def _on_stall(self) -> None:
        self._shutdown_signals.shut_down(EX_TEMPFAIL)

    def _start_child(self, **_: Any) -> None:
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
    """Stands between Celery's pool and its consumer, which waits for the broker."""

    requires = ("celery.worker.components:Pool",)

    def start(self, parent: Any) -> None:
        parent.on_pool_ready()


class ParentDeathPipe:
    """Rung once by a process, or by its death, and heard by every child that it has forked.

    It is a pipe that nobody writes into: its end of file is the sound, and reaches any number of readers.
    """

    def __init__(self) -> None:
        self._read_end, self._write_end = os.pipe()
        self._lock = threading.Lock()
        self._signalled = False

    def signal_children(self) -> None:
        """Ring; a second time is silent."""
        with self._lock:
            if not self._signalled:
                self._signalled = True
                os.close(self._write_end)

    def on_signal(self, call: Callable[[], None]) -> None:
        """In a child: call ``call`` on a thread of its own when the parent rings."""
        if not self._signalled:
            os.close(self._write_end)

        def listen() -> None:
            os.read(self._read_end, 1)
            call()

        threading.Thread(target=listen, name="functory-bell", daemon=True).start()

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
from celery.apps.worker import Worker as CeleryWorker
from celery.worker import state

from functory.engine.errors import FunctoryError
from functory.engine.telemetry import log_config
from functory.workers.app import Application
from functory.workers.processes.consumer_watchdog import Watchdog
from functory.workers.processes.shutdown_signals import AGAIN, HARD_SECONDS, Orders
from functory.workers.sandbox.checks.startup import start_gate
from functory.workers.sandbox.runner import Runner

log = structlog.get_logger("functory.worker")

# As long as the broker does not answer at the start, it is waited for this long before the worker serves without it.
PATIENCE_SECONDS = 3.0
# How often Celery's main thread looks whether it is to end, in seconds.
LOOK_SECONDS = 1.0
# Celery's words between workers, which nobody here listens to. It sends heartbeats from its main thread and tries each
# one for ever: while the broker was away, a worker that was asked to end did not hear of it.
SILENT = {"without_gossip": True, "without_mingle": True, "without_heartbeat": True, "task_events": False}


class Worker(CeleryWorker):
    """A worker process. ``ready`` is called once, when it can take in work: by messages or without.

    ``heard`` as in :meth:`Orders.install`.
    """

    app: Application
    ready: Callable[[Worker], None] = staticmethod(lambda _: None)
    heard: Callable[[], bytes] = staticmethod(lambda: b"")
    _refused: FunctoryError | None = None
    _tick: Any = None

    def __init__(self, app: Any = None, hostname: str | None = None, **options: Any) -> None:
        super().__init__(app, hostname, **options | SILENT)

    def on_before_init(self, quiet: bool = True, **options: Any) -> None:
        self._orders = Orders(self.app.settings.grace_seconds, self._drain, self._leave)
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "You're running the worker with superuser")
            super().on_before_init(quiet=True, **options)

    def on_init_blueprint(self) -> None:
        # A receiver of this signal is how Celery learns that logging is not its business.
        signals.setup_logging.connect(self._configure_logging, weak=False)
        super().on_init_blueprint()
        self.app.steps["worker"].add(_Served)  # pyright: ignore[reportOptionalSubscript]

    def on_start(self) -> None:
        self._drained, self._stopped = Bell(), Bell()
        super().on_start()
        if self._orders.asked:
            raise SystemExit(0)
        self._told = threading.Lock()
        self._watchdog = Watchdog(self.app.settings, self._on_deaf)
        signals.task_received.connect(self._heard, weak=False)
        try:
            self._begin()
        except FunctoryError as refused:
            self._refused = refused
            # Anything else Celery would report as a defect, with a traceback.
            raise SystemExit(refused.code) from None

    def _begin(self) -> None:
        if self.forks:
            # Once here, so that a machine that lacks something ends the program and not each child again.
            with Runner.of(self.app.settings) as runner:
                start_gate(self.app.settings, runner)
            signals.worker_process_init.connect(self._begin_child, weak=False)
            signals.worker_process_shutdown.connect(self._end_child, weak=False)
        else:
            self.app.open_executor(self.slots, self._watchdog.unheard)

    def on_pool_ready(self) -> None:
        """Serve without messages if the broker stays away; Celery calls this before it connects."""
        self._watchdog.start()
        timer = threading.Timer(PATIENCE_SECONDS, self._tell)
        timer.daemon = True
        timer.start()

    def on_consumer_ready(self, consumer: Any) -> None:
        signals.worker_ready.send(sender=consumer)
        if self._tick is not None:
            self._tick.cancel()
        # With no timer that is due, it would sleep until a message comes. Each new connection may have cleared them.
        self._tick = consumer.timer.call_repeatedly(LOOK_SECONDS, lambda: None)
        self._watchdog.heard()
        self._tell()

    def _tell(self) -> None:
        if self._told.acquire(blocking=False):
            log.info("ready", slots=self.slots, pool=self.pool_name)
            self.ready(self)

    def start(self) -> None:
        """Run until a signal ends it. Raises the ``FunctoryError`` for which it could not begin."""
        try:
            super().start()
        finally:
            self.app.close_executor()
            self._orders.over()
        self.exitcode = self._orders.status or self.exitcode
        if self._refused is not None:
            raise self._refused

    @property
    def pool_name(self) -> str:
        """threads, solo or prefork."""
        name = self.pool_cls.__module__.rsplit(".", 1)[-1]
        return {"thread": "threads"}.get(name, name)

    @property
    def forks(self) -> bool:
        """Whether executions are carried out in children of this process."""
        return self.pool_name == "prefork"

    @property
    def slots(self) -> int:
        """Executions at a time, of all its processes together."""
        return 1 if self.pool_name == "solo" else int(self.concurrency or 1)

    def install_platform_tweaks(self, worker: Any) -> None:
        """Our signal handlers instead of Celery's."""
        self._orders.install(self.heard)

    def _drain(self, grace: float) -> None:
        (self._drained if grace else self._stopped).ring()
        if self.app.executor is not None:
            self.app.executor.drain(grace)
        # Celery looks at this between two messages, and between two tries to reach the broker.
        state.should_stop = self._orders.status

    def _leave(self) -> None:
        if self.forks:
            # The children give back what they run, and Celery waits for them.
            self._orders.wait_over(HARD_SECONDS)
        self.app.close_executor()

    def _heard(self, **_: Any) -> None:
        self._watchdog.heard()

    def _on_deaf(self) -> None:
        self._orders.end(AGAIN)

    def _begin_child(self, **_: Any) -> None:
        executor = self.app.open_executor(1, self._watchdog.unheard)
        grace = self.app.settings.grace_seconds
        self._drained.on_ring(lambda: executor.drain(grace))
        self._stopped.on_ring(lambda: executor.drain(0.0))

        def drain(*_: Any) -> None:
            threading.Thread(
                target=executor.drain, args=(grace,), name="functory-signal", daemon=True
            ).start()

        # A supervisor may send its signal to the whole group of processes.
        signal.signal(signal.SIGTERM, drain)

    def _end_child(self, **_: Any) -> None:
        self.app.close_executor()

    def _configure_logging(self, **_: Any) -> None:
        log_config.configure(self.app.settings.log_level, as_json=self.app.settings.log_json)


class _Served(bootsteps.StartStopStep):
    """Stands between Celery's pool and its consumer, which waits for the broker."""

    requires = ("celery.worker.components:Pool",)

    def start(self, parent: Any) -> None:
        parent.on_pool_ready()


class Bell:
    """Rung once by a process, or by its death, and heard by every child that it has forked.

    It is a pipe that nobody writes into: its end of file is the sound, and reaches any number of readers.
    """

    def __init__(self) -> None:
        self._hear, self._rope = os.pipe()
        self._lock = threading.Lock()
        self._rung = False

    def ring(self) -> None:
        """Ring; a second time is silent."""
        with self._lock:
            if not self._rung:
                self._rung = True
                os.close(self._rope)

    def on_ring(self, call: Callable[[], None]) -> None:
        """In a child: call ``call`` on a thread of its own when the parent rings."""
        if not self._rung:
            os.close(self._rope)

        def listen() -> None:
            os.read(self._hear, 1)
            call()

        threading.Thread(target=listen, name="functory-bell", daemon=True).start()

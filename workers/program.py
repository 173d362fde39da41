"""The worker program: Celery's, with an executor in it, our logging, and an end that loses nothing.

Both ``functory worker`` and ``celery -A workers.app worker`` run this class. It differs from Celery's in:

- one :class:`Executor` a process: in this one for the threads and solo pools, in each child of a prefork
  pool (there with one slot), since two processes must not share database connections or zygotes;
- the first SIGTERM or SIGINT takes nothing new, lets executions end for ``grace_seconds``, then kills
  them and gives them back, not counted as attempts; a further signal or SIGQUIT gives them back at once.
  Either way the program ends by itself with 0. Celery's own soft shutdown puts messages back, which is of
  no use here: a message is only a hint;
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
from celery import signals
from celery.apps.worker import Worker as CeleryWorker
from celery.worker import state

from engine import logs
from engine.errors import FunctoryError
from workers.app import Application
from workers.sandbox.admission import start_gate
from workers.sandbox.runner import Runner

log = structlog.get_logger("functory.worker")

# So many signals mean: whatever is going on in there, end.
LAST_SIGNAL = 3


class Worker(CeleryWorker):
    """A worker process; ``ready_callback`` (of Celery's) is called when it consumes."""

    app: Application
    _refused: FunctoryError | None = None

    def on_before_init(self, quiet: bool = True, **options: Any) -> None:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "You're running the worker with superuser")
            super().on_before_init(quiet=True, **options)

    def on_init_blueprint(self) -> None:
        # A receiver of this signal is how Celery learns that logging is not its business.
        signals.setup_logging.connect(self._configure_logging, weak=False)
        super().on_init_blueprint()

    def on_start(self) -> None:
        super().on_start()
        self._asked = 0
        self._drained, self._stopped = Bell(), Bell()
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
            self.app.open_executor(self.slots)

    def on_consumer_ready(self, consumer: Any) -> None:
        signals.worker_ready.send(sender=consumer)
        log.info("ready", slots=self.slots, pool=self.pool_name)

    def start(self) -> None:
        """Run until a signal ends it. Raises the ``FunctoryError`` for which it could not begin."""
        try:
            super().start()
        finally:
            self.app.close_executor()
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
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGQUIT):
            signal.signal(number, self._on_signal)

    def _on_signal(self, number: int, _frame: Any) -> None:
        self._asked += 1
        if self._asked >= LAST_SIGNAL:
            os._exit(1)
        at_once = self._asked > 1 or number == signal.SIGQUIT
        # The interrupted code may hold any lock, so everything else is done by a thread.
        threading.Thread(target=self._drain, args=(at_once,), name="functory-signal", daemon=True).start()
        state.should_stop = 0

    def _drain(self, at_once: bool) -> None:
        grace = 0.0 if at_once else self.app.settings.grace_seconds
        log.info("stopping", grace_seconds=grace)
        (self._stopped if at_once else self._drained).ring()
        if self.app.executor is not None:
            self.app.executor.drain(grace)

    def _begin_child(self, **_: Any) -> None:
        executor = self.app.open_executor(1)
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
        logs.configure(self.app.settings.log_level, as_json=self.app.settings.log_json)


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

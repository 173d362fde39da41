"""The brokerless worker: an executor that claims from the database, woken by its notifications.

It has the signals, slots and exit statuses of the Celery worker (``functory.workers.processes.celery_worker``), and no
messages.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from functory.engine.settings import Settings
from functory.workers.execution.executor import Executor, KnowTriggers
from functory.workers.processes.shutdown_signals import ShutdownSignals


class BrokerlessWorker:
    """A worker process. ``read_earlier_signals`` as in :meth:`ShutdownSignals.install`."""

    def __init__(
        self,
        settings: Settings,
        on_ready: Callable[[Executor], None],
        read_earlier_signals: Callable[[], bytes] = bytes,
        know_triggers: KnowTriggers | None = None,
    ) -> None:
        self._settings = settings
        self._on_ready = on_ready
        self._read_earlier_signals = read_earlier_signals
        self._know_triggers = know_triggers
        self._drained = threading.Event()
        self._closing = threading.Lock()
        self._executor: Executor | None = None

    def run(self) -> int:
        """Run until a signal ends it. Returns the exit status. Raises the :class:`FunctoryError` of a failed start."""
        shutdown = ShutdownSignals(self._settings.grace_seconds, self._drain, self._close).install(
            self._read_earlier_signals
        )
        try:
            self._executor = Executor.open(self._settings, know_triggers=self._know_triggers)
            self._executor.database.on_lost = shutdown.shut_down_after
            self._executor.start()
            self._on_ready(self._executor)
            self._drained.wait()
        finally:
            self._close()
            shutdown.mark_finished()
        return shutdown.status

    def _drain(self, grace: float) -> None:
        # A second signal may close the executor meanwhile.
        executor = self._executor
        if executor is not None:
            executor.drain(grace)
            until = time.monotonic() + grace
            while not executor.idle and time.monotonic() < until:
                time.sleep(0.02)
        self._drained.set()

    def _close(self) -> None:
        with self._closing:
            executor, self._executor = self._executor, None
            if executor is not None:
                executor.close()

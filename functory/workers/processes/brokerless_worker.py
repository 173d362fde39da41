"""A worker without a broker: an executor that claims from the database, woken by its notifications.

It has the signals, the slots and the ends of the Celery worker (``workers.processes.celery_worker``), and no messages.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from functory.engine.settings import Settings
from functory.workers.execution.executor import Executor
from functory.workers.processes.shutdown_signals import ShutdownSignals


class BrokerlessWorker:
    """A worker process; :meth:`run` returns its exit status. ``heard`` as in :meth:`Orders.install`."""

    def __init__(
        self,
        settings: Settings,
        on_ready: Callable[[Executor], None],
        read_earlier_signals: Callable[[], bytes] = bytes,
    ) -> None:
        self._settings = settings
        self._on_ready = on_ready
        self._read_earlier_signals = read_earlier_signals
        self._drained = threading.Event()
        self._closing = threading.Lock()
        self._executor: Executor | None = None

    def run(self) -> int:
        """Run until a signal ends it. Raises the :class:`FunctoryError` for which it could not begin."""
        orders = ShutdownSignals(self._settings.grace_seconds, self._drain, self._close).install(
            self._read_earlier_signals
        )
        try:
            self._executor = Executor.open(self._settings)
            self._executor.start()
            self._on_ready(self._executor)
            self._drained.wait()
        finally:
            self._close()
            orders.mark_finished()
        return orders.status

    def _drain(self, grace: float) -> None:
        # A second signal may close it meanwhile.
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

"""A Celery worker in a thread of this process, for the embedded mode.

It is the same worker, app and task as in production, over Celery's in-memory transport, with a
thread pool: the executions themselves run in child processes either way.
"""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

from celery import Celery

from engine.errors import Unavailable


class EmbeddedWorker:
    """Started and stopped with the process that embeds it."""

    def __init__(self, app: Celery, slots: int) -> None:
        self._app = app
        self._slots = slots
        self._thread: threading.Thread | None = None
        self._controller: object | None = None

    def start(self, timeout: float = 20.0) -> None:
        """Start and wait until it consumes. Raises :class:`Unavailable`."""
        from celery.concurrency.thread import TaskPool
        from celery.worker import WorkController

        ready = threading.Event()
        failed: list[BaseException] = []

        app = self._app

        class Pool(TaskPool):
            """Celery's tracer asks for the *current* app: in these threads it is ours, not a default one."""

            def __init__(self, *args: object, **options: object) -> None:
                super().__init__(*args, **options)
                self.executor = ThreadPoolExecutor(max_workers=self.limit, initializer=app.set_current)

        class Controller(WorkController):
            def on_consumer_ready(self, consumer: object) -> None:
                ready.set()

        controller = Controller(
            app=app, pool_cls=Pool, concurrency=self._slots, hostname=f"embedded@{id(self):x}", loglevel="ERROR",
            without_gossip=True, without_mingle=True, without_heartbeat=True, send_events=False,
        )

        def run() -> None:
            try:
                controller.start()
            except BaseException as error:
                failed.append(error)
                ready.set()

        self._controller = controller
        self._thread = threading.Thread(target=run, name="functory-worker", daemon=True)
        self._thread.start()
        in_time = ready.wait(timeout)
        if failed or not in_time:
            reason = repr(failed[0]) if failed else f"not ready after {timeout:g} s"
            raise Unavailable("the embedded worker did not start", reason)

    def stop(self) -> None:
        """Stop consuming, and end the thread."""
        controller, self._controller = self._controller, None
        if controller is not None:
            controller.stop()  # type: ignore[attr-defined]
        if self._thread is not None:
            self._thread.join(timeout=10)
            self._thread = None

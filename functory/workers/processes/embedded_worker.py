"""The embedded worker: a Celery worker in a thread of this process.

It has the same application and task as in production, over Celery's in-memory transport, with a thread pool; executions
run in child processes in both cases. Two parts of Celery are replaced: its consumer loop, which notices a shutdown only
after two seconds, and its thread pool, which keeps the interpreter from ending.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable
from functools import partial
from typing import Any

import structlog
from celery.bootsteps import RUN
from celery.concurrency.base import BasePool, apply_target
from celery.exceptions import WorkerShutdown
from celery.worker import WorkController
from celery.worker.consumer import Consumer

from functory.engine.errors import Unavailable
from functory.workers.app import Application

log = structlog.get_logger("functory.worker")

# One wait for messages, and so the longest delay of a shutdown, in seconds.
DRAIN_SECONDS = 0.05


class EmbeddedWorker:
    """Starts and stops with the process that embeds it; its task calls ``app.executor``."""

    def __init__(self, app: Application, slots: int) -> None:
        self._app = app
        self._slots = slots
        self._ending = threading.Event()
        self._thread: threading.Thread | None = None

    def start(self, timeout: float = 20.0) -> None:
        """Start and wait until it consumes. Raises :class:`Unavailable` after ``timeout`` seconds."""
        ready = threading.Event()
        failed: list[BaseException] = []
        controller = _Controller(
            app=self._app,
            pool_cls=_Pool,
            concurrency=self._slots,
            hostname=f"embedded@{id(self):x}",
            loglevel="ERROR",
            consumer_cls=_Consumer,
            without_gossip=True,
            without_mingle=True,
            without_heartbeat=True,
            send_events=False,
            ready_callback=lambda _: ready.set(),
            ending=self._ending,
        )

        def run() -> None:
            try:
                controller.start()
            except BaseException as error:
                failed.append(error)
            finally:
                ready.set()

        self._thread = threading.Thread(target=run, name="functory-worker", daemon=True)
        self._thread.start()
        in_time = ready.wait(timeout)
        if failed or not in_time:
            reason = repr(failed[0]) if failed else f"not ready after {timeout:g} s"
            raise Unavailable("the embedded worker did not start", reason)

    def stop(self) -> None:
        """Release running executions, stop consuming, and end the thread."""
        self._ending.set()
        self._app.close_executor()
        thread, self._thread = self._thread, None
        if thread is not None:
            thread.join(timeout=10)


class _Pool(BasePool):
    """A pool of daemon threads with the application as their current one.

    Celery's own pool is one of ``concurrent.futures``. The interpreter joins its threads before it runs exit handlers:
    a script would last until its longest execution has ended.
    """

    body_can_be_buffer = True
    signal_safe = False

    def on_start(self) -> None:
        self._work: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        self._threads = [
            threading.Thread(target=self._run, name=f"functory-slot-{n + 1}", daemon=True)
            for n in range(self.limit or 1)
        ]
        for thread in self._threads:
            thread.start()

    def on_stop(self) -> None:
        for _ in self._threads:
            self._work.put(None)
        for thread in self._threads:
            thread.join(timeout=5)

    def on_apply(
        self,
        target: Any,
        args: Any = None,
        kwargs: Any = None,
        callback: Any = None,
        accept_callback: Any = None,
        **_: Any,
    ) -> None:
        self._work.put(partial(apply_target, target, args, kwargs, callback, accept_callback))

    def _run(self) -> None:
        app: Any = self.app
        # Celery's tracer asks for the current application, which each thread has its own idea of.
        app.set_current()
        while (work := self._work.get()) is not None:
            try:
                work()
            except Exception:
                log.exception("message handling failed")


class _Controller(WorkController):
    def setup_instance(self, *args: Any, ending: threading.Event, **options: Any) -> None:
        self.ending = ending
        super().setup_instance(*args, **options)


class _Consumer(Consumer):
    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.loop = _consume


def _consume(
    consumer: Any, connection: Any, tasks: Any, blueprint: Any, _hub: Any, qos: Any, *_: Any, **__: Any
) -> None:
    """Celery's ``synloop`` for a transport that is always available, ended by an event instead of a signal."""
    tasks.on_message = consumer.create_task_handler()
    tasks.consume()
    consumer.on_ready()
    while blueprint.state == RUN:
        if consumer.controller.ending.is_set():
            # Raised in the worker's own thread, this stops the whole controller in order.
            raise WorkerShutdown(0)
        if qos.prev != qos.value:
            qos.update()
        consumer.perform_pending_operations()
        try:
            connection.drain_events(timeout=DRAIN_SECONDS)
        except TimeoutError:
            continue

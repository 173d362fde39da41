"""The Celery application: one task whose only argument is a list of execution ids.

Celery carries the hint and manages worker processes. Retries, schedules, states and results are rows, not Celery's.
``functory worker`` and ``celery -A functory.workers.app worker`` both start the worker of
``functory.workers.processes.celery_worker`` with this application; ``docs/reference/settings.md`` gives the reasons for
its options.
"""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Callable
from typing import Any

from celery import Celery
from kombu.entity import Queue
from kombu.utils.objects import cached_property

from functory.engine.events import memory_transport
from functory.engine.events.exchange import transport_options
from functory.engine.settings import Settings, load_settings
from functory.workers.execution.executor import Executor, KnowTriggers

TASK = "functory.execute"


class Application(Celery):
    """Celery with Functory's settings, its worker, and the executor of this process."""

    settings: Settings
    executor: Executor | None = None
    # Set by programs that know triggers. Without it, all events of the worker wait for a router.
    know_triggers: KnowTriggers | None = None
    # Called in each child of a prefork pool before it counts anything.
    begin_child: Callable[[], None] = staticmethod(lambda: None)
    _closing = threading.Lock()

    @cached_property
    def Worker(self) -> Any:
        """The worker class that ``celery worker`` starts."""
        return self.subclass_with_self("functory.workers.processes.celery_worker:CeleryWorker")

    def open_executor(
        self, slots: int, on_missing_messages: Callable[[int], None] = lambda _: None
    ) -> Executor:
        """Start the executor of this worker process, for ``slots`` executions at a time."""
        settings = self.settings.model_copy(update={"worker_slots": slots})
        self.executor = Executor.open(
            settings, on_missing_messages=on_missing_messages, know_triggers=self.know_triggers
        )
        self.executor.start()
        return self.executor

    def close_executor(self) -> None:
        """Release running executions and deregister the worker; does nothing without an executor."""
        # A second caller returns when the first one is done.
        with self._closing:
            executor, self.executor = self.executor, None
            if executor is not None:
                executor.close()


def make_app(settings: Settings) -> Application:
    """The application for these settings. Opens no connection."""
    # kombu warns about an address without a host, although this transport has none.
    broker = "memory://localhost/" if settings.embedded else settings.broker
    app = Application("functory", broker=broker, set_as_current=False)
    if settings.embedded:
        app.conf.broker_transport = memory_transport.TRANSPORT
    queue = queue_name(settings)
    app.conf.update(
        task_default_queue=queue,
        task_queues=[Queue(queue, durable=True, routing_key=queue)],
        task_default_exchange=queue,
        task_default_routing_key=queue,
        broker_transport_options=transport_options(settings.broker),
        # Recovery comes from leases in the database: a message is only a hint.
        task_acks_late=False,
        worker_prefetch_multiplier=1,
        task_ignore_result=True,
        result_backend=None,
        task_serializer="json",
        accept_content=["json"],
        broker_connection_retry_on_startup=True,
        broker_connection_max_retries=None,
        # A Redis without memory refuses writes. The worker waits for it, and claims by polling meanwhile.
        broker_channel_error_retry=True,
        task_publish_retry=False,
        worker_pool="threads",
        worker_concurrency=settings.worker_slots,
        # A loaded machine may take longer than Celery's four seconds to start a child with its zygote.
        worker_proc_alive_timeout=60.0,
        worker_cancel_long_running_tasks_on_connection_loss=False,
        # After a reconnect Celery requests fewer messages, then more from task to task. On RabbitMQ the main thread was
        # found waiting for such an answer for ever: it took no messages and did not shut down.
        worker_enable_prefetch_count_reduction=False,
        worker_hijack_root_logger=False,
        worker_redirect_stdouts=False,
        worker_send_task_events=False,
        worker_enable_remote_control=False,
        worker_max_tasks_per_child=None,
        task_store_errors_even_if_ignored=False,
        enable_utc=True,
    )
    app.settings = settings

    @app.task(name=TASK, bind=True, ignore_result=True, max_retries=0, shared=False)
    def execute(self: Any, ids: list[str]) -> None:
        executor = self.app.executor
        if executor is not None:
            executor.execute(ids)

    return app


def queue_name(settings: Settings) -> str:
    """The queue of execution ids. In embedded mode each database of the process has its own queue."""
    queue = f"{settings.namespace}.executions"
    if settings.embedded:
        queue += "." + hashlib.sha256(settings.database.encode()).hexdigest()[:12]
    return queue


def __getattr__(name: str) -> Any:
    """Build ``functory.workers.app:app`` when the ``celery`` command imports it."""
    if name == "app":
        app = make_app(load_settings())
        globals()["app"] = app
        return app
    raise AttributeError(name)

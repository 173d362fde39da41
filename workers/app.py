"""The Celery application: one task whose only argument is a list of execution ids.

Celery carries the hint and manages worker processes. It is not the retry, schedule, state or result
system: those are rows. ``functory worker`` and ``celery -A workers.app worker`` both start this.
"""

from __future__ import annotations

from typing import Any

from celery import Celery, signals
from kombu import Queue

from engine.broker import transport_options
from engine.settings import Settings, load_settings
from workers.executor import Executor

TASK = "functory.execute"


def make_app(settings: Settings) -> Celery:
    """A Celery app for these settings. The worker's ``executor`` is put on it when a worker starts."""
    app = Celery("functory", broker=settings.broker, set_as_current=False)
    queue = f"{settings.namespace}.executions"
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
        task_publish_retry=False,
        worker_cancel_long_running_tasks_on_connection_loss=False,
        worker_hijack_root_logger=False,
        worker_send_task_events=False,
        worker_enable_remote_control=False,
        worker_max_tasks_per_child=None,
        task_store_errors_even_if_ignored=False,
        enable_utc=True,
    )
    app.settings = settings  # type: ignore[attr-defined]
    app.executor = None  # type: ignore[attr-defined]

    @app.task(name=TASK, bind=True, ignore_result=True, max_retries=0, shared=False)
    def execute(self: Any, ids: list[str]) -> None:
        executor_of(self.app).execute(ids)

    return app


def executor_of(app: Celery) -> Executor:
    """The executor of this worker process, started at its first use."""
    executor = app.executor  # type: ignore[attr-defined]
    if executor is None:
        executor = Executor.open(app.settings)  # type: ignore[attr-defined]
        app.executor = executor  # type: ignore[attr-defined]
        executor.start()
    return executor


@signals.worker_ready.connect
def _started(sender: Any = None, **_: Any) -> None:
    app = sender.app
    # A prefork parent runs nothing itself: its children start theirs after the fork.
    if getattr(app, "settings", None) is not None and not _is_prefork(sender):
        executor_of(app)


@signals.worker_process_init.connect
def _forked(sender: Any = None, **_: Any) -> None:
    if _module_app is not None:
        _module_app.executor = None  # type: ignore[attr-defined]
        executor_of(_module_app)


@signals.worker_process_shutdown.connect
def _child_ends(**_: Any) -> None:
    _close(_module_app)


@signals.worker_shutting_down.connect
def _ending(sender: Any = None, **_: Any) -> None:
    for app in list(_running):
        executor = app.executor  # type: ignore[attr-defined]
        if executor is not None:
            executor.drain()


@signals.worker_init.connect
def _initialised(sender: Any = None, **_: Any) -> None:
    global _module_app
    app = sender.app
    if getattr(app, "settings", None) is not None:
        _running.add(app)
        _module_app = app


@signals.worker_shutdown.connect
def _ended(sender: Any = None, **_: Any) -> None:
    app = sender.app
    _running.discard(app)
    _close(app)


def _close(app: Celery | None) -> None:
    executor = getattr(app, "executor", None)
    if app is not None and executor is not None:
        app.executor = None  # type: ignore[attr-defined]
        executor.close()


def _is_prefork(worker: Any) -> bool:
    return "prefork" in str(getattr(getattr(worker, "pool_cls", None), "__module__", ""))


# Celery's signals name the worker, not the app; these say whose worker runs in this process.
_running: set[Celery] = set()
_module_app: Celery | None = None


def __getattr__(name: str) -> Any:
    """``workers.app:app``, made when the ``celery`` command asks for it."""
    if name == "app":
        app = make_app(load_settings())
        globals()["app"] = app
        return app
    raise AttributeError(name)

"""The dispatcher: sends queued executions to the workers, and sends unclaimed ones again.

Only the dispatcher uses Celery's producer: all other code that creates an execution only writes its row.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NoReturn

from celery import Celery

from functory.engine.database.connection import Database
from functory.engine.events import exchange
from functory.engine.executions import dispatch
from functory.engine.executions.dispatch_window import DispatchWindow
from functory.engine.service import Service
from functory.engine.settings import Settings
from functory.engine.telemetry import metrics
from functory.workers.app import TASK, make_app


class Dispatcher(Service):
    """Sends batches. Any number of dispatchers may run; one is not shared between threads."""

    name, topic = "dispatcher", "executions"

    def __init__(self, database: Database, settings: Settings, app: Celery | None = None) -> None:
        self.poll_seconds = settings.poll_seconds
        self._database = database
        self._settings = settings
        self._app = app or make_app(settings)
        self._connection: Any = None
        self._producer: Any = None
        self._failed = False
        self._window = DispatchWindow()

    def run_once(self) -> bool:
        """Send one batch. Always False: an execution that no worker has room for waits for :meth:`next_due`."""
        self.dispatch_batch()
        return False

    def dispatch_batch(self) -> int:
        """Send due executions. Returns their number. Raises :class:`~functory.engine.errors.Unavailable` without a
        broker or database.
        """
        if self._failed:
            # Before it takes rows: while the broker is unavailable, they stay as they are for workers that poll.
            self._open()
        sent = dispatch.dispatch(
            self._database,
            self._send,
            redispatch=self._settings.redispatch_seconds,
            worker_ttl=self._settings.lease_seconds,
            window=self._window,
        )
        metrics.dispatched.inc(sent)
        return sent

    def next_due(self) -> float | None:
        """Seconds until a retry or delayed execution is due, or a full dispatch window may have room."""
        return self._window.seconds_until_next_round(self._database.clock.now())

    def close(self) -> None:
        """Close the connection to the broker."""
        connection, self._connection, self._producer = self._connection, None, None
        if connection is not None:
            try:
                connection.release()
            except Exception:  # noqa: S110  (the connection is discarded because it is broken)
                pass

    def _send(self, ids: Sequence[str]) -> None:
        size = message_size(len(ids), self._settings.worker_slots, self._settings.message_size)
        self._open()
        try:
            for start in range(0, len(ids), size):
                self._app.send_task(
                    TASK,
                    args=[list(ids[start : start + size])],
                    producer=self._producer,
                    ignore_result=True,
                    retry=False,
                )
        except Exception as error:
            self._fail(error)

    def _open(self) -> None:
        try:
            if self._producer is None:
                self._connection = exchange.connect(self._app.conf.broker_url)
                self._producer = self._app.amqp.Producer(self._connection.channel(), auto_declare=True)
        except Exception as error:
            self._fail(error)
        self._failed = False

    def _fail(self, error: Exception) -> NoReturn:
        self.close()
        self._failed = True
        raise exchange.broker_unavailable(error) from error


def message_size(due: int, slots: int, most: int) -> int:
    """The number of ids in one message: one while slots are free, several under load."""
    return max(1, min(most, due // max(1, slots)))

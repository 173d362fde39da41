"""The dispatcher: sends queued executions to the workers, and sends unclaimed ones again.

Only the dispatcher uses Celery's producer: all other code that creates an execution only writes its row.
"""

from __future__ import annotations

import time
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

# A dispatcher that stands by looks this often (seconds) for executions that are due for that long and were not sent.
STANDBY_SECONDS = 5.0
STANDBY_OVERDUE_SECONDS = 1.0
# While it works it lets another dispatcher be first by this time (seconds).
STANDBY_DELAY_SECONDS = 0.02


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


class StandbyDispatcher(Service):
    """A second dispatcher, which works only while no other one does.

    It looks rarely whether an execution is due for a while and no dispatcher has sent it. If so it also follows the
    wake-up signals, always a little later than a first dispatcher would. It stops doing so when it has found nothing to
    send for :data:`STANDBY_SECONDS`.
    """

    name = "standby_dispatcher"

    def __init__(self, database: Database, settings: Settings, app: Celery | None = None) -> None:
        self._database = database
        self._dispatcher = Dispatcher(database, settings, app)
        self._active_until = 0.0
        self._set_active(False)

    def run_once(self) -> bool:
        """Send what no other dispatcher has sent. Always False, as the first dispatcher's."""
        if self.topic is not None:
            # Another one takes first what has just come.
            time.sleep(STANDBY_DELAY_SECONDS)
        elif not dispatch.is_any_due_since(self._database, STANDBY_OVERDUE_SECONDS):
            return False
        now = self._database.clock.monotonic()
        if self._dispatcher.dispatch_batch():
            self._active_until = now + STANDBY_SECONDS
        self._set_active(now < self._active_until)
        return False

    def next_due(self) -> float | None:
        """Seconds until the next round; the poll interval decides while this dispatcher only stands by."""
        return self._dispatcher.next_due() if self.topic is not None else None

    def close(self) -> None:
        """Close the connection to the broker."""
        self._dispatcher.close()

    def _set_active(self, active: bool) -> None:
        self.topic = "executions" if active else None
        self.poll_seconds = self._dispatcher.poll_seconds if active else STANDBY_SECONDS


def message_size(due: int, slots: int, most: int) -> int:
    """The number of ids in one message: one while slots are free, several under load."""
    return max(1, min(most, due // max(1, slots)))

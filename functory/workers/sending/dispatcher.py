"""The dispatcher: sends queued executions to the workers, and sends unclaimed ones again.

It does not see what the router sends itself (:mod:`functory.engine.executions.direct_dispatch`), unless no worker
claims it.
"""

from __future__ import annotations

import time

from functory.engine.database.connection import Database
from functory.engine.executions import dispatch
from functory.engine.executions.dispatch_window import DispatchWindow
from functory.engine.service import Service
from functory.engine.settings import Settings
from functory.workers.sending.sending import Sending
from functory.workers.sending.task_sender import TaskSender

# A dispatcher that stands by looks this often (seconds) for executions that are due for that long and were not sent.
STANDBY_SECONDS = 5.0
STANDBY_OVERDUE_SECONDS = 1.0
# While it works it lets another dispatcher be first by this time (seconds).
STANDBY_DELAY_SECONDS = 0.02


class Dispatcher(Service):
    """Sends batches. Any number of dispatchers may run; one is not shared between threads."""

    name, topic = "dispatcher", "executions"

    def __init__(self, database: Database, settings: Settings, sender: TaskSender | None = None) -> None:
        self.poll_seconds = settings.poll_seconds
        self.window = DispatchWindow()
        self._database = database
        self._settings = settings
        self._sender = sender or self._new_sender()
        self._sending = Sending(database, self.window, self._sender)

    def new_sending(self) -> Sending:
        """Return the sending of another thread of this process: with the same window, and a connection of its own."""
        return Sending(self._database, self.window, self._new_sender())

    def run_once(self) -> bool:
        """Send one batch. Always False: an execution that no worker has room for waits for :meth:`next_due`."""
        self.dispatch_batch()
        return False

    def dispatch_batch(self) -> int:
        """Send due executions. Returns their number. Raises :class:`~functory.engine.errors.Unavailable` without a
        broker or database.
        """
        if self._sender.failed:
            # Before it takes rows: while the broker is unavailable, they stay as they are for workers that poll.
            self._sender.open()
        return self._sending.send_due(
            redispatch=self._settings.redispatch_seconds, worker_ttl=self._settings.lease_seconds
        )

    def next_due(self) -> float | None:
        """Seconds until a retry or delayed execution is due, or a full dispatch window may have room."""
        return self.window.seconds_until_next_round(self._database.clock.now())

    def close(self) -> None:
        """Close the connection to the broker."""
        self._sending.close()

    def _new_sender(self) -> TaskSender:
        return TaskSender(self._settings, window=self.window)


class StandbyDispatcher(Service):
    """A second dispatcher, which works only while no other one does.

    It looks rarely whether an execution is due for a while and no dispatcher has sent it. If so it also follows the
    wake-up signals, always a little later than a first dispatcher would. It stops doing so when it has found nothing to
    send for :data:`STANDBY_SECONDS`.
    """

    name = "standby_dispatcher"

    def __init__(self, database: Database, settings: Settings) -> None:
        self._database = database
        self._dispatcher = Dispatcher(database, settings)
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

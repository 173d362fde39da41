"""The client's sender: a long-lived client sends the executions that it starts itself, from a thread of its own.

Otherwise an execution waits for a wake-up of the dispatcher and for its transaction: a third of the time of a lone
call. What the writer of a sent execution has to observe is in :mod:`functory.engine.executions.direct_dispatch`.

The caller never waits for the broker: executions are written as sent only while the connection is open, and a thread
sends them after the commit. When that fails they go to the backlog, and so does everything until there is a connection
again.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Sequence
from typing import TYPE_CHECKING

from functory.engine.backoff import HALF, Backoff
from functory.engine.database.connection import Database
from functory.engine.database.transaction import Tx
from functory.engine.executions import direct_dispatch
from functory.engine.executions.direct_dispatch import Room
from functory.engine.executions.dispatch_window import DispatchWindow
from functory.engine.settings import Settings
from functory.workers.sending.sending import give_back, log_failure

if TYPE_CHECKING:
    from functory.workers.sending.task_sender import TaskSender

# First and longest pause (seconds) between two tries to connect.
RETRY_SECONDS, MAX_RETRY_SECONDS = 1.0, 60.0
# At the end: how long (seconds) the last messages may take.
CLOSE_SECONDS = 3.0


class ClientSender:
    """Sends new executions. Many threads may use it, but not after a fork: ``pid`` is the process of its own thread."""

    def __init__(self, database: Database, settings: Settings) -> None:
        self.pid = os.getpid()
        self._database = database
        self._settings = settings
        self._window = DispatchWindow()
        self._changed = threading.Condition()
        self._committed: list[str] = []
        self._connected = False
        self._closed = False
        self._thread = threading.Thread(target=self._run, name="functory-send", daemon=True)
        self._thread.start()

    def room(self, tx: Tx) -> Room | None:
        """Ask for the room of a transaction, before its executions are written. None while there is no connection."""
        if not self._connected:
            return None
        return direct_dispatch.open_room(tx, self._window, self._add)

    def close(self) -> None:
        """Send what was committed, and stop; what cannot be sent in time goes to the backlog."""
        with self._changed:
            self._closed = True
            self._changed.notify()
        self._thread.join(CLOSE_SECONDS)
        self._give_back()

    def _add(self, ids: Sequence[str]) -> None:
        self._window.note_sent(len(ids))
        with self._changed:
            self._committed += ids
            self._changed.notify()

    def _run(self) -> None:
        # Here and not above: it loads Celery, which no caller has to wait for.
        from functory.workers.sending.task_sender import TaskSender

        sender = TaskSender(self._settings, window=self._window)
        # Spread, because all clients lose the same broker.
        backoff = Backoff(RETRY_SECONDS, MAX_RETRY_SECONDS, spread=HALF)
        while not self._closed:
            try:
                sender.open()
                backoff.succeeded()
                self._connected = True
                self._send_until_closed(sender)
            except Exception as error:
                self._connected = False
                self._give_back()
                log_failure(error)
            with self._changed:
                self._changed.wait_for(lambda: self._closed, backoff.failed())
            # A transaction that had asked for room before may have committed since.
            self._give_back()
        sender.close()

    def _send_until_closed(self, sender: TaskSender) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._committed or self._closed)
                ids = list(self._committed)
            if ids:
                sender.send(ids)
            with self._changed:
                del self._committed[: len(ids)]
                if self._closed and not self._committed:
                    return

    def _give_back(self) -> None:
        """Let the dispatcher send what was not sent. Some may have been: a second message finds nothing to claim."""
        with self._changed:
            ids, self._committed = self._committed, []
        if ids:
            give_back(self._database, ids)

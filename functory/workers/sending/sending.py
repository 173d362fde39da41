"""The sending of one thread: what is due, or what it has just committed, and what becomes of it when the broker fails.

No lock is held while the broker is asked. What could not be sent is due again at once: some of it may have been sent,
and the second message of an execution finds nothing to claim.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Sequence
from typing import Protocol

import structlog

from functory.engine.backoff import Backoff
from functory.engine.database.connection import Database
from functory.engine.database.transaction import Tx
from functory.engine.errors import Unavailable
from functory.engine.executions import direct_dispatch, dispatch
from functory.engine.executions.direct_dispatch import Room
from functory.engine.executions.dispatch_window import DispatchWindow
from functory.engine.telemetry import metrics

log = structlog.get_logger("functory.sending")

# First and longest time (seconds) after a failure in which nothing is sent directly: a silent broker holds up the
# writer for the whole wait for its answer.
PAUSE_SECONDS = 1.0
MAX_PAUSE_SECONDS = 30.0
# The most that one round of a dispatcher takes.
BATCH = 500


class SendsTasks(Protocol):
    """Sends messages to workers. One thread uses it."""

    def send(self, ids: Sequence[str]) -> None:
        """Send executions. Raises :class:`Unavailable`; then some may have been sent."""
        ...

    def close(self) -> None:
        """Close the connection to the broker."""
        ...


class Sending:
    """Sends with one connection to the broker. ``monotonic`` is the clock of its pauses, in seconds."""

    def __init__(
        self,
        database: Database,
        window: DispatchWindow,
        sender: SendsTasks,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._database = database
        self._window = window
        self._sender = sender
        self._monotonic = monotonic
        self._committed: list[str] = []
        self._backoff = Backoff(PAUSE_SECONDS, MAX_PAUSE_SECONDS)
        self._pause = 0.0
        self._failed_at = 0.0

    def send_due(self, *, redispatch: float, worker_ttl: float, limit: int = BATCH) -> int:
        """Send what is due (:func:`functory.engine.executions.dispatch.take_due`). Returns the number sent. Raises
        what the sender raises.
        """
        ids = dispatch.take_due(
            self._database, redispatch=redispatch, worker_ttl=worker_ttl, window=self._window, limit=limit
        )
        if ids:
            self._send(ids)
        return len(ids)

    def room(self, tx: Tx) -> Room | None:
        """Ask for the room of a transaction, before its executions are written. None while the broker fails.

        The question takes no round trip on PostgreSQL if another statement comes before the answer is needed.
        """
        if self._pause and self._monotonic() - self._failed_at < self._pause:
            return None
        return direct_dispatch.open_room(tx, self._window, self._note_committed)

    def send_committed(self) -> int:
        """Send what was committed since the last call. Returns the number sent. Call it outside of transactions.

        When the broker fails, the executions are due for the dispatcher.
        """
        ids, self._committed = self._committed, []
        if not ids:
            return 0
        try:
            self._send(ids)
        except Exception as error:
            self._failed_at = self._monotonic()
            self._pause = self._backoff.failed()
            log_failure(error)
            return 0
        self._pause = 0.0
        self._backoff.succeeded()
        return len(ids)

    def close(self) -> None:
        """Close the connection to the broker."""
        self._sender.close()

    def _send(self, ids: Sequence[str]) -> None:
        try:
            self._sender.send(ids)
        except Exception:
            give_back(self._database, ids)
            raise
        metrics.dispatched.inc(len(ids))

    def _note_committed(self, ids: Sequence[str]) -> None:
        self._window.note_sent(len(ids))
        self._committed += ids


def give_back(database: Database, ids: Sequence[str]) -> None:
    """Make executions due again that were written as sent and could not be sent. Without the database they are sent
    again when their messages count as lost.
    """
    with contextlib.suppress(Unavailable):
        dispatch.redispatch_now(database, ids)


def log_failure(error: Exception) -> None:
    """Log why executions could not be sent at once. An unavailable broker is reported by who watches it."""
    if isinstance(error, Unavailable):
        log.debug("the broker is unavailable, executions wait in the backlog", why=error.why)
    else:
        log.error("executions could not be sent, they wait in the backlog", exc_info=error)

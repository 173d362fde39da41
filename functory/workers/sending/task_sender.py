"""The task sender: sends executions to the workers, as Celery messages that carry only ids.

The dispatcher, the router and long-lived clients send with one each. All other code that creates an execution only
writes its rows.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NoReturn

from celery import Celery

from functory.engine.events import exchange
from functory.engine.events.publisher_confirms import PublisherConfirms
from functory.engine.executions.dispatch_window import DispatchWindow
from functory.engine.settings import Settings
from functory.workers.app import TASK, make_app

# Messages for each slot without work. A slot that has ended one finds the next; fewer ids a message than that would
# only cost more messages.
MESSAGES_PER_SLOT = 2


class TaskSender:
    """Sends over one connection to the broker, which it opens again after a failure. One thread uses it.

    ``failed``: the last attempt to reach the broker failed. ``window`` knows the workers' slots and the executions on
    the broker, which include those that are to be sent.
    """

    def __init__(
        self, settings: Settings, app: Celery | None = None, window: DispatchWindow | None = None
    ) -> None:
        self._settings = settings
        self._app = app or make_app(settings)
        self._window = window or DispatchWindow()
        self._connection: Any = None
        self._producer: Any = None
        # Of RabbitMQ.
        self._confirms: PublisherConfirms | None = None
        self.failed = False

    def send(self, ids: Sequence[str]) -> None:
        """Send executions. Raises :class:`~functory.engine.errors.Unavailable`; then some may have been sent."""
        slots = self._window.slots or self._settings.worker_slots
        waiting = max(0, self._window.unclaimed - len(ids))
        size = message_size(len(ids), slots, self._settings.message_size, waiting)
        self.open()
        confirms = self._confirms
        try:
            for start in range(0, len(ids), size):
                self._app.send_task(
                    TASK,
                    args=[list(ids[start : start + size])],
                    producer=self._producer,
                    ignore_result=True,
                    retry=False,
                )
                if confirms is not None:
                    confirms.add(1)
            if confirms is not None:
                # Workers have the messages by now. To wait for each one would take a disk sync of the broker each.
                confirms.wait()
        except Exception as error:
            self._fail(error)

    def open(self) -> None:
        """Connect to the broker. Raises :class:`~functory.engine.errors.Unavailable`."""
        try:
            if self._producer is None:
                self._connection = exchange.connect(self._app.conf.broker_url, confirm_each=False)
                channel: Any = self._connection.channel()
                if self._connection.transport.driver_type == "amqp":
                    self._confirms = PublisherConfirms(channel, exchange.PUBLISH_SECONDS)
                self._producer = self._app.amqp.Producer(channel, auto_declare=True)
        except Exception as error:
            self._fail(error)
        self.failed = False

    def close(self) -> None:
        """Close the connection to the broker."""
        connection, self._connection, self._producer = self._connection, None, None
        self._confirms = None
        if connection is not None:
            try:
                connection.release()
            except Exception:  # noqa: S110  (the connection is discarded because it is broken)
                pass

    def _fail(self, error: Exception) -> NoReturn:
        self.close()
        self.failed = True
        raise exchange.broker_unavailable(error) from error


def message_size(count: int, slots: int, most: int, waiting: int = 0) -> int:
    """Return how many of ``count`` ids one message has, at most ``most``.

    Every slot gets work. The more is ``waiting`` on the broker for each slot, the larger a message may be: no slot is
    free because of that, and executions of one message cost less.
    """
    slots = max(1, slots)
    return max(1, min(most, max(math.ceil(count / (MESSAGES_PER_SLOT * slots)), waiting // slots)))

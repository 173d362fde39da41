"""The in-memory transport of embedded deployments: kombu's own, whose consumers are woken by a message.

kombu's consumers of this transport sleep between two looks, so each message would wait for half of that time. And
kombu looks whether a queue, an exchange or a binding exists before it makes one: of two threads that declare the same
queue, the second replaces the first one's queue together with the messages in it.
"""

from __future__ import annotations

import threading
import time
from queue import Empty
from typing import Any

from kombu.transport import memory, virtual

# As Celery's setting broker_transport and kombu's parameter take it.
TRANSPORT = f"{__name__}:Transport"

_arrived = threading.Condition()
_count = 0
# Held while a queue, an exchange or a binding is looked for and made.
_declaring = threading.Lock()


class Channel(memory.Channel):
    """A channel that wakes consumers, for any number of threads that declare the same queues."""

    def exchange_declare(self, *args: Any, **options: Any) -> None:
        with _declaring:
            super().exchange_declare(*args, **options)

    def queue_bind(self, *args: Any, **options: Any) -> None:
        with _declaring:
            super().queue_bind(*args, **options)

    def close(self) -> None:
        # kombu's own walks through the queues of the process, and fails when another thread makes one meanwhile.
        virtual.Channel.close(self)

    def _new_queue(self, queue: str, **options: Any) -> None:
        with _declaring:
            super()._new_queue(queue, **options)

    def _queue_for(self, queue: str) -> Any:
        with _declaring:
            return super()._queue_for(queue)

    def _put(self, queue: str, message: Any, **options: Any) -> None:
        global _count
        super()._put(queue, message, **options)
        with _arrived:
            _count += 1
            _arrived.notify_all()


class Transport(memory.Transport):
    """kombu's transport with this channel; messages and queues are those of the process."""

    Channel = Channel

    def drain_events(self, connection: Any, timeout: float | None = None) -> None:
        """Deliver one message. Raises :class:`TimeoutError` after ``timeout`` seconds without one."""
        deadline = None if timeout is None else time.monotonic() + timeout
        cycle: Any = self.cycle
        while True:
            seen = _count
            try:
                cycle.get(self._deliver, timeout=timeout)
            except Empty:
                left = None if deadline is None else deadline - time.monotonic()
                if left is not None and left <= 0:
                    raise TimeoutError from None
                with _arrived:
                    _arrived.wait_for(lambda seen=seen: _count != seen, left)
            else:
                return

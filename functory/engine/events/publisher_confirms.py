"""Publisher confirms of AMQP 0-9-1: many messages on a channel, and one wait for the confirms of all of them.

https://www.rabbitmq.com/docs/confirms
"""

from __future__ import annotations

import contextlib
import time
from typing import Any


class PublisherConfirms:
    """The messages of an open channel that the broker has not confirmed. ``answer_seconds`` is the longest wait for the
    next confirm; ``sent`` counts all messages of the channel.
    """

    def __init__(self, channel: Any, answer_seconds: float) -> None:
        self._connection = channel.connection
        self._answer_seconds = answer_seconds
        self.sent = 0
        self._outstanding: set[int] = set()
        self._refused = 0
        channel.confirm_select()
        channel.events["basic_ack"].add(self._on_ack)
        channel.events["basic_nack"].add(self._on_nack)

    def add(self, count: int) -> None:
        """Note that ``count`` messages were published."""
        self._outstanding.update(range(self.sent + 1, self.sent + count + 1))
        self.sent += count

    def wait(self) -> None:
        """Wait until the broker has confirmed all messages. Raises an error of the driver, or
        :class:`ConnectionError`: it has refused one, or confirms nothing for ``answer_seconds``.
        """
        deadline, left = time.monotonic() + self._answer_seconds, len(self._outstanding)
        while self._outstanding:
            remaining = deadline - time.monotonic()
            if remaining <= 0:
                raise ConnectionError(f"the broker has not confirmed {left} of {self.sent} messages")
            # The bound of the loop is the deadline.
            with contextlib.suppress(TimeoutError):
                self._connection.drain_events(timeout=remaining)
            if len(self._outstanding) < left:
                deadline, left = time.monotonic() + self._answer_seconds, len(self._outstanding)
        if self._refused:
            refused, self._refused = self._refused, 0
            raise ConnectionError(f"the broker has refused {refused} messages")

    def _on_ack(self, tag: int, multiple: bool) -> None:
        self._settle(tag, multiple)

    def _on_nack(self, tag: int, multiple: bool) -> None:
        self._refused += self._settle(tag, multiple)

    def _settle(self, tag: int, multiple: bool) -> int:
        """Take one message, or all up to it, from the outstanding ones. Returns their number."""
        before = len(self._outstanding)
        if multiple:
            self._outstanding = {one for one in self._outstanding if one > tag}
        else:
            self._outstanding.discard(tag)
        return before - len(self._outstanding)

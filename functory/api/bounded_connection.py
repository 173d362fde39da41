"""Bounds on the connections of the HTTP server, which uvicorn itself does not set.

uvicorn waits for ever for the rest of a request's head: its one timeout, between two requests, ends with the first
byte. A client could hold any number of connections with half a head each. Here

- the head of a request must have come ``head_seconds`` after the connection was made or the last answer was sent;
- an answer that the client does not read is dropped after as long;
- with ``max_connections`` open, a new connection takes the place of the one that has waited longest without a request.
  Only when every connection has a request under way is the new one refused.

An answer without an end, such as the live stream, says so with :func:`allow_long_answer`: it gets a time of its own for
a client that does not read, and does not count among the connections.

The time for a body is bounded where it is read (:mod:`functory.api.request_body`).
"""

from __future__ import annotations

import asyncio
import functools
from collections.abc import MutableMapping
from dataclasses import dataclass
from typing import Any, cast

from uvicorn.protocols.http.h11_impl import H11Protocol

from functory.engine.settings import Settings
from functory.engine.telemetry import server_metrics

# Where a request finds its connection: the key in its scope (ASGI).
_SCOPE_KEY = "functory.connection"

_REFUSED = (
    b"HTTP/1.1 503 Service Unavailable\r\nretry-after: 1\r\nconnection: close\r\ncontent-length: 0\r\n\r\n"
)


@dataclass(frozen=True)
class ConnectionLimits:
    """What one server allows its clients: seconds for a head, and connections at the same time."""

    head_seconds: float = 10.0
    max_connections: int = 500

    @classmethod
    def of(cls, settings: Settings) -> ConnectionLimits:
        """Return the limits that the settings name."""
        return cls(settings.http_head_seconds, settings.http_connections)

    def protocol_factory(self) -> Any:
        """Return what uvicorn takes as ``http``: it makes the protocol of each connection of one server."""
        # Connections without a request, the longest wait first.
        waiting: dict[BoundedConnection, None] = {}
        long_answers: set[BoundedConnection] = set()
        return functools.partial(BoundedConnection, limits=self, waiting=waiting, long_answers=long_answers)


def allow_long_answer(scope: MutableMapping[str, Any], read_seconds: float) -> None:
    """Let the answer to the request with this scope go on without an end. The client is cut off when it takes nothing
    for ``read_seconds``.
    """
    connection = scope.get(_SCOPE_KEY)
    if connection is not None:
        connection.begin_long_answer(read_seconds)


class BoundedConnection(H11Protocol):
    """One connection. ``waiting`` and ``long_answers`` are shared by all connections of a server."""

    def __init__(
        self,
        *args: Any,
        limits: ConnectionLimits,
        waiting: dict[BoundedConnection, None],
        long_answers: set[BoundedConnection],
        **options: Any,
    ) -> None:
        super().__init__(*args, **options)
        self._limits = limits
        self._waiting = waiting
        self._long_answers = long_answers
        # How long the client may take to read.
        self._read_seconds = limits.head_seconds
        self._head_timer: asyncio.TimerHandle | None = None
        self._send_timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: Any) -> None:
        """Begin to wait for the first request; make room for it, or refuse it."""
        super().connection_made(transport)
        if len(self.connections) - len(self._long_answers) > self._limits.max_connections:
            oldest = next(iter(self._waiting), None)
            server_metrics.http_connections_cut.labels("full").inc()
            if oldest is None:
                transport.write(_REFUSED)
                transport.close()
                return
            oldest.cut()
        self._await_head()

    def data_received(self, data: bytes) -> None:
        """Take bytes. A whole head ends the wait."""
        super().data_received(data)
        if self._in_request():
            self._stop_waiting()
            cast("MutableMapping[str, Any]", self.cycle.scope)[_SCOPE_KEY] = self

    def begin_long_answer(self, read_seconds: float) -> None:
        """Let the answer to the request go on without an end (:func:`allow_long_answer`)."""
        if not self.transport.is_closing():
            self._long_answers.add(self)
            self._read_seconds = read_seconds

    def on_response_complete(self) -> None:
        """Wait for the next request, unless it has come already."""
        super().on_response_complete()
        self._end_long_answer()
        if not self._in_request() and not self.transport.is_closing():
            self._await_head()

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget the connection."""
        self._stop_waiting()
        self._stop_send_timer()
        self._end_long_answer()
        super().connection_lost(exc)

    def pause_writing(self) -> None:
        """The client does not read: give it some time."""
        super().pause_writing()
        if self._send_timer is None:
            self._send_timer = self.loop.call_later(self._read_seconds, self._expire)

    def resume_writing(self) -> None:
        """The client reads again."""
        super().resume_writing()
        self._stop_send_timer()

    def cut(self) -> None:
        """End the connection at once, whatever is in its buffers."""
        self._stop_waiting()
        self._end_long_answer()
        self.connections.discard(self)
        self.transport.abort()

    def _expire(self) -> None:
        server_metrics.http_connections_cut.labels("slow").inc()
        self.cut()

    def _await_head(self) -> None:
        self._stop_waiting()
        self._waiting[self] = None
        self._head_timer = self.loop.call_later(self._limits.head_seconds, self._expire)

    def _end_long_answer(self) -> None:
        self._long_answers.discard(self)
        self._read_seconds = self._limits.head_seconds

    def _stop_waiting(self) -> None:
        self._waiting.pop(self, None)
        if self._head_timer is not None:
            self._head_timer.cancel()
            self._head_timer = None

    def _stop_send_timer(self) -> None:
        if self._send_timer is not None:
            self._send_timer.cancel()
            self._send_timer = None

    def _in_request(self) -> bool:
        return self.cycle is not None and not self.cycle.response_complete

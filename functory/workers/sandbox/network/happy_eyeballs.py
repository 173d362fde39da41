"""Connecting to the first of several addresses that answers.

Addresses are tried in the order given. The next one starts when one fails, or a quarter of a second after the last
one started (RFC 8305 section 5), so that a dead address costs that and not the whole timeout.
"""

from __future__ import annotations

import errno
import ipaddress
import select
import socket
from collections.abc import Callable, Sequence

from functory.workers.sandbox.network.event_loop import EventLoop, Timer, nonblocking

ATTEMPT_SECONDS = 0.25  # RFC 8305 section 8, "Connection Attempt Delay"

Done = Callable[[socket.socket | None, int], None]
"""Called once, with a connected socket, or with None and the errno of the last attempt."""


class HappyEyeballs:
    """Lives in the reactor's thread. ``deadline`` is a time of its clock."""

    def __init__(
        self, event_loop: EventLoop, addresses: Sequence[str], port: int, deadline: float, on_connected: Done
    ) -> None:
        self._event_loop = event_loop
        self._addresses = list(reversed(addresses))
        self._port = port
        self._on_connected = on_connected
        self._open: list[socket.socket] = []
        self._finished = False
        self._error = errno.EHOSTUNREACH
        self._next: Timer | None = None
        self._deadline = event_loop.call_at(deadline, self._expired)
        self._start()

    def cancel(self) -> None:
        """Give up; ``done`` is not called any more."""
        self._finish(None)

    def _start(self) -> None:
        while self._addresses and not self._finished:
            if self._attempt(self._addresses.pop()):
                self._next = self._event_loop.call_at(
                    self._event_loop.monotonic() + ATTEMPT_SECONDS, self._start
                )
                return
        if not self._finished and not self._open:
            self._fail()

    def _attempt(self, address: str) -> bool:
        """Begin to connect; False when that failed at once."""
        family = socket.AF_INET6 if ipaddress.ip_address(address).version == 6 else socket.AF_INET
        try:
            attempt = nonblocking(family)
        except OSError as error:
            # The worker is out of descriptors, or has no IPv6.
            self._error = error.errno or errno.ENOBUFS
            return False
        number = attempt.connect_ex((address, self._port))
        if number not in (0, errno.EINPROGRESS):
            self._error = number
            attempt.close()
            return False
        self._open.append(attempt)
        self._event_loop.watch(attempt, select.EPOLLOUT, lambda _: self._ready(attempt))
        return True

    def _ready(self, attempt: socket.socket) -> None:
        number = attempt.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
        if number == 0:
            self._finish(attempt)
            self._on_connected(attempt, 0)
            return
        self._error = number
        self._open.remove(attempt)
        self._event_loop.discard(attempt)
        if self._next is not None:
            self._next.cancel()
        self._start()

    def _expired(self) -> None:
        self._error = errno.ETIMEDOUT
        self._fail()

    def _fail(self) -> None:
        self._finish(None)
        self._on_connected(None, self._error)

    def _finish(self, winner: socket.socket | None) -> None:
        """Let go of everything but ``winner``."""
        self._finished = True
        self._deadline.cancel()
        if self._next is not None:
            self._next.cancel()
        for attempt in self._open:
            if attempt is winner:
                self._event_loop.release(attempt)
            else:
                self._event_loop.discard(attempt)
        self._open = []

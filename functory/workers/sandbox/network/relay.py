"""Relays the bytes of one granted connection between the child's socket and the host's, both ways, in bounded memory.

The child holds one end of a local socket pair and never a network socket, so that nothing but bytes can
pass: no option, no second destination, no listening. The end of one direction is passed on (half-close,
RFC 9293 section 3.6), and a slow reader stops the other side by full buffers, as if they were connected directly.
"""

from __future__ import annotations

import asyncio
import contextlib
import select
import socket
from collections.abc import Callable

from functory.workers.sandbox.network.event_loop import EventLoopThread, readable, writable

BUFFER_BYTES = 65_536  # held here for each direction; the kernel's own socket buffers come on top
_FLUSH_ROUNDS = 64  # more than the buffer of a local socket holds


class ByteMeter:
    """Counts the bytes of one run; both directions count against ``limit``."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.sent = 0
        self.received = 0

    @property
    def remaining(self) -> int:
        return self.limit - self.sent - self.received


class Relay:
    """Relays bytes between two sockets of ``event_loop``; the caller closes them.

    ``on_exhausted`` is called when the limit of ``meter`` is passed.
    """

    def __init__(
        self,
        event_loop: EventLoopThread,
        child: socket.socket,
        host: socket.socket,
        meter: ByteMeter,
        on_exhausted: Callable[[], None],
    ) -> None:
        self._event_loop = event_loop
        self._child = child
        self._host = host
        self._meter = meter
        self._on_exhausted = on_exhausted
        self._unsent = memoryview(b"")  # from the child, not yet taken by the host

    async def run(self) -> None:
        """Return when both directions have ended, or either side has broken the connection."""
        outward = asyncio.create_task(self._copy(self._child, self._host))
        inward = asyncio.create_task(self._copy(self._host, self._child))
        copies = (outward, inward)
        try:
            await asyncio.wait(copies, return_when=asyncio.FIRST_COMPLETED)
            ended, source, other = (
                (outward, self._child, inward) if outward.done() else (inward, self._host, outward)
            )
            # A side whose both directions have ended takes nothing more.
            if ended.exception() is None and not other.done() and not _hung_up(source):
                self._event_loop.on_hangup(source, other.cancel)
                await asyncio.wait((other,))
        finally:
            if pending := [copy for copy in copies if copy.cancel()]:
                await asyncio.wait(pending)
        for copy in copies:
            error = None if copy.cancelled() else copy.exception()
            if error is not None and not isinstance(error, OSError):
                raise error

    def flush(self) -> None:
        """Send the host what the child sent before its end, as far as the host takes it at once."""
        with contextlib.suppress(OSError):
            for _ in range(_FLUSH_ROUNDS):
                if not self._unsent:
                    data = self._receive(self._child)
                    if not data:
                        return
                    self._unsent = memoryview(data)
                self._unsent = self._unsent[self._host.send(self._unsent) :]

    async def _copy(self, source: socket.socket, sink: socket.socket) -> None:
        """Copy until ``source`` ends or ``sink`` takes no more; OSError when ``source`` is broken."""
        while True:
            try:
                data = self._receive(source)
            except BlockingIOError:
                await readable(source)
                continue
            if not data:
                break
            try:
                await self._send(sink, data)
            except OSError:
                return
            # The other connections have their turn, also while both sides are always ready.
            await asyncio.sleep(0)
        if self._meter.remaining >= 0 and not _hung_up(source):
            with contextlib.suppress(OSError):
                sink.shutdown(socket.SHUT_WR)

    def _receive(self, source: socket.socket) -> bytes:
        """Read once, at most one byte beyond the limit; empty at the end, and when the limit is passed."""
        data = source.recv(min(BUFFER_BYTES, self._meter.remaining + 1))
        if source is self._child:
            self._meter.sent += len(data)
        else:
            self._meter.received += len(data)
        if self._meter.remaining < 0:
            self._on_exhausted()
            return b""
        return data

    async def _send(self, sink: socket.socket, data: bytes) -> None:
        unsent = memoryview(data)
        while unsent:
            try:
                unsent = unsent[sink.send(unsent) :]
            except BlockingIOError:
                if sink is self._host:
                    self._unsent = unsent
                await writable(sink)
        if sink is self._host:
            self._unsent = unsent


def _hung_up(sock: socket.socket) -> bool:
    """Return True if both directions of a connection have ended (POLLHUP, poll(2))."""
    poll = select.poll()
    poll.register(sock, 0)
    return bool(poll.poll(0))

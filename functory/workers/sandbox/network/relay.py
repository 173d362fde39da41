"""One granted connection: bytes between the child's socket and the host's, both ways, in bounded memory.

The child holds one end of a local socket pair and never a network socket, so that nothing but bytes can
pass: no option, no second destination, no listening. What one side ends, the other sees ended (half-close,
RFC 9293 section 3.6), and who reads slowly stops the other side by full buffers, as if there was nobody between.
"""

from __future__ import annotations

import contextlib
import select
import socket
from collections.abc import Callable

from functory.workers.sandbox.network.event_loop import EventLoop

BUFFER_BYTES = 65_536  # held here for each direction; the kernel's own socket buffers come on top
_FLUSH_ROUNDS = 64  # more than the buffer of a local socket holds
_UNWATCHED = -1


class ByteMeter:
    """The bytes of one run: both directions count against ``limit``."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.sent = 0
        self.received = 0

    @property
    def remaining(self) -> int:
        return self.limit - self.sent - self.received


class _Side:
    """One of the two sockets. ``pending`` waits to be written to it."""

    def __init__(self, sock: socket.socket) -> None:
        self.sock = sock
        self.pending = bytearray()
        self.eof = False  # it sends no more
        self.closed = False  # it reads no more
        self.shutdown_sent = False  # it knows that the other side sends no more
        self.mask = _UNWATCHED


class Relay:
    """Lives in the reactor's thread and owns both sockets.

    ``spent`` is called when the meter's limit is passed, ``closed`` when the connection is over.
    """

    def __init__(
        self,
        event_loop: EventLoop,
        child: socket.socket,
        host: socket.socket,
        meter: ByteMeter,
        on_exhausted: Callable[[], None],
        on_closed: Callable[[Relay], None],
    ) -> None:
        self._event_loop = event_loop
        self._child = _Side(child)
        self._host = _Side(host)
        self._meter = meter
        self._on_exhausted = on_exhausted
        self._on_closed = on_closed
        self._is_closed = False
        self._advance()

    def close(self) -> None:
        """End both sides now."""
        if not self._is_closed:
            self._is_closed = True
            self._event_loop.discard(self._child.sock)
            self._event_loop.discard(self._host.sock)
            self._on_closed(self)

    def flush(self) -> None:
        """Pass on what the child sent before it ended, as far as the host takes it at once."""
        for _ in range(_FLUSH_ROUNDS):
            if self._is_closed or not self._may_read(self._child, self._host):
                return
            if not self._move(self._child, self._host):
                return

    def _on(self, side: _Side, other: _Side, events: int) -> None:
        if events & (select.EPOLLHUP | select.EPOLLERR):
            side.closed = True
            side.pending.clear()
        if self._write(side) and self._may_read(side, other):
            self._move(side, other)
        self._advance()

    def _move(self, side: _Side, other: _Side) -> bool:
        """Read from ``side`` once and write to ``other``; whether there may be more."""
        try:
            data = side.sock.recv(min(BUFFER_BYTES, self._meter.remaining + 1))
        except (BlockingIOError, InterruptedError):
            return False
        except OSError:
            self.close()
            return False
        if not data:
            side.eof = True
            return False
        if side is self._child:
            self._meter.sent += len(data)
        else:
            self._meter.received += len(data)
        if self._meter.remaining < 0:
            self._on_exhausted()
            return False
        other.pending += data
        return self._write(other) and not other.pending

    def _write(self, side: _Side) -> bool:
        """Write what is pending, as far as it goes; False when the connection is over."""
        if self._is_closed:
            return False
        if side.pending:
            try:
                del side.pending[: side.sock.send(side.pending)]
            except (BlockingIOError, InterruptedError):
                return True
            except OSError:
                side.closed = True
                side.pending.clear()
        return True

    def _advance(self) -> None:
        """After each step: pass ends on, close what is over, and watch for what can happen next."""
        for side, other in ((self._child, self._host), (self._host, self._child)):
            if self._is_closed:
                return
            if other.eof and not side.pending and not side.shutdown_sent:
                side.shutdown_sent = True
                with contextlib.suppress(OSError):
                    side.sock.shutdown(socket.SHUT_WR)
            if side.closed and not self._may_read(side, other) and not other.pending:
                # It neither reads nor sends, and what it sent has been passed on.
                self.close()
        if self._child.shutdown_sent and self._host.shutdown_sent:
            self.close()
        if not self._is_closed:
            self._watch(self._child, self._host)
            self._watch(self._host, self._child)

    def _may_read(self, side: _Side, other: _Side) -> bool:
        return not (side.eof or other.closed or len(other.pending) >= BUFFER_BYTES)

    def _watch(self, side: _Side, other: _Side) -> None:
        mask = select.EPOLLIN if self._may_read(side, other) else 0
        if side.pending:
            mask |= select.EPOLLOUT
        if side.closed and not mask:
            # epoll would report a hang-up without end.
            mask = _UNWATCHED
        if mask == side.mask:
            return
        if mask == _UNWATCHED:
            self._event_loop.release(side.sock)
        elif side.mask == _UNWATCHED:
            self._event_loop.watch(side.sock, mask, lambda events: self._on(side, other, events))
        else:
            self._event_loop.change(side.sock, mask)
        side.mask = mask

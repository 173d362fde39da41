"""The thread that carries granted connections: one asyncio event loop.

The thread starts with the first ``submit``. After a fork, the copy has no thread: ``close_inherited`` closes what
it inherited, and a new ``EventLoopThread`` takes its place.
"""

from __future__ import annotations

import asyncio
import select
import selectors
import socket
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from typing import Any, TypeVar

_T = TypeVar("_T")

_inherited: list[Any] = []  # kept in a forked copy: a task that is garbage-collected would run on there


class _Loop(asyncio.SelectorEventLoop):
    def __init__(self, selector: selectors.BaseSelector, monotonic: Callable[[], float]) -> None:
        self._monotonic = monotonic
        super().__init__(selector)

    def time(self) -> float:
        return self._monotonic()


class EventLoopThread:
    """Runs an event loop in a thread of its own. ``monotonic`` is the loop's clock, in seconds."""

    def __init__(self, name: str, monotonic: Callable[[], float]) -> None:
        self._name = name
        self._monotonic = monotonic
        self._lock = threading.Lock()
        self._stopped = False
        self._thread: threading.Thread | None = None
        self._selector: selectors.BaseSelector | None = None
        self._loop: _Loop | None = None
        self._sockets: set[socket.socket] = set()
        self._hangups: select.epoll | None = None
        self._on_hangup: dict[int, Callable[[], Any]] = {}

    def submit(self, work: Callable[[], Coroutine[Any, Any, _T]]) -> Future[_T]:
        """Run a coroutine in the thread. RuntimeError when the event loop has stopped."""
        with self._lock:
            if self._stopped:
                raise RuntimeError("the event loop has stopped")
            return asyncio.run_coroutine_threadsafe(work(), self._loop or self._start())

    def stop(self) -> None:
        """End the thread once the coroutines that were submitted so far have ended."""
        with self._lock:
            if self._stopped:
                return
            self._stopped = True
            if self._loop is not None:
                self._loop.call_soon_threadsafe(self._loop.stop)
        if self._thread is not None:
            self._thread.join()

    def close_inherited(self) -> None:
        """In a forked copy: close our copies of all sockets. The original's thread keeps its own.

        Nothing is unregistered: the epoll instances are shared with the original.
        """
        self._stopped = True
        for sock in list(self._sockets):
            sock.close()
        if self._selector is None or self._hangups is None or (watched := self._selector.get_map()) is None:
            return
        _inherited.append((self, list(watched.values())))
        self._selector.close()
        self._hangups.close()
        # asyncio offers no way to close a loop whose thread is gone.
        for name in ("_ssock", "_csock"):
            getattr(self._loop, name).close()

    def track(self, sock: socket.socket) -> socket.socket:
        """Make a socket non-blocking, and let a forked copy close it."""
        sock.setblocking(False)
        self._sockets.add(sock)
        return sock

    def close(self, sock: socket.socket) -> None:
        self._sockets.discard(sock)
        if self._on_hangup.pop(sock.fileno(), None) is not None and self._hangups is not None:
            self._hangups.unregister(sock.fileno())
        sock.close()

    def on_hangup(self, sock: socket.socket, callback: Callable[[], Any]) -> None:
        """Call ``callback`` once both directions of a connection have ended (EPOLLHUP, epoll_ctl(2)).

        asyncio reports only that a socket is readable, and a half-closed one is always readable.
        """
        assert self._hangups is not None
        self._on_hangup[sock.fileno()] = callback
        self._hangups.register(sock.fileno(), 0)

    def _report_hangups(self) -> None:
        assert self._hangups is not None
        for fd, _ in self._hangups.poll(0):
            self._hangups.unregister(fd)
            self._on_hangup.pop(fd)()

    def _start(self) -> _Loop:
        self._selector, self._hangups = selectors.EpollSelector(), select.epoll()
        loop = self._loop = _Loop(self._selector, self._monotonic)
        loop.add_reader(self._hangups.fileno(), self._report_hangups)
        self._thread = threading.Thread(target=self._serve, args=(loop,), name=self._name, daemon=True)
        self._thread.start()
        return loop

    def _serve(self, loop: _Loop) -> None:
        try:
            loop.run_forever()
            if left := asyncio.all_tasks(loop):
                loop.run_until_complete(asyncio.wait(left))
        finally:
            for sock in list(self._sockets):
                self.close(sock)
            loop.close()
            if self._hangups is not None:
                self._hangups.close()


async def readable(sock: socket.socket) -> None:
    """Wait until ``sock`` has bytes to read, or has ended."""
    loop = asyncio.get_running_loop()
    await _ready(sock.fileno(), loop.add_reader, loop.remove_reader)


async def writable(sock: socket.socket) -> None:
    """Wait until ``sock`` has room to write."""
    loop = asyncio.get_running_loop()
    await _ready(sock.fileno(), loop.add_writer, loop.remove_writer)


async def _ready(fd: int, add: Callable[..., Any], remove: Callable[[int], Any]) -> None:
    ready = asyncio.get_running_loop().create_future()
    add(fd, _set_result, ready)
    try:
        await ready
    finally:
        remove(fd)


def _set_result(ready: asyncio.Future[None]) -> None:
    if not ready.done():
        ready.set_result(None)

"""One thread that waits for many descriptors: what the broker of granted hosts runs on.

Every callback runs in that thread and must not block; other threads come in through ``submit``. The thread
starts with the first ``submit``. After a fork, the copy has no thread: ``forsake`` closes what it inherited,
and a new reactor takes its place.
"""

from __future__ import annotations

import contextlib
import heapq
import os
import select
import socket
import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from itertools import count
from typing import Any, TypeVar

import structlog

from functory.workers.sandbox.protocol.control import EventFd

_log = structlog.get_logger(__name__)
_T = TypeVar("_T")

Handler = Callable[[int], None]
"""Called with the events of epoll(7) that are there."""


class Timer:
    """A callback at a time; ``cancel`` may come late or twice."""

    __slots__ = ("callback",)

    def __init__(self, callback: Callable[[], None]) -> None:
        self.callback: Callable[[], None] | None = callback

    def cancel(self) -> None:
        self.callback = None


class EventLoop:
    """``monotonic`` is the clock of timers, in seconds."""

    def __init__(self, name: str, monotonic: Callable[[], float]) -> None:
        self.monotonic = monotonic
        self._name = name
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._stopped = False
        self._actions: deque[tuple[Callable[[], Any], Future]] = deque()
        self._handlers: dict[int, tuple[socket.socket, Handler]] = {}
        self._closing: list[socket.socket] = []
        self._timers: list[tuple[float, int, Timer]] = []
        self._serial = count()
        self._epoll: select.epoll | None = None
        self._wake: EventFd | None = None

    def submit(self, action: Callable[[], _T]) -> Future[_T]:
        """Run ``action`` in the thread. RuntimeError when the reactor has stopped."""
        future: Future[_T] = Future()
        with self._lock:
            if self._stopped:
                raise RuntimeError("the reactor has stopped")
            if self._thread is None:
                self._epoll = select.epoll()
                self._wake = EventFd()
                self._epoll.register(self._wake.fileno(), select.EPOLLIN)
                self._thread = threading.Thread(target=self._serve, name=self._name, daemon=True)
                self._thread.start()
            self._actions.append((action, future))
            assert self._wake is not None
            self._wake.set()
        return future

    def call_soon(self, action: Callable[[], None]) -> None:
        """Like ``submit``, for who waits for nothing: forgotten when the reactor has stopped."""
        with contextlib.suppress(RuntimeError):
            self.submit(action)

    def stop(self) -> None:
        """End the thread after what was submitted so far, and close all that it watched."""
        with self._lock:
            if self._stopped:
                return
            self._stopped = True
            thread, wake = self._thread, self._wake
            if wake is not None:
                wake.set()
        if thread is not None:
            thread.join()

    def close_inherited(self) -> None:
        """In a forked copy: close our copies of all that is watched. The original's thread keeps its own.

        Nothing is unregistered: the epoll instance is shared with the original.
        """
        self._stopped = True
        for source, _ in list(self._handlers.values()):
            source.close()
        for source in self._closing:
            source.close()
        if self._epoll is not None:
            self._epoll.close()
        if self._wake is not None:
            os.close(self._wake.fileno())

    def watch(self, source: socket.socket, events: int, handler: Handler) -> None:
        """Call ``handler`` for ``events`` of ``source``; EPOLLHUP and EPOLLERR are always among them."""
        assert self._epoll is not None
        self._handlers[source.fileno()] = (source, handler)
        self._epoll.register(source.fileno(), events)

    def change(self, source: socket.socket, events: int) -> None:
        assert self._epoll is not None
        self._epoll.modify(source.fileno(), events)

    def release(self, source: socket.socket) -> None:
        """Watch it no longer."""
        assert self._epoll is not None
        if self._handlers.pop(source.fileno(), None) is not None:
            self._epoll.unregister(source.fileno())

    def discard(self, source: socket.socket) -> None:
        """Watch it no longer and close it, once: after the events at hand, of which some may name its number."""
        if source.fileno() >= 0 and source not in self._closing:
            self.release(source)
            self._closing.append(source)

    def call_at(self, when: float, callback: Callable[[], None]) -> Timer:
        timer = Timer(callback)
        heapq.heappush(self._timers, (when, next(self._serial), timer))
        return timer

    def _serve(self) -> None:
        epoll, wake = self._epoll, self._wake
        assert epoll is not None and wake is not None
        try:
            self._run(epoll, wake)
        finally:
            with self._lock:
                self._stopped = True
                self._epoll = self._wake = None
                left = list(self._actions)
            for _, future in left:
                future.set_exception(RuntimeError("the reactor has stopped"))
            for source, _ in list(self._handlers.values()):
                source.close()
            self._handlers.clear()
            epoll.close()
            wake.close()

    def _run(self, epoll: select.epoll, wake: EventFd) -> None:
        while True:
            for fd, events in epoll.poll(self._poll_timeout()):
                if fd == wake.fileno():
                    wake.clear()
                elif (found := self._handlers.get(fd)) is not None:
                    self._handle(*found, events)
            self._expire()
            self._close()
            while self._actions:
                _answer(*self._actions.popleft())
            self._close()
            with self._lock:
                if self._stopped and not self._actions:
                    return

    def _handle(self, source: socket.socket, handler: Handler, events: int) -> None:
        try:
            handler(events)
        except Exception:
            # The thread serves every run of this process: one socket less, and the others go on, even where
            # nothing can be logged any more.
            self.discard(source)
            with contextlib.suppress(Exception):
                _log.exception("reactor_handler_failed")

    def _poll_timeout(self) -> float | None:
        while self._timers and self._timers[0][2].callback is None:
            heapq.heappop(self._timers)
        return max(0.0, self._timers[0][0] - self.monotonic()) if self._timers else None

    def _expire(self) -> None:
        now = self.monotonic()
        while self._timers and self._timers[0][0] <= now:
            callback = heapq.heappop(self._timers)[2].callback
            if callback is not None:
                try:
                    callback()
                except Exception:
                    _log.exception("reactor_timer_failed")

    def _close(self) -> None:
        while self._closing:
            source = self._closing.pop()
            with contextlib.suppress(OSError):
                source.close()


def _answer(action: Callable[[], Any], future: Future) -> None:
    try:
        future.set_result(action())
    except Exception as error:
        # Most of those who submit wait for nothing, and would not see it.
        _log.exception("reactor_action_failed")
        future.set_exception(error)


def nonblocking(family: int) -> socket.socket:
    """A stream socket that never waits."""
    return socket.socket(family, socket.SOCK_STREAM | socket.SOCK_NONBLOCK)


def socket_pair() -> tuple[socket.socket, socket.socket]:
    """Two connected ends: ours, which never waits, and one to give away, which may."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
    ours.setblocking(False)
    os.set_inheritable(theirs.fileno(), False)
    return ours, theirs

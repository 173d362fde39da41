"""Ends and removes children in the background, so that no thread waits for a process whose result is known.

The zygote kills the child on request and reports its exit on the status socket. A zygote that reports nothing within
``_DEATH_SECONDS`` is discarded, and the kernel kills all its children.
"""

from __future__ import annotations

import select
import threading
import time
from collections.abc import Callable

from functory.workers.sandbox.pool.child import Child
from functory.workers.sandbox.protocol.control import EventFd

_DEATH_SECONDS = 5.0  # between SIGKILL and the zygote's report; only a broken zygote or kernel needs longer


class ChildReaper:
    """Removes children in one thread, which starts with the first child. Calls ``on_reaped`` for each of them."""

    def __init__(self, on_reaped: Callable[[Child], None]) -> None:
        self._on_reaped = on_reaped
        self._lock = threading.Lock()
        self._wake: EventFd | None = None
        self._arrived: list[Child] = []
        self._thread: threading.Thread | None = None
        self._closed = False

    def reap(self, child: Child, seconds: float | None = None) -> None:
        """End the child. With ``seconds``, wait for its end up to that time, on the caller's thread."""
        if not child.ended():
            child.request_kill()
        if seconds is not None and not child.ended():
            child.status.settimeout(seconds)
            while not child.ended():
                child.read_status()
        if child.ended():
            self._reaped(child)
            return
        with self._lock:
            if not self._closed:
                self._arrived.append(child)
                if self._thread is None:
                    wake = self._wake or EventFd()
                    self._wake = wake
                    thread = threading.Thread(
                        target=self._watch, args=(wake,), name="functory-child-reaper", daemon=True
                    )
                    # Where the system gives no more threads, the next child asks again.
                    thread.start()
                    self._thread = thread
                if self._wake is not None:
                    self._wake.set()
                return
        self._reaped(child)

    def close(self) -> None:
        """Remove the remaining children; called after all zygotes have ended."""
        with self._lock:
            self._closed = True
            wake, thread = self._wake, self._thread
        if wake is not None and thread is not None:
            wake.set()
            thread.join(timeout=2 * _DEATH_SECONDS)

    def close_inherited(self) -> None:
        """Close the descriptors in a forked copy, which has neither the thread nor the children."""
        self._lock = threading.Lock()
        self._closed = True
        for child in self._arrived:
            child.close()
        if self._wake is not None:
            self._wake.close_inherited()

    def _reaped(self, child: Child) -> None:
        if child.lost and child.fork_errno is None:
            # The zygote has ended or does not answer. It is killed, and the kernel kills its children with it.
            child.zygote.discard()
        self._on_reaped(child)

    def _watch(self, wake: EventFd) -> None:
        poll = select.poll()
        poll.register(wake.fileno(), select.POLLIN)
        waiting: dict[int, tuple[Child, float]] = {}
        while True:
            patience = None if not waiting else _DEATH_SECONDS * 250
            ready = {fd for fd, _ in poll.poll(patience)}
            if wake.fileno() in ready:
                wake.clear()
                with self._lock:
                    arrived, self._arrived = self._arrived, []
                for child in arrived:
                    waiting[child.status.fileno()] = child, time.monotonic() + _DEATH_SECONDS
                    child.status.setblocking(False)
                    poll.register(child.status.fileno(), select.POLLIN)
            now = time.monotonic()
            for fd, (child, deadline) in list(waiting.items()):
                if fd in ready:
                    child.read_status()
                elif now >= deadline:
                    child.lost = True
                if child.ended():
                    poll.unregister(fd)
                    del waiting[fd]
                    self._reaped(child)
            with self._lock:
                if self._closed and not waiting and not self._arrived:
                    wake.close()
                    return

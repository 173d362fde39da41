"""Reaches into a run from other threads: ``Control`` ends it, ``EventFd`` wakes its supervisor."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from typing import Protocol

from functory.workers.sandbox.protocol.job import Log, Span


class EventFd:
    """An eventfd (eventfd(2)) that any thread may set, also after its owner has closed it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._fd: int | None = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)

    def fileno(self) -> int:
        if self._fd is None:
            raise ValueError("the eventfd is closed")
        return self._fd

    def set(self) -> None:
        with self._lock:
            if self._fd is not None:
                os.eventfd_write(self._fd, 1)

    def clear(self) -> None:
        os.eventfd_read(self.fileno())

    def close(self) -> None:
        with self._lock:
            if self._fd is not None:
                os.close(self._fd)
                self._fd = None

    def close_inherited(self) -> None:
        """Close it in a forked copy, where the lock may be held by a thread that the copy does not have."""
        self._lock = threading.Lock()
        self.close()


class RunOutput(Protocol):
    """The output of a run so far. Its methods may be called from many threads while the run goes on."""

    def lines(self, first: int, most: int) -> list[Log]:
        """Return up to ``most`` log lines from the one at the place ``first`` on."""
        ...

    def closed_spans(self, first: int, most: int) -> list[Span]:
        """Return up to ``most`` spans that have ended, in the order of their ends, from the place ``first`` on."""
        ...


class Control:
    """Ends one run from another thread; passed to ``Runner.run``, or with a passenger to ``Runner.train``.

    ``ended`` is set when the run is over, however it ended: a host method that waits should give up then.
    """

    def __init__(self) -> None:
        self.ended = threading.Event()
        # What the run has printed and called so far, from its start on; the run sets it.
        self.output: RunOutput | None = None
        # Called by the run, on its thread, for each new line; set before the run begins.
        self.on_line: Callable[[], None] = lambda: None
        self._lock = threading.Lock()
        self._reason: str | None = None
        self._withdrawn = False
        self._wake: EventFd | None = None

    @property
    def reason(self) -> str | None:
        """The reason the run has to end; None while no caller has requested it."""
        return self._reason

    @property
    def withdrawn(self) -> bool:
        """Whether the run is not wanted here any more unless it has begun."""
        return self._withdrawn

    def withdraw(self) -> None:
        """Take a passenger that has not begun out of its train. One that runs goes on, as does any other run."""
        with self._lock:
            self._withdrawn = True
            if self._wake is not None:
                self._wake.set()

    def kill(self, reason: str) -> None:
        """End the run now, with its whole process group. The first reason counts; later calls do nothing."""
        with self._lock:
            if self._reason is None:
                self._reason = reason
            if self._wake is not None:
                self._wake.set()

    def attach(self, wake: EventFd) -> None:
        """Register the eventfd of the run; the run calls this once."""
        with self._lock:
            self._wake = wake
            if self._reason is not None or self._withdrawn:
                wake.set()

    def detach(self) -> None:
        """Forget the eventfd; the run calls this when it is over."""
        with self._lock:
            self._wake = None

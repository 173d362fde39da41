"""What the kernel says of a folder (inotify, by way of watchdog): paths to look at, in a queue that is bounded.

The observer's thread does nothing but put paths into the queue. When that is full, when the kernel's own queue has
overflowed, or when something happened to a folder as a whole, the queue asks for a scan instead: what was not heard
is found there. Reading is no change, and neither are opening and closing: only creations, modifications, moves and
deletions are listened to.
"""

from __future__ import annotations

import errno
import os
import threading
import warnings
from collections import deque
from dataclasses import dataclass
from typing import Any

from watchdog.events import (
    DirCreatedEvent,
    DirDeletedEvent,
    DirMovedEvent,
    FileCreatedEvent,
    FileDeletedEvent,
    FileModifiedEvent,
    FileMovedEvent,
    FileSystemEvent,
    FileSystemEventHandler,
)
from watchdog.observers.api import BaseObserver
from watchdog.observers.inotify import InotifyEmitter
from watchdog.observers.inotify_c import InotifyFD

# A folder that is made while it is listened to is found by the walk and by the kernel's word; watchdog warns of the
# second, which changes nothing.
warnings.filterwarnings("ignore", message="Callback with id", category=RuntimeWarning)

_HEARD: list[type[FileSystemEvent]] = [
    FileCreatedEvent, FileModifiedEvent, FileMovedEvent, FileDeletedEvent, DirCreatedEvent, DirMovedEvent,
    DirDeletedEvent,
]  # fmt: skip


@dataclass(frozen=True, slots=True)
class PathNotification:
    """Something happened to an absolute path; ``moved_from`` is where its file was."""

    path: bytes
    moved_from: bytes | None = None


class NotificationQueue:
    """A bounded queue of notices, and the reasons for a scan."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._queue: deque[PathNotification] = deque()
        self._reasons: set[str] = set()
        self._limit_problem: str | None = None
        self._lock = threading.Lock()
        self._news = threading.Event()

    def put(self, notice: PathNotification) -> None:
        """Put one in; when there is no room, a scan is asked for instead. Never waits."""
        with self._lock:
            if len(self._queue) < self._most:
                self._queue.append(notice)
            else:
                self._reasons.add("overflow")
        self._news.set()

    def request_rescan(self, reason: str) -> None:
        """Ask for a scan."""
        with self._lock:
            self._reasons.add(reason)
        self._news.set()

    def set_limit_problem(self, problem: str) -> None:
        """A limit of inotify was reached: not everything is listened to."""
        with self._lock:
            self._limit_problem = problem
        self._news.set()

    def take(self, limit: int) -> list[PathNotification]:
        """Up to ``limit`` notices, the oldest first."""
        with self._lock:
            self._news.clear()
            taken = [self._queue.popleft() for _ in range(min(limit, len(self._queue)))]
            if self._queue or self._reasons or self._limit_problem:
                self._news.set()
        return taken

    def take_rescan_reasons(self) -> set[str]:
        """Why a scan was asked for since the last question: ``overflow``, ``folder``."""
        with self._lock:
            taken, self._reasons = self._reasons, set()
        return taken

    @property
    def limit_problem(self) -> str | None:
        """The limit of inotify that was reached; None when everything is listened to."""
        return self._limit_problem

    def wait(self, seconds: float) -> None:
        """Until there is something, at most so long."""
        self._news.wait(seconds)

    def wake(self) -> None:
        """End a wait."""
        self._news.set()


class InotifyListener:
    """Listens to a folder, and below it when ``recursive``. Raises OSError when it cannot be listened to."""

    def __init__(self, folder: bytes, notices: NotificationQueue, *, recursive: bool) -> None:
        self._inotify = _Inotify(notices)
        self._observer = BaseObserver(InotifyEmitter, inotify_fd=self._inotify)
        self._inotify.start()
        try:
            self._observer.schedule(
                _Handler(notices), os.fsdecode(folder), recursive=recursive, event_filter=_HEARD
            )
            self._observer.start()
        except BaseException:
            self._inotify.stop()
            self._inotify.join()
            raise

    @property
    def alive(self) -> bool:
        """Whether it still hears: it is deaf when its folder is gone."""
        return self._observer.is_alive() and all(emitter.is_alive() for emitter in self._observer.emitters)

    def close(self) -> None:
        """Stop listening."""
        self._observer.stop()
        self._observer.join()
        self._inotify.stop()
        self._inotify.join()


class _Handler(FileSystemEventHandler):
    def __init__(self, notices: NotificationQueue) -> None:
        self._notices = notices

    def dispatch(self, event: FileSystemEvent) -> None:
        if event.is_directory:
            # What was in a folder that was moved away is not named by the kernel.
            self._notices.request_rescan("folder")
            return
        path = os.fsencode(event.src_path)
        if isinstance(event, FileMovedEvent):
            self._notices.put(PathNotification(os.fsencode(event.dest_path), moved_from=path))
        self._notices.put(PathNotification(path))


class _Inotify(InotifyFD):
    """The kernel's queue, which says what watchdog keeps to itself: that it overflowed, or that a limit was reached."""

    def __init__(self, notices: NotificationQueue) -> None:
        super().__init__()
        self._notices = notices

    def add_callback(self, path: bytes, *args: Any, **options: Any) -> Any:
        try:
            return super().add_callback(path, *args, **options)
        except OSError as error:
            if error.errno in (errno.ENOSPC, errno.EMFILE):
                self._notices.set_limit_problem(error.strerror or str(error))
            raise

    def handle_event(self, event: Any) -> None:
        if event.is_queue_overflow:
            self._notices.request_rescan("overflow")
        super().handle_event(event)

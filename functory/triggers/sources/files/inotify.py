"""Listens to the kernel (inotify, through watchdog) and puts changed paths into a bounded queue.

The observer's thread only fills the queue. When the queue is full, when the kernel's own queue overflowed, or when
something happened to a whole folder, the queue requests a scan, which finds the missed changes. Only creations,
modifications, moves and deletions are listened to; reading, opening and closing are no changes.
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

# A folder that is created meanwhile is found by the walk and reported by the kernel. watchdog warns of the second,
# which changes nothing.
warnings.filterwarnings("ignore", message="Callback with id", category=RuntimeWarning)

_HEARD: list[type[FileSystemEvent]] = [
    FileCreatedEvent, FileModifiedEvent, FileMovedEvent, FileDeletedEvent, DirCreatedEvent, DirMovedEvent,
    DirDeletedEvent,
]  # fmt: skip


@dataclass(frozen=True, slots=True)
class PathNotification:
    """A change at an absolute path. ``moved_from`` is the file's old path."""

    path: bytes
    moved_from: bytes | None = None


class NotificationQueue:
    """A bounded queue of notifications, and the reasons for a scan."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._queue: deque[PathNotification] = deque()
        self._reasons: set[str] = set()
        self._limit_problem: str | None = None
        self._lock = threading.Lock()
        self._news = threading.Event()

    def put(self, notification: PathNotification) -> None:
        """Add a notification; without room, request a scan instead. Never waits."""
        with self._lock:
            if len(self._queue) < self._most:
                self._queue.append(notification)
            else:
                self._reasons.add("overflow")
        self._news.set()

    def request_rescan(self, reason: str) -> None:
        """Request a scan."""
        with self._lock:
            self._reasons.add(reason)
        self._news.set()

    def set_limit_problem(self, problem: str) -> None:
        """Record that a limit of inotify was reached: some folders are not listened to."""
        with self._lock:
            self._limit_problem = problem
        self._news.set()

    def take(self, limit: int) -> list[PathNotification]:
        """Remove and return up to ``limit`` notifications, oldest first."""
        with self._lock:
            self._news.clear()
            taken = [self._queue.popleft() for _ in range(min(limit, len(self._queue)))]
            if self._queue or self._reasons or self._limit_problem:
                self._news.set()
        return taken

    def take_rescan_reasons(self) -> set[str]:
        """Reasons for a scan since the last call: ``overflow``, ``folder``."""
        with self._lock:
            taken, self._reasons = self._reasons, set()
        return taken

    @property
    def limit_problem(self) -> str | None:
        """The limit of inotify that was reached; None when all folders are listened to."""
        return self._limit_problem

    def wait(self, seconds: float) -> None:
        """Wait until there is a notification, at most ``seconds``."""
        self._news.wait(seconds)

    def wake(self) -> None:
        """End a wait."""
        self._news.set()


class InotifyListener:
    """Listens to a folder, and below it when ``recursive``. Raises OSError when that is not possible."""

    def __init__(self, folder: bytes, queue: NotificationQueue, *, recursive: bool) -> None:
        self._inotify = _Inotify(queue)
        self._observer = BaseObserver(InotifyEmitter, inotify_fd=self._inotify)
        self._inotify.start()
        try:
            self._observer.schedule(
                _Handler(queue), os.fsdecode(folder), recursive=recursive, event_filter=_HEARD
            )
            self._observer.start()
        except BaseException:
            self._inotify.stop()
            self._inotify.join()
            raise

    @property
    def alive(self) -> bool:
        """False once the folder is gone: then no notifications come."""
        return self._observer.is_alive() and all(emitter.is_alive() for emitter in self._observer.emitters)

    def close(self) -> None:
        """Stop listening."""
        self._observer.stop()
        self._observer.join()
        self._inotify.stop()
        self._inotify.join()


class _Handler(FileSystemEventHandler):
    def __init__(self, queue: NotificationQueue) -> None:
        self._notifications = queue

    def dispatch(self, event: FileSystemEvent) -> None:
        if event.is_directory:
            # The kernel does not name the files in a folder that was moved away.
            self._notifications.request_rescan("folder")
            return
        path = os.fsencode(event.src_path)
        if isinstance(event, FileMovedEvent):
            self._notifications.put(PathNotification(os.fsencode(event.dest_path), moved_from=path))
        self._notifications.put(PathNotification(path))


class _Inotify(InotifyFD):
    """The kernel's queue. It reports what watchdog hides: an overflow, or a limit that was reached."""

    def __init__(self, queue: NotificationQueue) -> None:
        super().__init__()
        self._notifications = queue

    def add_callback(self, path: bytes, *args: Any, **options: Any) -> Any:
        try:
            return super().add_callback(path, *args, **options)
        except OSError as error:
            if error.errno in (errno.ENOSPC, errno.EMFILE):
                self._notifications.set_limit_problem(error.strerror or str(error))
            raise

    def handle_event(self, event: Any) -> None:
        if event.is_queue_overflow:
            self._notifications.request_rescan("overflow")
        super().handle_event(event)

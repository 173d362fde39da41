"""The main loop of one watch: take notifications, scan, wait for writes to settle, write events.

It runs in one thread; the observer has its own, which only fills a queue. While the root is missing the watcher waits
and reports nothing as deleted. When the root is back, files that are missing then are reported.
"""

from __future__ import annotations

import errno
import os
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from functory.engine.database import dialects
from functory.engine.sources import file_watches
from functory.engine.telemetry import metrics
from functory.triggers.sources.files.config import FileWatchConfig
from functory.triggers.sources.files.directory_walk import DirectoryWalk
from functory.triggers.sources.files.file_facts import stat_file
from functory.triggers.sources.files.glob_patterns import GlobFilter
from functory.triggers.sources.files.ingest import FileIngest
from functory.triggers.sources.files.inotify import InotifyListener, NotificationQueue, PathNotification
from functory.triggers.sources.files.rescan import Rescan, scan_scope
from functory.triggers.sources.files.rescan_schedule import RescanSchedule
from functory.triggers.sources.files.watch_root import (
    RootMissing,
    WatchRoot,
    find_root,
    polled_file_system,
    root_cursor,
)
from functory.triggers.sources.files.write_settling import WriteSettling
from functory.triggers.sources.plugin import SourceContext

# Interval of scans that find missed notifications; and of scans where the kernel sends none.
RESCAN_SECONDS = 60.0
POLL_SECONDS = 1.0
# How often the root is checked.
ROOT_CHECK_SECONDS = 1.0
# The kernel's file clock moves in steps of up to 10 ms: two checks within one step could miss a change.
MIN_SETTLE_SECONDS = 0.02
# The longest wait, so that a stop is noticed.
_MAX_WAIT = 0.25


@dataclass(frozen=True)
class WatchLimits:
    """Bounds of a watch's memory: queued notifications, settling paths, files of one transaction."""

    queue: int = 10_000
    waiting: int = 10_000
    batch: int = 500


class FileWatcher:
    """Runs one watch. ``monotonic`` returns seconds."""

    def __init__(
        self,
        context: SourceContext,
        config: FileWatchConfig,
        *,
        limits: WatchLimits | None = None,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._context = context
        self._config = config
        self._limits = limits or WatchLimits()
        self._monotonic = monotonic
        self._filter = GlobFilter(config.patterns, config.ignore)
        self._database_files = frozenset[bytes]()

    def run(self) -> None:
        """Watch until ``context.stop_event`` is set. Raises :class:`Stale`, :class:`Unavailable`."""
        own = self._context.read(lambda tx, _row: dialects.database_files(tx))
        self._database_files = frozenset(os.path.realpath(os.fsencode(path)) for path in own)
        if self._cursor.get("look", scan_scope(self._config))[0] != self._config.path:
            # The path was changed: the known files are of another folder.
            self._context.put([], cursor={}, also=lambda tx, row: file_watches.delete_known(tx, row["id"]))
        while not self._context.stop_event.is_set():
            root = find_root(self._config.path, self._cursor)
            if isinstance(root, RootMissing):
                self._context.report_problem(
                    f"{root.problem}; no file is reported as deleted until it is there again"
                )
                self._context.stop_event.wait(ROOT_CHECK_SECONDS)
                continue
            try:
                _RootSession(self, root).run()
            except OSError as error:
                # The root went away, or cannot be read.
                self._context.report_problem(
                    f"{self._config.path} cannot be watched: {error.strerror or error}"
                )
                self._context.stop_event.wait(ROOT_CHECK_SECONDS)

    @property
    def _cursor(self) -> dict[str, Any]:
        return self._context.cursor or {}


class _RootSession:
    """Watches one root, from the time it is found until it is gone."""

    def __init__(self, watching: FileWatcher, root: WatchRoot) -> None:
        self._context = watching._context
        self._config = config = watching._config
        self._cursor = watching._cursor
        self._limits = sizes = watching._limits
        self._monotonic = watching._monotonic
        self._filter = watching._filter
        self._database_files = watching._database_files
        self._root = root
        self._notifications = NotificationQueue(sizes.queue)
        self._settling = WriteSettling(
            max(config.settle, MIN_SETTLE_SECONDS),
            sizes.waiting,
            lambda path: stat_file(root.path(path), follow=config.follow_symlinks),
        )
        self._ingest = FileIngest(self._context, config, root, self._settling)
        self._schedule = RescanSchedule(RESCAN_SECONDS, self._monotonic())
        self._listener: InotifyListener | None = None
        self._problem: str | None = None

    def run(self) -> None:
        """Watch until the stop event or until the root is gone.

        Raises OSError, :class:`Stale`, :class:`Unavailable`.
        """
        try:
            # Before the first scan, so that changes during it are notified.
            self._listen()
            self._report_state()
            self._loop()
        finally:
            if self._listener is not None:
                self._listener.close()

    def _loop(self) -> None:
        walk = self._walk()
        steps: Iterator[None] | None = None
        began = check = self._monotonic()
        while not self._context.stop_event.is_set():
            now = self._monotonic()
            if now >= check:
                if not self._is_here():
                    return
                check = now + ROOT_CHECK_SECONDS
            self._drain_notifications(now)
            if steps is None and now >= self._schedule.due:
                began, walk = now, self._walk()
                metrics.file_scans.labels(self._schedule.begin()).inc()
                steps = self._new_rescan(walk).steps()
            room = self._settling.room >= self._limits.batch
            if steps is not None and room and next(steps, _END) is _END:
                self._end_scan(walk, began)
                steps = None
            rested = self._settling.take_settled(now, self._limits.batch)
            known = self._ingest.closing_unknown
            if rested and not self._ingest.ingest(rested, now):
                return
            if known != self._ingest.closing_unknown:
                self._report_state(walk)
            if not rested and (steps is None or not room):
                self._wait(now)

    def _listen(self) -> None:
        config = self._config
        kind = polled_file_system(config.path) if config.polling == "auto" else None
        if config.polling == "always" or kind is not None or config.follow_symlinks:
            # A link may lead to any file system, or back to a folder above it.
            self._context.log.info("watch polls, no kernel notifications", path=config.path, file_system=kind)
            self._schedule.shorten_interval(POLL_SECONDS, self._monotonic())
            return
        try:
            self._listener = InotifyListener(
                self._root.folder,
                self._notifications,
                recursive=config.recursive and self._root.file_name is None,
            )
        except OSError as error:
            if error.errno not in (errno.ENOSPC, errno.EMFILE):
                raise
            self._handle_watch_limit(error.strerror or str(error))

    def _handle_watch_limit(self, problem: str) -> None:
        """The kernel accepts no more watches: scan instead of listening."""
        if self._listener is not None:
            self._listener.close()
            self._listener = None
        self._problem = f"{problem}; raise fs.inotify.max_user_watches or max_user_instances with sysctl"
        if self._config.polling == "auto":
            self._problem += "; the folder is polled meanwhile"
            self._schedule.shorten_interval(POLL_SECONDS, self._monotonic())

    def _is_here(self) -> bool:
        if self._notifications.limit_problem is not None and self._listener is not None:
            self._handle_watch_limit(self._notifications.limit_problem)
            self._report_state()
        lost = self._listener is not None and not self._listener.alive
        return not lost and find_root(self._config.path, self._cursor) == self._root

    def _drain_notifications(self, now: float) -> None:
        for notification in self._notifications.take(self._limits.batch):
            self._handle(notification, now)
        for reason in sorted(self._notifications.take_rescan_reasons()):
            self._schedule.request(reason, now)

    def _handle(self, notification: PathNotification, now: float) -> None:
        path = self._root.relative(notification.path)
        if path is None or not self._wants(path):
            return
        origin = self._root.relative(notification.moved_from) if notification.moved_from is not None else None
        if not self._settling.notify(path, now, origin):
            self._schedule.request("overflow", now)

    def _wants(self, path: bytes) -> bool:
        if self._root.file_name is not None:
            return path == self._root.file_name
        if not self._config.recursive and b"/" in path:
            return False
        return self._filter.includes(os.fsdecode(path)) and self._root.path(path) not in self._database_files

    def _walk(self) -> DirectoryWalk:
        config = self._config
        return DirectoryWalk(
            self._root.folder, self._filter, config.recursive, config.follow_symlinks, self._root.file_name
        )

    def _new_rescan(self, walk: DirectoryWalk) -> Rescan:
        return Rescan(
            self._context,
            self._config,
            self._root,
            self._wants,
            walk,
            self._settling,
            self._ingest,
            self._monotonic,
            self._cursor,
            self._limits.batch,
        )

    def _end_scan(self, walk: DirectoryWalk, began: float) -> None:
        now = self._monotonic()
        self._schedule.finish(began, now)
        metrics.file_scan_duration.observe(now - began)
        cursor = {"look": scan_scope(self._config), **root_cursor(self._root)}
        if cursor != self._cursor:
            self._context.put([], cursor=cursor)
            self._cursor = cursor
        self._report_state(walk)
        self._context.report_progress()

    def _report_state(self, walk: DirectoryWalk | None = None) -> None:
        """Report the present problem, or clear it."""
        problems = [self._problem] if self._problem else []
        if walk is not None and walk.unreadable:
            shown = file_watches.text_of(self._root.path(walk.unreadable[0]))
            problems.append(f"{len(walk.unreadable)} folders cannot be read, {shown} for one")
        if self._ingest.closing_unknown is not None:
            shown = file_watches.text_of(self._root.path(self._ingest.closing_unknown))
            problems.append(
                f"whether {shown} is still open cannot be known: the watcher has to run as the file's owner, on a"
                " local file system; such files are reported after the settle time"
            )
        if problems:
            self._context.report_problem("; ".join(problems))
        else:
            self._context.clear_problem()

    def _wait(self, now: float) -> None:
        due = [self._schedule.due - now]
        settled = self._settling.next_due()
        if settled is not None:
            due.append(settled - now)
        self._notifications.wait(max(0.0, min(_MAX_WAIT, *due)))


_END: Any = object()

"""The wheel of one watch: hear, look, settle, take in; until it is told to end.

It has one thread (the observer has its own, which only fill a queue). While the root is away it waits; nothing is told
as deleted because of that, and when the root is there again, what is missing then is.
"""

from __future__ import annotations

import errno
import os
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from functory.engine.sources import file_watches
from functory.engine.telemetry import metrics
from functory.triggers.sources.files.directory_walk import Walk
from functory.triggers.sources.files.file_facts import facts
from functory.triggers.sources.files.glob_patterns import Selection
from functory.triggers.sources.files.ingest import Taking
from functory.triggers.sources.files.inotify import Ear, Notice, Notices
from functory.triggers.sources.files.mounts import silent
from functory.triggers.sources.files.rescan import Reconcile, look_of
from functory.triggers.sources.files.rescan_schedule import Plan
from functory.triggers.sources.files.watch_root import Absent, Root, find, remembered
from functory.triggers.sources.files.write_settling import Settling

# What the kernel's notices may have missed is found in this time; where there are none, this often is looked.
RECONCILE_SECONDS = 60.0
POLL_SECONDS = 1.0
# How often it is asked whether the root is (still) there.
ROOT_SECONDS = 1.0
# A kernel's clock for files moves in steps of up to 10 ms: two looks within one could miss a change.
LEAST_QUIET = 0.02
# The longest wait, so that the end is noticed.
_LONGEST = 0.25


@dataclass(frozen=True)
class Sizes:
    """What bounds the memory of a watch: notices in the queue, paths that wait to rest, files of one transaction."""

    queue: int = 10_000
    waiting: int = 10_000
    batch: int = 500


class Watching:
    """Watches for one desk. ``config`` is the kind's; ``monotonic`` gives seconds."""

    def __init__(
        self,
        desk: Any,
        config: Any,
        *,
        sizes: Sizes | None = None,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._desk = desk
        self._config = config
        self._sizes = sizes or Sizes()
        self._monotonic = monotonic
        self._selection = Selection(config.patterns, config.ignore)
        self._own = frozenset[bytes]()

    def run(self) -> None:
        """Watch until ``desk.ending`` is set. Raises :class:`Stale`, :class:`Unavailable`."""
        own = self._desk.read(lambda tx, _row: file_watches.own(tx))
        self._own = frozenset(os.path.realpath(os.fsencode(path)) for path in own)
        if self._cursor.get("look", look_of(self._config))[0] != self._config.path:
            # It looked elsewhere: what it knows is of other files.
            self._desk.put([], cursor={}, also=lambda tx, row: file_watches.forget(tx, row["id"]))
        while not self._desk.ending.is_set():
            root = find(self._config.path, self._cursor)
            if isinstance(root, Absent):
                self._desk.troubled(f"{root.problem}; nothing is told as deleted until it is there again")
                self._desk.ending.wait(ROOT_SECONDS)
                continue
            try:
                _Stay(self, root).run()
            except OSError as error:
                # Seen in passing: the root went away, or cannot be read.
                self._desk.troubled(f"{self._config.path} cannot be watched: {error.strerror or error}")
                self._desk.ending.wait(ROOT_SECONDS)

    @property
    def _cursor(self) -> dict[str, Any]:
        return self._desk.cursor or {}


class _Stay:
    """The time from the root's being found to its going away."""

    def __init__(self, watching: Watching, root: Root) -> None:
        self._desk = watching._desk
        self._config = config = watching._config
        self._cursor = watching._cursor
        self._sizes = sizes = watching._sizes
        self._monotonic = watching._monotonic
        self._selection = watching._selection
        self._own = watching._own
        self._root = root
        self._notices = Notices(sizes.queue)
        self._settling = Settling(
            max(config.settle, LEAST_QUIET),
            sizes.waiting,
            lambda path: facts(root.path(path), follow=config.follow_symlinks),
        )
        self._taking = Taking(self._desk, config, root, self._settling)
        self._plan = Plan(RECONCILE_SECONDS, self._monotonic())
        self._ear: Ear | None = None
        self._trouble: str | None = None

    def run(self) -> None:
        """Until the end, or until the root is gone. Raises OSError, :class:`Stale`, :class:`Unavailable`."""
        try:
            # Before the first scan: what comes in behind its back is heard of.
            self._listen()
            self._tell()
            self._turn()
        finally:
            if self._ear is not None:
                self._ear.close()

    def _turn(self) -> None:
        walk = self._walk()
        steps: Iterator[None] | None = None
        began = check = self._monotonic()
        while not self._desk.ending.is_set():
            now = self._monotonic()
            if now >= check:
                if not self._is_here():
                    return
                check = now + ROOT_SECONDS
            self._hear(now)
            if steps is None and now >= self._plan.due:
                began, walk = now, self._walk()
                metrics.file_scans.labels(self._plan.begin()).inc()
                steps = self._reconcile(walk).steps()
            room = self._settling.room >= self._sizes.batch
            if steps is not None and room and next(steps, _END) is _END:
                self._end_scan(walk, began)
                steps = None
            rested = self._settling.rested(now, self._sizes.batch)
            if rested and not self._taking.take(rested, now):
                return
            if not rested and (steps is None or not room):
                self._wait(now)

    def _listen(self) -> None:
        config = self._config
        kind = silent(config.path) if config.polling == "auto" else None
        if config.polling == "always" or kind is not None or config.follow_symlinks:
            # Behind links anything may be mounted, and a link may lead back to where it is.
            self._desk.log.info("watch is polled", path=config.path, file_system=kind)
            self._plan.hurry(POLL_SECONDS, self._monotonic())
            return
        try:
            self._ear = Ear(
                self._root.folder, self._notices, recursive=config.recursive and self._root.only is None
            )
        except OSError as error:
            if error.errno not in (errno.ENOSPC, errno.EMFILE):
                raise
            self._limit(error.strerror or str(error))

    def _limit(self, problem: str) -> None:
        """The kernel takes no more watches: look instead of hearing."""
        if self._ear is not None:
            self._ear.close()
            self._ear = None
        self._trouble = f"{problem}; raise fs.inotify.max_user_watches or max_user_instances with sysctl"
        if self._config.polling == "auto":
            self._trouble += "; it is polled meanwhile"
            self._plan.hurry(POLL_SECONDS, self._monotonic())

    def _is_here(self) -> bool:
        if self._notices.limit is not None and self._ear is not None:
            self._limit(self._notices.limit)
            self._tell()
        deaf = self._ear is not None and not self._ear.alive
        return not deaf and find(self._config.path, self._cursor) == self._root

    def _hear(self, now: float) -> None:
        for notice in self._notices.take(self._sizes.batch):
            self._note(notice, now)
        for reason in sorted(self._notices.reasons()):
            self._plan.ask(reason, now)

    def _note(self, notice: Notice, now: float) -> None:
        path = self._root.relative(notice.path)
        if path is None or not self._wants(path):
            return
        origin = self._root.relative(notice.moved_from) if notice.moved_from is not None else None
        if not self._settling.hear(path, now, origin):
            self._plan.ask("overflow", now)

    def _wants(self, path: bytes) -> bool:
        if self._root.only is not None:
            return path == self._root.only
        if not self._config.recursive and b"/" in path:
            return False
        return self._selection.wants(os.fsdecode(path)) and self._root.path(path) not in self._own

    def _walk(self) -> Walk:
        config = self._config
        return Walk(
            self._root.folder, self._selection, config.recursive, config.follow_symlinks, self._root.only
        )

    def _reconcile(self, walk: Walk) -> Reconcile:
        return Reconcile(
            self._desk,
            self._config,
            self._root,
            self._wants,
            walk,
            self._settling,
            self._taking,
            self._monotonic,
            self._cursor,
            self._sizes.batch,
        )

    def _end_scan(self, walk: Walk, began: float) -> None:
        now = self._monotonic()
        self._plan.done(began, now)
        metrics.file_scan_duration.observe(now - began)
        cursor = {"look": look_of(self._config), **remembered(self._root)}
        if cursor != self._cursor:
            self._desk.put([], cursor=cursor)
            self._cursor = cursor
        self._tell(walk)

    def _tell(self, walk: Walk | None = None) -> None:
        """Tell what is wrong at present, or that nothing is."""
        trouble = self._trouble
        if walk is not None and walk.unreadable:
            shown = file_watches.text_of(self._root.path(walk.unreadable[0]))
            missed = f"{len(walk.unreadable)} folders cannot be read, {shown} for one"
            trouble = f"{trouble}; {missed}" if trouble else missed
        if trouble is not None:
            self._desk.troubled(trouble)
        else:
            self._desk.well()

    def _wait(self, now: float) -> None:
        due = [self._plan.due - now]
        settled = self._settling.next_due()
        if settled is not None:
            due.append(settled - now)
        self._notices.wait(max(0.0, min(_LONGEST, *due)))


_END: Any = object()

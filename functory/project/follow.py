"""Follows the folder of a project: what is saved in an editor becomes the version that runs.

A round compares the functions of the folder with those of the round before, saves what has changed, and runs each
saved function once more with its last input. A save that fails changes nothing that runs. Each function is saved in a
transaction of its own, those that others depend on first.
"""

from __future__ import annotations

import graphlib
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from watchdog.events import FileSystemEvent, FileSystemEventHandler
from watchdog.observers import Observer

from functory.client.functory import Functory
from functory.engine.access.grants import RIGHTS, Grants
from functory.engine.errors import FunctoryError, NotFound, Unavailable, WaitTimeout
from functory.engine.functions import arguments, decorated_function, dependencies
from functory.engine.serialization.control_characters import one_line
from functory.project import folder
from functory.project.folder import FUNCTIONS, LIB, Project, ProjectFunction

# Editors write a file twice, and a checkout writes hundreds: a round begins when nothing has come for so long (s).
QUIET_SECONDS = 0.05
# A checkout that takes longer is several rounds.
MAX_QUIET_SECONDS = 1.0
# The folder is compared also without a message of the kernel: network drives send none.
POLL_SECONDS = 2.0
# A longer run goes on, and its end is in the feed of events.
WAIT_SECONDS = 10.0

Show = Callable[[str], None]
Signature = Mapping[str, tuple[int, int]]


class Follower:
    """Saves the functions of the folder ``root`` as they change, on a thread of its own.

    ``show`` gets each line for the terminal. With ``rerun`` a saved function runs once more with its last input, unless
    it has a right: it might send a message twice.
    """

    def __init__(self, engine: Functory, root: Path, show: Show, *, rerun: bool = True) -> None:
        self._engine = engine
        self._root = root
        self._show = show
        self._rerun = rerun
        # What has been saved, by the name of the function, with its file; and the problems that were shown.
        self._known: dict[str, tuple[str, str]] = {}
        self._deleted: set[str] = set()
        self._problems: frozenset[str] = frozenset()
        self._changed = threading.Event()
        self._stopping = threading.Event()
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Save what differs now, then follow. Raises :class:`Invalid` for a folder that is no project."""
        project = folder.read(self._root)
        signature = _signature(self._root)
        self._round(project, is_first=True)
        self._thread = threading.Thread(
            target=self._follow, args=(signature,), name="functory-follow", daemon=True
        )
        self._thread.start()

    def stop(self) -> None:
        """End the thread."""
        self._stopping.set()
        self._changed.set()
        if self._thread is not None:
            self._thread.join(timeout=WAIT_SECONDS)

    def _say(self, line: str) -> None:
        """Show a line. Names of files and messages of errors come from outside."""
        self._show(" " * (len(line) - len(line.lstrip(" "))) + one_line(line.strip(" ")))

    def _follow(self, signature: Signature) -> None:
        watched, observer = _folders(self._root), self._observe()
        try:
            while not self._stopping.is_set():
                self._changed.wait(POLL_SECONDS)
                self._wait_for_quiet()
                if watched != (now := _folders(self._root)):
                    # A folder that was made anew sends nothing to who watched the former one.
                    _end(observer)
                    watched, observer = now, self._observe()
                try:
                    found = _signature(self._root)
                    if found != signature and not self._stopping.is_set():
                        signature = found
                        self._round(folder.read(self._root))
                except (FunctoryError, OSError) as error:
                    # The folder is gone for now, as in the middle of a checkout, or the database is away.
                    reason = error.reason if isinstance(error, FunctoryError) else str(error)
                    self._tell_problems([f"error: {reason}"])
                    signature = {}
                    self._stopping.wait(POLL_SECONDS)
        finally:
            _end(observer)

    def _observe(self) -> Any:
        """Return what sets :attr:`_changed` when a file changes; None where the kernel has no room for it."""
        observer, handler = Observer(), _Handler(self._changed)
        try:
            observer.schedule(handler, str(self._root), recursive=False)
            for name in (FUNCTIONS, LIB):
                if (self._root / name).is_dir():
                    observer.schedule(handler, str(self._root / name), recursive=True)
            observer.start()
        except OSError as error:
            self._say(f"  follow: changes are noticed every {POLL_SECONDS:g} s ({error.strerror or error})")
            return None
        return observer

    def _wait_for_quiet(self) -> None:
        began = time.monotonic()
        while self._changed.is_set() and not self._stopping.is_set():
            self._changed.clear()
            if time.monotonic() - began > MAX_QUIET_SECONDS:
                return
            time.sleep(QUIET_SECONDS)

    def _round(self, project: Project, *, is_first: bool = False) -> None:
        self._tell_problems(map(str, project.problems))
        self._disable_deleted(project)
        changed = [
            one for name, one in project.functions.items() if self._known.get(name) != (one.file, one.sha256)
        ]
        saved = [row for one in _in_order(changed) if (row := self._save(one)) is not None]
        made = [row for row in saved if row["created"]]
        if is_first:
            same = len(saved) - len(made)
            self._say(f"  follow: {len(made)} saved, {same} as they were, of {self._root / FUNCTIONS}")
        elif self._rerun:
            for row in made:
                self._run_again(row)

    def _tell_problems(self, lines: Iterable[str]) -> None:
        """Show the problems that were not there in the round before."""
        found = tuple(lines)
        for line in found:
            if line not in self._problems:
                self._say(f"  {line}")
        self._problems = frozenset(found)

    def _save(self, one: ProjectFunction) -> dict[str, Any] | None:
        """Save a function. Returns its row; None when it was refused."""
        name, began = one.entry.name, time.monotonic()
        try:
            row = self._engine.functions.save(
                one.entry.text, name=name, author=self._engine.author, **one.fields
            )
            if name in self._deleted:
                self._deleted.discard(name)
                self._engine.functions.enable(name, author=self._engine.author)
                self._say(f"  {name} is enabled: {one.file} is there again")
        except Unavailable:
            raise
        except FunctoryError as error:
            self._say(f"  {folder.Problem(one.file, one.entry.line, 1, error)}")
            self._known[name] = (one.file, one.sha256)
            return None
        self._known[name] = (one.file, one.sha256)
        if row["created"]:
            self._say(f"  {name} v{row['number']} saved  {_milliseconds(began)}")
        if row["created"] or row["inactive_reason"]:
            broken = self._engine.trigger_saves.broken_by(row)
            for warning, _ in decorated_function.warnings_of(row, self._engine.pending(row), broken):
                self._say(f"    {warning}")
        return row

    def _disable_deleted(self, project: Project) -> None:
        """Disable the functions that a file does not define any more. One whose file cannot be read stays as it is."""
        unreadable = {problem.file for problem in project.problems}
        gone = [
            name
            for name, (file, _) in self._known.items()
            if name not in project.functions and file not in unreadable
        ]
        for name in gone:
            file, _ = self._known.pop(name)
            self._deleted.add(name)
            with suppress(NotFound):
                self._engine.functions.disable(name, author=self._engine.author)
                self._say(f"  {name} is disabled: {file} has it no more")

    def _run_again(self, row: Mapping[str, Any]) -> None:
        """Run a new version with the last input of its function, and say how it went and how it had gone before."""
        name = row["name"]
        if row["active"] != row["number"]:
            return
        rights = Grants.declared(row["grants"], row["secrets"], row["permissions"]).only(RIGHTS)
        last = next(iter(self._engine.executions.list(function=name, limit=1, payloads=True)), None)
        if last is None or not arguments.is_complete(last["input"]):
            return
        if rights:
            kinds = ", ".join(sorted({kind for kind, _ in rights.items()}))
            self._say(f"    not run again: it has rights ({kinds})")
            return
        before = "" if last["state"] == "succeeded" else f"  (was {last['state']})"
        try:
            started = self._engine.executions.start(
                name, last["input"], cause="manual", author=self._engine.author
            )
            (ended,) = self._engine.executions.wait([started["id"]], WAIT_SECONDS)
        except WaitTimeout:
            self._say(f"    last input: it still runs after {WAIT_SECONDS:g} s")
            return
        except FunctoryError as error:
            self._say(f"    last input ✗ {error.reason}")
            return
        if ended["state"] == "succeeded":
            took = (ended["finished_at"] - ended["started_at"]).total_seconds()
            self._say(f"    last input ✓ {took * 1000:.0f} ms{before}")
        else:
            error = ended["error"] or {}
            text = f"{error.get('type', ended['state'])}: {error.get('message', '')}"
            self._say(f"    last input ✗ {text[:200]}")


class _Handler(FileSystemEventHandler):
    """Sets an event for each change of a file."""

    def __init__(self, changed: threading.Event) -> None:
        self._changed = changed

    def on_any_event(self, event: FileSystemEvent) -> None:
        # Reading a file opens and closes it.
        if event.event_type not in ("opened", "closed_no_write"):
            self._changed.set()


def _folders(root: Path) -> list[tuple[int, int] | None]:
    """Return which folders are watched now: the device and the inode of each, None for one that is not there."""
    found: list[tuple[int, int] | None] = []
    for path in (root, root / FUNCTIONS, root / LIB):
        try:
            status = path.stat()
            found.append((status.st_dev, status.st_ino))
        except OSError:
            found.append(None)
    return found


def _end(observer: Any) -> None:
    if observer is not None:
        observer.stop()
        observer.join()


def _signature(root: Path) -> Signature:
    """Return the time of the last change and the size of each file, by its path."""
    found: dict[str, tuple[int, int]] = {}
    for path in folder.files(root):
        with suppress(OSError):
            status = path.stat()
            found[str(path)] = (status.st_mtime_ns, status.st_size)
    return found


def _in_order(changed: Iterable[ProjectFunction]) -> list[ProjectFunction]:
    """Return functions behind those that they depend on, as far as their dependencies are no cycle."""
    by_name = {one.entry.name: one for one in changed}
    needs = {
        name: [d.name for d in dependencies.parse(one.entry.fields.get("dependencies")) if d.name in by_name]
        for name, one in by_name.items()
    }
    try:
        return [by_name[name] for name in graphlib.TopologicalSorter(needs).static_order()]
    except graphlib.CycleError:
        # The save says which functions make the cycle.
        return list(by_name.values())


def _milliseconds(began: float) -> str:
    return f"{(time.monotonic() - began) * 1000:.0f} ms"

"""Control groups of one worker: bound the memory and the tasks of a whole child (cgroups(7)).

RLIMIT_AS bounds the address space of one process; a control group also counts its children, its files in
scratch and the kernel's buffers. It exists only where this process may write one: root, a systemd unit with
``Delegate=yes``, a container with a writable tree. Both versions of the interface are supported.

``Cgroups`` keeps a folder for this worker, named after its process so that another worker can recognise a
dead worker's folder and remove it. Groups are made when needed and used again; a child enters one by itself,
through the open ``cgroup.procs`` files that it is given.
"""

from __future__ import annotations

import contextlib
import os
import signal
import threading
import time
from collections.abc import Iterator
from itertools import count
from pathlib import Path

import msgspec

from functory.engine.errors import Unavailable

_NAME = "functory"
_CLOSE_SECONDS = 2.0  # killed processes leave their group within milliseconds
_PAUSE_SECONDS = 0.005
_MOVE_ROUNDS = 10  # processes that are forked while we move their parents
_serial = count(1)


class _Tree(msgspec.Struct, frozen=True):
    """A place for groups: one folder in version 2; in version 1 one for each controller."""

    version: int
    memory: Path
    tasks: Path | None

    @property
    def folders(self) -> tuple[Path, ...]:
        return (self.memory,) if self.tasks in (None, self.memory) else (self.memory, self.tasks)


class Cgroup:
    """One group, empty or with one child and its descendants. ``Cgroups.acquire`` and ``release`` frame each
    use."""

    def __init__(self, owner: Cgroups, tree: _Tree) -> None:
        self._owner = owner
        self._tree = tree
        self._limits: tuple[int, int] | None = None
        self._kills = 0
        for folder in tree.folders:
            folder.mkdir()
        flags = os.O_WRONLY | os.O_CLOEXEC
        self.fds = tuple(os.open(folder / "cgroup.procs", flags) for folder in tree.folders)
        """Descriptors of ``cgroup.procs``: a process that writes ``0`` into each enters the group."""
        if tree.version == 2:
            with contextlib.suppress(OSError):  # older kernels end one process of the group, not all
                (tree.memory / "memory.oom.group").write_text("1")

    def limit(self, memory_bytes: int, tasks: int) -> None:
        """Set the limits of all its processes together; OSError when more is in use."""
        if self._limits != (memory_bytes, tasks):
            self._limits = None
            self._limit_memory(memory_bytes)
            if self._tree.tasks is not None:
                (self._tree.tasks / "pids.max").write_text(str(tasks))
            self._limits = (memory_bytes, tasks)

    def _limit_memory(self, size: int) -> None:
        folder = self._tree.memory
        if self._tree.version == 2:
            (folder / "memory.max").write_text(str(size))
            with contextlib.suppress(FileNotFoundError):  # this kernel counts no swap
                (folder / "memory.swap.max").write_text("0")
            return
        limit, with_swap = folder / "memory.limit_in_bytes", folder / "memory.memsw.limit_in_bytes"
        # The kernel refuses a write that would make the outer limit the lower one, even for an instant.
        if with_swap.exists():
            with_swap.write_text("-1")
        limit.write_text(str(size))
        if with_swap.exists():
            with_swap.write_text(str(size))

    def oom_kills(self) -> int:
        """Number of processes that the kernel has ended here for lack of memory since ``acquire``."""
        return self._count_kills() - self._kills

    def _count_kills(self) -> int:
        name = "memory.events" if self._tree.version == 2 else "memory.oom_control"
        try:
            lines = (self._tree.memory / name).read_text().splitlines()
        except OSError:
            return 0
        return sum(int(line.split()[1]) for line in lines if line.startswith("oom_kill "))

    def kill(self) -> None:
        """End every process in it. Where the kernel cannot do that at once, the current ones."""
        try:
            (self._tree.memory / "cgroup.kill").write_text("1")
        except OSError:
            for pid in self._members():
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)

    def release(self) -> None:
        """End all processes that are still in it; then it is free for another child."""
        self._owner.reclaim(self)

    def prepare_reuse(self) -> bool:
        """Prepare it for the next child, so that acquiring it costs nothing; False while a process is in it."""
        self._kills = self._count_kills()
        return not self._members()

    def _members(self) -> list[int]:
        try:
            return _pids(self._tree.memory)
        except OSError:
            return []

    def remove(self) -> bool:
        """Remove its folders; False while a process is in it."""
        for folder in self._tree.folders:
            try:
                folder.rmdir()
            except FileNotFoundError:
                continue
            except OSError:
                return False
        for fd in self.fds:
            with contextlib.suppress(OSError):
                os.close(fd)
        self.fds = ()
        return True


class Cgroups:
    """The groups of this worker. Safe to use from many threads."""

    def __init__(self, tree: _Tree) -> None:
        self._tree = tree
        self._lock = threading.Lock()
        self._serial = count(1)
        self._free: list[Cgroup] = []
        self._all: set[Cgroup] = set()

    @classmethod
    def open(cls) -> Cgroups | None:
        """Return this worker's groups, after those of dead workers were removed; None where none can be made."""
        found = _find()
        return found if found is None else cls(found)

    def acquire(self, memory_bytes: int, tasks: int) -> Cgroup:
        """Return an empty group with these limits; Unavailable when the kernel makes no more."""
        try:
            with self._lock:
                group = self._free.pop() if self._free else None
            if group is not None:
                with contextlib.suppress(OSError):
                    group.limit(memory_bytes, tasks)
                    return group
                self._retire(group)
            group = self._make()
            group.limit(memory_bytes, tasks)
            return group
        except OSError as error:
            raise Unavailable(
                "no control group could be made for a function",
                f"{error.filename or 'the kernel'} refused it: {error.strerror}",
                "see that no other program changes the worker's control groups, and start the worker again",
            ) from error

    def _make(self) -> Cgroup:
        with self._lock:
            tree = _below(self._tree, str(next(self._serial)))
            group = Cgroup(self, tree)
            self._all.add(group)
        return group

    def reclaim(self, group: Cgroup) -> None:
        """See ``Cgroup.give_back``."""
        if group.prepare_reuse():
            with self._lock:
                self._free.append(group)
        else:
            group.kill()
            self._retire(group)

    def _retire(self, group: Cgroup) -> None:
        """Remove a group that cannot be used again; a group that is not empty yet is removed by ``close``."""
        if group.remove():
            with self._lock:
                self._all.discard(group)

    def close(self) -> None:
        """End all remaining processes and remove all groups. The next worker removes what the kernel keeps."""
        deadline = time.monotonic() + _CLOSE_SECONDS
        with self._lock:
            groups, self._all, self._free = self._all, set(), []
        while groups:
            for group in groups:
                group.kill()
            groups = {group for group in groups if not group.remove()}
            if groups and time.monotonic() > deadline:
                return
            if groups:
                time.sleep(_PAUSE_SECONDS)
        for folder in self._tree.folders:
            with contextlib.suppress(OSError):
                folder.rmdir()


def unavailable_reason() -> str:
    """Return why this process can make no control group; empty if it can. Leaves nothing behind."""
    try:
        tree = _make_folder(_where())
    except _NotHere as error:
        return str(error)
    for folder in tree.folders:
        folder.rmdir()
    return ""


class _NotHere(Exception):
    """No control group can be made; the message gives the reason."""


def _find() -> _Tree | None:
    try:
        parent = _where()
        _remove_dead(parent)
        return _make_folder(parent)
    except _NotHere:
        return None


def _make_folder(parent: _Tree) -> _Tree:
    tree = _below(parent, _name())
    made: list[Path] = []
    try:
        for folder in tree.folders:
            folder.mkdir()
            made.append(folder)
        if tree.version == 2:
            (tree.memory / "cgroup.subtree_control").write_text("+memory +pids")
    except OSError as error:
        for folder in made:
            with contextlib.suppress(OSError):
                folder.rmdir()
        raise _NotHere(f"{error.filename} cannot be made: {error.strerror}") from error
    return tree


def _where() -> _Tree:
    """Find the folders in which this process may make groups that count memory and, mostly, tasks."""
    own = _own_folders()
    if "" in own and "memory" not in own:
        return _where_v2(*own[""])
    if "memory" not in own:
        raise _NotHere("no control groups are mounted")
    memory, _ = own["memory"]
    if not os.access(memory, os.W_OK):
        raise _NotHere(f"{memory} is not ours to write")
    tasks, _ = own.get("pids", (None, None))
    return _Tree(1, memory, tasks if tasks is not None and os.access(tasks, os.W_OK) else None)


def _where_v2(own: Path, top: Path) -> _Tree:
    try:
        controllers = set((own / "cgroup.controllers").read_text().split())
    except OSError as error:
        raise _NotHere(f"{error.filename}: {error.strerror}") from error
    if missing := {"memory", "pids"} - controllers:
        raise _NotHere(f"{own} has no controller for {' and '.join(sorted(missing))}")
    if _serves(own):
        return _Tree(2, own, own)
    if own != top and own.name == _NAME and _serves(own.parent):
        return _Tree(2, own.parent, own.parent)
    if _is_ours(own, top):
        with contextlib.suppress(OSError):
            _move_processes_down(own)
            return _Tree(2, own, own)
    for folder in own.parents:
        if folder.is_relative_to(top) and _serves(folder):
            return _Tree(2, folder, folder)
    raise _NotHere(f"{own} is not delegated to user {os.geteuid()}")


def _serves(folder: Path) -> bool:
    """Return True if groups made in ``folder`` count memory and tasks, and we may make them and move
    processes there."""
    try:
        ready = {"memory", "pids"} <= set((folder / "cgroup.subtree_control").read_text().split())
    except OSError:
        return False
    return ready and os.access(folder, os.W_OK) and os.access(folder / "cgroup.procs", os.W_OK)


def _is_ours(own: Path, top: Path) -> bool:
    """Return True if all processes of the group belong to this worker's unit or container, whose creator
    leaves it to us."""
    if not os.access(own / "cgroup.subtree_control", os.W_OK):
        return False
    for name in ("user.delegate", "trusted.delegate"):  # set by systemd for Delegate=yes
        with contextlib.suppress(OSError):
            if os.getxattr(own, name) == b"1":
                return True
    # A container sees its own group as the top of all; the top of the machine has no ``cgroup.type``.
    return (own == top and (own / "cgroup.type").exists()) or (own.stat().st_uid == os.geteuid() != 0)


def _move_processes_down(own: Path) -> None:
    """Move this unit's processes one level down: a group with processes cannot delegate its controllers."""
    leaf = own / _NAME
    leaf.mkdir(exist_ok=True)
    for _ in range(_MOVE_ROUNDS):
        for pid in _pids(own):
            with contextlib.suppress(ProcessLookupError):
                (leaf / "cgroup.procs").write_text(str(pid))
        try:
            (own / "cgroup.subtree_control").write_text("+memory +pids")
            return
        except OSError:
            continue
    raise OSError(f"{own} still has processes")


def _own_folders() -> dict[str, tuple[Path, Path]]:
    """Return for each controller (``""``: version 2) the folder of this process's group and that of the whole
    tree."""
    tops: dict[str, tuple[str, str]] = {}
    for line in Path("/proc/self/mountinfo").read_text().splitlines():
        left, _, right = line.partition(" - ")
        kind, _, options = right.split(" ", 2)
        if kind == "cgroup2":
            tops.setdefault("", (left.split()[3], left.split()[4]))
        elif kind == "cgroup":
            for controller in options.split(","):
                tops.setdefault(controller, (left.split()[3], left.split()[4]))
    found: dict[str, tuple[Path, Path]] = {}
    for line in Path("/proc/self/cgroup").read_text().splitlines():
        _, controllers, path = line.split(":", 2)
        for controller in controllers.split(","):
            seen, mounted = tops.get(controller, ("", ""))
            if mounted and Path(path).is_relative_to(seen) and ".." not in path:
                found[controller] = (Path(mounted) / Path(path).relative_to(seen), Path(mounted))
    return found


def _below(tree: _Tree, name: str) -> _Tree:
    return _Tree(tree.version, tree.memory / name, None if tree.tasks is None else tree.tasks / name)


def _pids(folder: Path) -> list[int]:
    return [int(pid) for pid in (folder / "cgroup.procs").read_text().split()]


def _name() -> str:
    """Return a folder name that is never used twice: pid namespace, pid, its start time, and a number."""
    pid = os.getpid()
    return f"{_mark()}{pid}-{_started(pid)}-{next(_serial)}"


def _mark() -> str:
    """Return the prefix of the names whose pids mean the same as here."""
    return f"{_NAME}-{os.stat('/proc/self/ns/pid').st_ino}-"  # noqa: PTH116


def _started(pid: int) -> str:
    """Return the start time of a process in clock ticks since boot (proc_pid_stat(5), field 22)."""
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19]


def _remove_dead(parent: _Tree) -> None:
    """Remove the folders of workers that have ended, as far as this process can know."""
    for folder in parent.folders:
        for name in _dead(folder):
            groups = [folder / name]
            # Workers that start at the same time find the same ones: another may be faster at any point.
            with contextlib.suppress(OSError):
                groups[:0] = (folder / name).iterdir()
            for group in groups:
                with contextlib.suppress(OSError):
                    if group.is_dir():
                        for pid in _pids(group):
                            os.kill(pid, signal.SIGKILL)
                        group.rmdir()


def _dead(folder: Path) -> Iterator[str]:
    mark = _mark()
    for entry in folder.glob(f"{mark}*"):
        pid, _, rest = entry.name.removeprefix(mark).partition("-")
        try:
            if _started(int(pid)) != rest.partition("-")[0]:
                yield entry.name
        except (FileNotFoundError, ProcessLookupError):
            yield entry.name

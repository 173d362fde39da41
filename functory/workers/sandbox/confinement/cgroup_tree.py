"""Finds where this worker may make control groups, and makes its folder there (cgroups(7)).

Both versions of the interface are supported. In version 2, a group with processes cannot delegate its controllers,
so the processes of this worker's unit move one level down first.
"""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Iterator
from itertools import count
from pathlib import Path

import msgspec

_NAME = "functory"
_MOVE_ROUNDS = 10  # processes may fork while we move them
_serial = count(1)


class Tree(msgspec.Struct, frozen=True):
    """A place for groups: one folder in version 2; in version 1 one for each controller."""

    version: int
    memory: Path
    tasks: Path | None

    @property
    def folders(self) -> tuple[Path, ...]:
        return (self.memory,) if self.tasks in (None, self.memory) else (self.memory, self.tasks)


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


def make_worker_tree() -> Tree | None:
    try:
        parent = _where()
        _remove_dead(parent)
        return _make_folder(parent)
    except _NotHere:
        return None


def _make_folder(parent: Tree) -> Tree:
    tree = below(parent, _name())
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


def _where() -> Tree:
    """Find the folders in which this process may make groups that count memory and, where it can, tasks."""
    own = _own_folders()
    if "" in own and "memory" not in own:
        return _where_v2(*own[""])
    if "memory" not in own:
        raise _NotHere("no control groups are mounted")
    memory, _ = own["memory"]
    if not os.access(memory, os.W_OK):
        raise _NotHere(f"{memory} is not ours to write")
    tasks, _ = own.get("pids", (None, None))
    return Tree(1, memory, tasks if tasks is not None and os.access(tasks, os.W_OK) else None)


def _where_v2(own: Path, top: Path) -> Tree:
    try:
        controllers = set((own / "cgroup.controllers").read_text().split())
    except OSError as error:
        raise _NotHere(f"{error.filename}: {error.strerror}") from error
    if missing := {"memory", "pids"} - controllers:
        raise _NotHere(f"{own} has no controller for {' and '.join(sorted(missing))}")
    if _serves(own):
        return Tree(2, own, own)
    if own != top and own.name == _NAME and _serves(own.parent):
        return Tree(2, own.parent, own.parent)
    if _is_ours(own, top):
        with contextlib.suppress(OSError):
            _move_processes_down(own)
            return Tree(2, own, own)
    for folder in own.parents:
        if folder.is_relative_to(top) and _serves(folder):
            return Tree(2, folder, folder)
    raise _NotHere(f"{own} is not delegated to user {os.geteuid()}")


def _serves(folder: Path) -> bool:
    """Return True if this process may make groups in ``folder`` that count memory and tasks, and fill them."""
    try:
        ready = {"memory", "pids"} <= set((folder / "cgroup.subtree_control").read_text().split())
    except OSError:
        return False
    return ready and os.access(folder, os.W_OK) and os.access(folder / "cgroup.procs", os.W_OK)


def _is_ours(own: Path, top: Path) -> bool:
    """Return True if the group belongs to this worker's unit or container alone, and is delegated to it."""
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
        for pid in process_ids(own):
            with contextlib.suppress(ProcessLookupError):
                (leaf / "cgroup.procs").write_text(str(pid))
        try:
            (own / "cgroup.subtree_control").write_text("+memory +pids")
            return
        except OSError:
            continue
    raise OSError(f"{own} still has processes")


def _own_folders() -> dict[str, tuple[Path, Path]]:
    """Return for each controller (``""``: version 2) the folder of this process's group and the top of its tree."""
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


def below(tree: Tree, name: str) -> Tree:
    return Tree(tree.version, tree.memory / name, None if tree.tasks is None else tree.tasks / name)


def process_ids(folder: Path) -> list[int]:
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


def _remove_dead(parent: Tree) -> None:
    """Remove the folders of workers that have ended, as far as this process sees their pids."""
    for folder in parent.folders:
        for name in _dead(folder):
            groups = [folder / name]
            # Workers that start at the same time find the same folders: each step may come too late.
            with contextlib.suppress(OSError):
                groups[:0] = (folder / name).iterdir()
            for group in groups:
                with contextlib.suppress(OSError):
                    if group.is_dir():
                        for pid in process_ids(group):
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

"""Bounds the memory and the tasks of a whole child by control groups (cgroups(7)).

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
from itertools import count

from functory.engine.errors import Unavailable
from functory.workers.sandbox.confinement import cgroup_tree
from functory.workers.sandbox.confinement.cgroup_tree import Tree

_CLOSE_SECONDS = 2.0  # killed processes leave their group within milliseconds
_PAUSE_SECONDS = 0.005


class Cgroup:
    """One group, empty or with one child and its descendants. A use goes from ``Cgroups.acquire`` to ``release``."""

    def __init__(self, owner: Cgroups, tree: Tree) -> None:
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

    def add(self, pid: int) -> None:
        """Move a process into it; its children are in it from their start."""
        for fd in self.fds:
            os.write(fd, str(pid).encode())

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
        """Return the number of processes that the kernel has ended here for lack of memory since ``acquire``."""
        return self._count_kills() - self._kills

    def _count_kills(self) -> int:
        name = "memory.events" if self._tree.version == 2 else "memory.oom_control"
        try:
            lines = (self._tree.memory / name).read_text().splitlines()
        except OSError:
            return 0
        return sum(int(line.split()[1]) for line in lines if line.startswith("oom_kill "))

    def kill(self) -> None:
        """End every process in it; on kernels without ``cgroup.kill``, every process that is in it now."""
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
            return cgroup_tree.process_ids(self._tree.memory)
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
    """Makes and reuses the groups of this worker. Safe to use from many threads."""

    def __init__(self, tree: Tree) -> None:
        self._tree = tree
        self._lock = threading.Lock()
        self._serial = count(1)
        self._free: list[Cgroup] = []
        self._all: set[Cgroup] = set()

    @classmethod
    def open(cls) -> Cgroups | None:
        """Return this worker's groups, after those of dead workers were removed; None where none can be made."""
        found = cgroup_tree.make_worker_tree()
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
            tree = cgroup_tree.below(self._tree, str(next(self._serial)))
            group = Cgroup(self, tree)
            self._all.add(group)
        return group

    def reclaim(self, group: Cgroup) -> None:
        """See ``Cgroup.release``."""
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

"""Puts a zygote into its own user, mount and PID namespaces (tiers A and B).

``enter`` takes two user namespaces, one inside the other. With the rights of the outer one the file tree is
built; entering the inner one locks every mount of it (mount_namespaces(7), "Restrictions on mount
namespaces"), so that not even all capabilities of the inner one can make a mount writable or take one away.
The inner one owns the PID namespace too: only so may the zygote make new ones for its children.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Callable

import msgspec

from functory.workers.sandbox.confinement import root_filesystem, syscalls
from functory.workers.sandbox.confinement.visible_paths import find_visible_paths
from functory.workers.sandbox.protocol.plan import MAX_CHILDREN, Plan

_OUTER = (
    syscalls.CLONE_NEWUSER
    | syscalls.CLONE_NEWNS
    | syscalls.CLONE_NEWNET
    | syscalls.CLONE_NEWIPC
    | syscalls.CLONE_NEWUTS
)
_INNER = syscalls.CLONE_NEWUSER | syscalls.CLONE_NEWNS | syscalls.CLONE_NEWPID
_ERRNO = struct.Struct("=i")


class ZygoteNamespaces(msgspec.Struct):
    """The namespaces of a zygote."""

    scratch_mounts: list[root_filesystem.ScratchMount]
    has_proc: bool
    pid_namespace: int
    """Descriptor of the zygote's own PID namespace."""


def enter(plan: Plan, announce: Callable[[int], None]) -> ZygoteNamespaces:
    """Fork the zygote into its namespaces and return in it; the calling process ends.

    ``announce`` is called with the zygote's pid before that. OSError and ValueError are raised in the one of
    the two processes that met them.
    """
    seen = find_visible_paths(plan)
    proc = os.open("/proc", os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    if plan.tier == "A":
        if plan.first_id <= 0:
            raise ValueError("tier A needs a first user id above 0")
        ids = (plan.first_id, plan.first_id, MAX_CHILDREN + 1)
    else:
        ids = (os.geteuid(), os.getegid(), 1)
    _unshare(proc, _OUTER, "make namespaces", ids, limit_groups=plan.tier == "B")
    root_filesystem.mount_empty_root(plan.base)
    trees = root_filesystem.copy_mounts(seen, {*plan.read, *plan.write})
    if plan.tier == "A":
        os.setgroups([])
    # Dropping ids hides a process from itself in /proc, where the second map is to be written.
    os.setresgid(0, 0, 0)
    os.setresuid(0, 0, 0)
    syscalls.prctl(syscalls.PR_SET_DUMPABLE, 1, "stay visible")
    root_filesystem.make_proc_mount_point()
    has_proc = _succeeds(root_filesystem.mount_empty_proc)
    kept = root_filesystem.build_root(seen, trees)
    _unshare(proc, _INNER, "lock the mounts", (0, 0, ids[2]), limit_groups=False)
    zygote = os.fork()
    if zygote:
        announce(zygote)
        os._exit(0)
    own = os.open("self/ns/pid", os.O_RDONLY | os.O_CLOEXEC, dir_fd=proc)
    os.close(proc)
    if has_proc:
        root_filesystem.mount_proc()
    return ZygoteNamespaces(scratch_mounts=kept, has_proc=has_proc, pid_namespace=own)


def _unshare(proc: int, flags: int, step: str, ids: tuple[int, int, int], *, limit_groups: bool) -> None:
    """unshare(2) with a new user namespace whose ids from 0 on are (first uid, first gid, how many) outside.

    The maps are written by a helper that stays in the old one and has its capabilities there.
    """
    uid, gid, count = ids
    own = os.readlink("self", dir_fd=proc)

    def write_maps() -> None:
        if limit_groups:
            _write(proc, f"{own}/setgroups", "deny")
        _write(proc, f"{own}/gid_map", f"0 {gid} {count}")
        _write(proc, f"{own}/uid_map", f"0 {uid} {count}")

    helper = _Helper(write_maps)
    try:
        syscalls.unshare(flags, step)
    except OSError:
        helper.dismiss()
        raise
    helper.finish(f"{step}: map the user ids")


def _write(proc: int, path: str, text: str) -> None:
    handle = os.open(path, os.O_WRONLY | os.O_CLOEXEC, dir_fd=proc)
    try:
        os.write(handle, text.encode())
    finally:
        os.close(handle)


class _Helper:
    """A forked process that does one piece of work on request, with the rights it was forked with."""

    def __init__(self, work: Callable[[], None]) -> None:
        started, self._start = os.pipe()
        self._answer, answer = os.pipe()
        self._pid = os.fork()
        if self._pid == 0:
            number = 1
            try:
                os.close(self._start)
                if os.read(started, 1):
                    work()
                number = 0
            except OSError as error:
                number = error.errno or 1
            finally:
                os.write(answer, _ERRNO.pack(number))
                os._exit(0)
        os.close(started)
        os.close(answer)

    def dismiss(self) -> None:
        """End it without its work."""
        os.close(self._start)
        os.close(self._answer)
        os.waitpid(self._pid, 0)

    def finish(self, step: str) -> None:
        """Let it do its work and wait for its end; OSError with its reason."""
        os.write(self._start, b"s")
        os.close(self._start)
        result = os.read(self._answer, _ERRNO.size)
        os.close(self._answer)
        os.waitpid(self._pid, 0)
        number = _ERRNO.unpack(result)[0] if result else 1
        if number:
            raise OSError(number, f"{step}: {os.strerror(number)}")


def _succeeds(work: Callable[[], None]) -> bool:
    """Do ``work`` in a process of its own."""
    try:
        _Helper(work).finish("")
    except OSError:
        return False
    return True

"""Runs a command as on a machine with fewer kernel features, to test the sandbox there.

``python -m tests.support.restricted_kernel`` has these forms::

    restricted_kernel filter -- command     as in default Docker: a filter refuses namespaces and mounts
    restricted_kernel full -- command       no further user namespace is allowed (max_user_namespaces)
    restricted_kernel landlock -- command   a kernel without Landlock
    restricted_kernel nothing -- command    neither namespaces nor Landlock
    restricted_kernel mounts -- command     as on Ubuntu: a user namespace is allowed, mounts are refused

The command and its children cannot undo the restriction. A filter stays. The limit applies to a new user namespace,
in which the command keeps its user id (and, if that is root's, no other id).
"""

from __future__ import annotations

import errno
import os
import platform
import sys
from collections.abc import Iterable
from pathlib import Path

from functory.workers.sandbox.confinement import syscalls
from functory.workers.sandbox.confinement.seccomp import filter as seccomp_filter
from functory.workers.sandbox.confinement.seccomp.bpf import EQUAL, NUMBER, Builder, Return, Target, low_word
from functory.workers.sandbox.confinement.seccomp.syscall_numbers import NUMBERS

_ALLOW, _ERRNO = Return(0x7FFF0000), 0x00050000  # linux/seccomp.h
_MOUNTS = ("mount", "umount2", "pivot_root", "open_tree", "move_mount", "mount_setattr", "fsopen", "fsmount")
_NAMESPACES = 0x7E020000  # all CLONE_NEW* of linux/sched.h but the one of time
_LANDLOCK = ("landlock_create_ruleset", "landlock_add_rule", "landlock_restrict_self")


def refusing(calls: Iterable[str], number: int, *, clone: bool = False) -> bytes:
    """A filter that fails ``calls`` with the error ``number`` and allows all others; ``clone`` fails only for new
    namespaces."""
    numbers = NUMBERS[platform.machine()]
    code = Builder()
    start: Target = _ALLOW
    if clone:
        code.jump(EQUAL, 0, _ALLOW, Return(_ERRNO | number))
        code.mask(_NAMESPACES)
        block = code.load(low_word(0))
        start = code.jump(EQUAL, numbers["clone"], block, start)
        start = code.jump(EQUAL, numbers["clone3"], Return(_ERRNO | errno.ENOSYS), start)
    for call in calls:
        start = code.jump(EQUAL, numbers[call], Return(_ERRNO | number), start)
    code.load(NUMBER)
    return code.program()


def without_user_namespaces() -> None:
    """Allow no further user namespaces (user_namespaces(7), ``/proc/sys/user``)."""
    uid, gid = os.geteuid(), os.getegid()
    syscalls.unshare(syscalls.CLONE_NEWUSER, "make a user namespace")
    Path("/proc/self/setgroups").write_text("deny")
    Path("/proc/self/gid_map").write_text(f"{gid} {gid} 1")
    Path("/proc/self/uid_map").write_text(f"{uid} {uid} 1")
    Path("/proc/sys/user/max_user_namespaces").write_text("0")


def main(arguments: list[str]) -> None:
    match arguments:
        case ["filter", "--", *command]:
            seccomp_filter.load(refusing(("unshare", "setns", *_MOUNTS), errno.EPERM, clone=True))
        case ["nothing", "--", *command]:
            seccomp_filter.load(refusing(_LANDLOCK, errno.ENOSYS))
            seccomp_filter.load(refusing(("unshare", "setns", *_MOUNTS), errno.EPERM, clone=True))
        case ["mounts", "--", *command]:
            seccomp_filter.load(refusing(_MOUNTS, errno.EACCES))
        case ["landlock", "--", *command]:
            seccomp_filter.load(refusing(_LANDLOCK, errno.ENOSYS))
        case ["full", "--", *command]:
            without_user_namespaces()
        case _:
            sys.exit(f"usage:{__doc__}")
    os.execvp(command[0], command)


if __name__ == "__main__":
    main(sys.argv[1:])

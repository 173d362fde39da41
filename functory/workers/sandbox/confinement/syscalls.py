"""System calls that Python has no function for, each named as in its manual page.

Linux only; importing this elsewhere is harmless, calling raises. Every function raises ``OSError`` whose text
begins with the step that failed (``mount tmpfs on /rw/tmp: Operation not permitted``), so that the reader
sees what the kernel refused. Constants are grouped under the name of the header that defines them; numbers of
system calls from 424 on are the same on all architectures.
"""

from __future__ import annotations

import ctypes
import errno
import itertools
import os
import platform
import re
import struct

# linux/sched.h
CLONE_NEWNS = 0x00020000
CLONE_NEWUTS = 0x04000000
CLONE_NEWIPC = 0x08000000
CLONE_NEWUSER = 0x10000000
CLONE_NEWPID = 0x20000000
CLONE_NEWNET = 0x40000000
# linux/mount.h
MS_RDONLY, MS_NOSUID, MS_NODEV, MS_NOEXEC = 0x1, 0x2, 0x4, 0x8
MS_BIND, MS_REC, MS_PRIVATE = 0x1000, 0x4000, 0x40000
MNT_DETACH = 0x2
OPEN_TREE_CLONE = 0x1
OPEN_TREE_CLOEXEC = os.O_CLOEXEC
MOVE_MOUNT_F_EMPTY_PATH = 0x4
MOUNT_ATTR_RDONLY, MOUNT_ATTR_NOSUID, MOUNT_ATTR_NODEV, MOUNT_ATTR_NOEXEC = 0x1, 0x2, 0x4, 0x8
# linux/fcntl.h
AT_FDCWD = -100
AT_EMPTY_PATH = 0x1000
AT_RECURSIVE = 0x8000
# linux/openat2.h
RESOLVE_NO_MAGICLINKS, RESOLVE_NO_SYMLINKS = 0x2, 0x4
# linux/prctl.h
PR_SET_PDEATHSIG = 1
PR_SET_DUMPABLE = 4
PR_CAPBSET_DROP = 24
PR_SET_CHILD_SUBREAPER = 36
PR_SET_NO_NEW_PRIVS = 38
# linux/capability.h
CAP_DAC_OVERRIDE, CAP_KILL, CAP_SETGID, CAP_SETUID, CAP_SYS_ADMIN = 1, 5, 6, 7, 21
_CAPABILITY_VERSION_3 = 0x20080522

_SYS_OPEN_TREE = 428
_SYS_MOVE_MOUNT = 429
_SYS_CLOSE_RANGE = 436
_SYS_OPENAT2 = 437
_SYS_MOUNT_SETATTR = 442
_SYS_PIVOT_ROOT = {"x86_64": 155, "aarch64": 41}

# The interpreter lock is kept: no call here blocks, and releasing it costs more than most of them do.
_libc = ctypes.PyDLL(None, use_errno=True)
_libc.syscall.restype = ctypes.c_long


def _check(result: int, step: str) -> int:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{step}: {os.strerror(number)}")
    return result


def syscall(step: str, number: int, *arguments: int | bytes | None) -> int:
    """syscall(2); integers are passed as C longs, bytes by their address, to be read."""
    plain = [ctypes.c_long(a) if isinstance(a, int) else a for a in arguments]
    return _check(_libc.syscall(ctypes.c_long(number), *plain), step)


def release() -> tuple[int, int]:
    """Return the version of the running kernel, for features that cannot be detected otherwise."""
    found = re.match(r"(\d+)\.(\d+)", platform.release())
    return (int(found[1]), int(found[2])) if found else (0, 0)


def unshare(flags: int, step: str) -> None:
    """unshare(2)"""
    _check(_libc.unshare(ctypes.c_int(flags)), step)


def setns(descriptor: int, kind: int, step: str) -> None:
    """setns(2)"""
    _check(_libc.setns(ctypes.c_int(descriptor), ctypes.c_int(kind)), step)


def mount(source: str, target: str, kind: str, flags: int = 0, options: str = "") -> None:
    """mount(2)"""
    done = _libc.mount(
        os.fsencode(source),
        os.fsencode(target),
        kind.encode() or None,
        ctypes.c_ulong(flags),
        options.encode() or None,
    )
    _check(done, f"mount {kind or source} on {target}")


def unmount(target: str, flags: int = 0) -> None:
    """umount2(2)"""
    _check(_libc.umount2(os.fsencode(target), ctypes.c_int(flags)), f"unmount {target}")


def pivot_root(new: str, old: str) -> None:
    """pivot_root(2)"""
    number = _SYS_PIVOT_ROOT[platform.machine()]
    syscall(f"pivot the root to {new}", number, os.fsencode(new), os.fsencode(old))


def open_path(path: str, *, links: bool = True) -> int:
    """Open an O_PATH descriptor of ``path``; without ``links`` no link is followed anywhere on the way.

    openat2(2). A link may have replaced a granted path since it was checked.
    """
    flags = os.O_PATH | os.O_CLOEXEC
    if links:
        return os.open(path, flags)
    how = struct.pack("=QQQ", flags, 0, RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS)
    try:
        return syscall(f"open {path}", _SYS_OPENAT2, AT_FDCWD, os.fsencode(path), how, len(how))
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise OSError(
                error.errno, f"{path} is reached by a link: grant the place that it leads to"
            ) from None
        raise


def open_tree(place: int, path: str) -> int:
    """open_tree(2): copy, detached, the mount that an O_PATH descriptor names, with all mounts below it."""
    flags = OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | AT_RECURSIVE | AT_EMPTY_PATH
    return syscall(f"copy the mount of {path}", _SYS_OPEN_TREE, place, b"", flags)


def move_mount(tree: int, target: str) -> None:
    """move_mount(2): attach a tree of ``open_tree``."""
    syscall(
        f"bind to {target}",
        _SYS_MOVE_MOUNT,
        tree,
        b"",
        AT_FDCWD,
        os.fsencode(target),
        MOVE_MOUNT_F_EMPTY_PATH,
    )


class _MountAttributes(ctypes.Structure):
    """struct mount_attr of linux/mount.h"""

    _fields_ = [(name, ctypes.c_uint64) for name in ("set", "clear", "propagation", "userns")]


def set_mount(tree: int, attributes: int, path: str = "", *, recursive: bool = True) -> None:
    """mount_setattr(2): add ``MOUNT_ATTR_*`` to a mount, named by a descriptor or a path, and those below."""
    record = bytes(_MountAttributes(set=attributes))
    flags = (AT_RECURSIVE if recursive else 0) | (0 if path else AT_EMPTY_PATH)
    step = f"set the flags of the mount {path}".rstrip()
    syscall(
        step,
        _SYS_MOUNT_SETATTR,
        tree,
        os.fsencode(path),
        flags,
        record,
        ctypes.sizeof(_MountAttributes),
    )


def prctl(option: int, value: int, step: str) -> int:
    """prctl(2) with one argument."""
    done = _libc.prctl(
        ctypes.c_int(option), ctypes.c_ulong(value), ctypes.c_ulong(0), ctypes.c_ulong(0), ctypes.c_ulong(0)
    )
    return _check(done, step)


def die_with_parent() -> None:
    """Be killed when the parent ends (PR_SET_PDEATHSIG). A change of ids forgets it."""
    prctl(PR_SET_PDEATHSIG, 9, "ask to end with the parent")


def no_new_privileges() -> None:
    """PR_SET_NO_NEW_PRIVS: no program that is executed from here on gains rights."""
    prctl(PR_SET_NO_NEW_PRIVS, 1, "give up new privileges")


class _CapabilityHeader(ctypes.Structure):
    """struct __user_cap_header_struct of linux/capability.h"""

    _fields_ = [("version", ctypes.c_uint32), ("pid", ctypes.c_int)]


_CapabilityData = ctypes.c_uint32 * 6  # effective, permitted, inheritable: low halves, then high halves
_OWN = _CapabilityHeader(_CAPABILITY_VERSION_3, 0)
_NONE = _CapabilityData()


def keep_capabilities(kept: tuple[int, ...]) -> None:
    """capset(2): have exactly ``kept`` (numbers below 32), effective and permitted; none inheritable."""
    mask = sum(1 << capability for capability in kept)
    data = _CapabilityData(mask, mask, 0, 0, 0, 0)
    _check(_libc.capset(ctypes.byref(_OWN), ctypes.byref(data)), "keep some capabilities")


def give_up_capabilities() -> None:
    """capset(2): have none."""
    _check(_libc.capset(ctypes.byref(_OWN), ctypes.byref(_NONE)), "give up capabilities")


def bound_capabilities(kept: tuple[int, ...]) -> None:
    """Take all capabilities but ``kept`` out of the bounding set; needs CAP_SETPCAP."""
    for capability in range(64):
        if capability in kept:
            continue
        try:
            prctl(PR_CAPBSET_DROP, capability, f"bound capability {capability}")
        except OSError as error:
            if error.errno == 22:  # EINVAL: the kernel has no more of them
                return
            raise


def close_all_but(kept: set[int]) -> None:
    """close_range(2): close every open descriptor that is not among ``kept``."""
    for before, after in itertools.pairwise((-1, *sorted(kept), 1 << 32)):
        if after - before > 1:
            step = f"close descriptors between {before} and {after}"
            syscall(step, _SYS_CLOSE_RANGE, before + 1, after - 1, 0)

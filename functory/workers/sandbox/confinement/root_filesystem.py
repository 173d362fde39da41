"""Builds the file tree of a zygote and its children, where there are mount namespaces.

A small tmpfs becomes the root; what ``visible_paths`` allows is bound into it read-only, the old root is
detached. ``namespaces.enter`` runs in two steps because of user ids: ``copy_mounts`` copies the mounts with
the rights of the user that can reach them, ``build_root`` makes the tree with the ids that own it. A child
then mounts its own scratch and ``/proc``.

    /usr/lib …      shared libraries, interpreter, packages, granted paths: at their own places
    /dev            null zero full random urandom
    /rw/tmp         the child's scratch; /tmp, /var/tmp and /dev/shm lead here
    /ro/proc        the child's /proc
    /ro/kept        granted paths below /tmp, from where they are bound into each scratch

Mount points and their parents are apart, so that one Landlock rule for ``/rw`` holds for everything that is
mounted below: a rule for a folder that is mounted over holds for nothing.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Collection
from pathlib import Path

import msgspec

from functory.workers.sandbox.confinement import syscalls
from functory.workers.sandbox.confinement.visible_paths import DEVICES, VisiblePaths, in_scratch

_READ_ONLY = syscalls.MOUNT_ATTR_RDONLY | syscalls.MOUNT_ATTR_NOSUID | syscalls.MOUNT_ATTR_NODEV
_WRITABLE = syscalls.MOUNT_ATTR_NOSUID | syscalls.MOUNT_ATTR_NODEV
_DEVICE = syscalls.MOUNT_ATTR_RDONLY | syscalls.MOUNT_ATTR_NOSUID | syscalls.MOUNT_ATTR_NOEXEC
_PRIVATE = syscalls.MS_NOSUID | syscalls.MS_NODEV
_PROC = syscalls.MS_RDONLY | _PRIVATE | syscalls.MS_NOEXEC
_KEPT = "/ro/kept"
_WORKING = "/rw/tmp"
_LINKS = (
    ("/tmp", "rw/tmp"),  # noqa: S108
    ("/var/tmp", "../rw/tmp"),  # noqa: S108
    ("/proc", "ro/proc"),
    ("/dev/shm", "../rw/tmp"),  # noqa: S108
    ("/dev/fd", "../proc/self/fd"),
)


class DetachedMount(msgspec.Struct):
    """A detached mount and where it goes."""

    target: str
    descriptor: int
    is_folder: bool


class ScratchMount(msgspec.Struct, frozen=True):
    """A granted path below ``/tmp`` that is bound into every child's scratch."""

    source: str
    target: str
    is_folder: bool


def copy_mounts(places: VisiblePaths, granted: Collection[str]) -> list[DetachedMount]:
    """Return detached copies of all mounts that the root will have, with their final flags.

    No link is followed on the way to a ``granted`` path.
    """
    trees = []
    for paths, attributes in (
        (places.shared, _READ_ONLY),
        ([path for path in DEVICES if Path(path).exists()], _DEVICE),
        (places.read, _READ_ONLY),
        (places.write, _WRITABLE),
    ):
        for path in paths:
            place = syscalls.open_path(path, links=path not in granted)
            is_folder = stat.S_ISDIR(os.fstat(place).st_mode)
            tree = DetachedMount(path, syscalls.open_tree(place, path), is_folder)
            os.close(place)
            syscalls.set_mount(tree.descriptor, attributes)
            trees.append(tree)
    return trees


def mount_empty_root(base: str) -> None:
    """Mount an empty root on ``base``, with a place for /proc, and make it the working folder."""
    syscalls.mount("none", "/", "", syscalls.MS_REC | syscalls.MS_PRIVATE)
    syscalls.mount("tmpfs", base, "tmpfs", _PRIVATE, "mode=0755,uid=0,gid=0,size=1m,nr_inodes=4096")
    os.chdir(base)


def make_proc_mount_point() -> None:
    """Make the mount point of ``/proc`` in the working folder: it must be mounted before the old one is gone."""
    Path("ro/proc").mkdir(parents=True)


def mount_empty_proc() -> None:
    """Mount the /proc of a PID namespace that ends at once, in a process of its own.

    It shows no process, so no process can be found through it; but the kernel lets user namespaces mount a
    new /proc only where a whole one is seen already (``mount_too_revealing`` in its fs/namespace.c).
    """
    syscalls.unshare(syscalls.CLONE_NEWPID, "make a PID namespace")
    pid = os.fork()
    if pid == 0:
        try:
            syscalls.mount("proc", "ro/proc", "proc", _PROC)
        except OSError:
            os._exit(1)
        os._exit(0)
    if os.waitpid(pid, 0)[1] != 0:
        raise OSError("mount proc")


def build_root(places: VisiblePaths, trees: list[DetachedMount]) -> list[ScratchMount]:
    """Make the working folder the root, detach the old one, and put everything at its place."""
    syscalls.pivot_root(".", ".")
    syscalls.unmount(".", syscalls.MNT_DETACH)
    os.chdir("/")
    for folder in ("/dev", "/rw/tmp", "/var", _KEPT):
        Path(folder).mkdir(parents=True, exist_ok=True)
    for path, target in (*_LINKS, *places.links):
        Path(path).parent.mkdir(parents=True, exist_ok=True)
        Path(path).symlink_to(target)
    masked = []
    granted = {*places.read, *places.write}
    for tree in [tree for tree in trees if tree.target not in granted]:
        _attach(tree, tree.target)
    for path in places.hidden:
        syscalls.mount("tmpfs", path, "tmpfs", _PRIVATE, "mode=0755,size=4k,nr_inodes=64")
        masked.append(path)
    kept = []
    for number, tree in enumerate(tree for tree in trees if tree.target in granted):
        if in_scratch(tree.target):
            source = f"{_KEPT}/{number}"
            _attach(tree, source)
            kept.append(ScratchMount(source, tree.target, tree.is_folder))
            _bind(kept[-1])
        else:
            _attach(tree, tree.target)
    for path in masked:
        syscalls.set_mount(syscalls.AT_FDCWD, _READ_ONLY, path, recursive=False)
    syscalls.set_mount(syscalls.AT_FDCWD, _READ_ONLY, "/", recursive=False)
    return kept


def mount_child_filesystem(
    size: int, files: int, owner: int, scratch_mounts: list[ScratchMount], *, proc: bool, execute: bool
) -> None:
    """In a child with its own mount namespace: its scratch of ``size`` bytes, what it keeps, its /proc."""
    options = f"mode=0700,uid={owner},gid={owner},size={size},nr_inodes={files}"
    flags = _PRIVATE if execute else _PRIVATE | syscalls.MS_NOEXEC
    syscalls.mount("tmpfs", _WORKING, "tmpfs", flags, options)
    for one in scratch_mounts:
        _bind(one)
    if proc:
        mount_proc()


def mount_proc() -> None:
    """Mount a /proc with the processes of this PID namespace, and nothing of the system."""
    syscalls.mount("proc", "/ro/proc", "proc", _PROC, "subset=pid,hidepid=2")


def _attach(tree: DetachedMount, target: str) -> None:
    _make(target, tree.is_folder)
    syscalls.move_mount(tree.descriptor, target)
    os.close(tree.descriptor)


def _bind(kept: ScratchMount) -> None:
    _make(kept.target, kept.is_folder)
    syscalls.mount(kept.source, kept.target, "", syscalls.MS_BIND | syscalls.MS_REC)


def _make(path: str, is_folder: bool) -> None:
    """Make an empty folder or file to mount on; 0755, so that the way to a granted path is open."""
    place = Path(path)
    if place.exists():
        return
    place.parent.mkdir(parents=True, exist_ok=True, mode=0o755)
    if is_folder:
        place.mkdir(mode=0o755)
    else:
        place.touch(mode=0o644)

"""The root of a watch: the real folder behind its path, and whether the kernel reports all changes there.

The path of a watch may be a symbolic link, may disappear and come back, and may be one file. A file is watched through
its folder, because programs often replace a file by a new one of the same name.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

MOUNTS = Path("/proc/self/mounts")
# File systems that other machines change: the kernel reports local changes only. An overlay reports its upper layer
# only.
_UNREPORTED = frozenset({
    "nfs", "nfs4", "cifs", "smb3", "smbfs", "ncpfs", "afs", "ceph", "glusterfs", "lustre", "9p", "virtiofs",
    "overlay", "overlayfs", "aufs", "vboxsf", "vmhgfs", "prl_fs", "beegfs", "gpfs", "ocfs2", "gfs2",
})  # fmt: skip


@dataclass(frozen=True)
class WatchRoot:
    """``folder`` is a real absolute path; ``file_name`` the name of the only watched file in it, if any."""

    folder: bytes
    file_name: bytes | None
    device: int
    inode: int

    def path(self, relative: bytes) -> bytes:
        """The real absolute path of one of its files."""
        return os.path.join(self.folder, relative)

    def relative(self, path: bytes) -> bytes | None:
        """An absolute path relative to this root; None for a path outside."""
        start = self.folder.rstrip(b"/") + b"/"
        if not path.startswith(start):
            return None
        relative = path[len(start) :]
        return relative if relative and self.file_name in (None, relative) else None

    def is_unchanged(self) -> bool:
        """True if the folder is still the one that was found."""
        try:
            found = os.stat(self.folder)
        except OSError:
            return False
        return (found.st_dev, found.st_ino) == (self.device, self.inode)


@dataclass(frozen=True)
class RootMissing:
    """The reason why the root cannot be watched."""

    problem: str


def find_root(path: str, cursor: Mapping[str, Any]) -> WatchRoot | RootMissing:
    """The root at ``path`` as it is now. ``cursor`` is the result of :func:`root_cursor` when it was last found."""
    real = os.path.realpath(os.fsencode(path))
    single = cursor.get("file")
    if single is None:
        single = os.path.isfile(real)
    folder = os.path.dirname(real) if single else real
    try:
        found = os.stat(folder)
        if not stat.S_ISDIR(found.st_mode):
            return RootMissing(f"{path} is no longer a folder")
        if not single:
            known = cursor.get("device")
            if known not in (None, found.st_dev) and _is_empty(folder):
                # A file system that was mounted there is missing: its files are not deleted.
                return RootMissing(
                    f"{path} is empty, and on another file system than before: is it not mounted?"
                )
    except OSError as error:
        return RootMissing(f"{os.fsdecode(folder)} cannot be watched: {error.strerror or error}")
    return WatchRoot(folder, os.path.basename(real) if single else None, found.st_dev, found.st_ino)


def root_cursor(root: WatchRoot) -> dict[str, Any]:
    """The part of the watch's cursor that describes its root."""
    return {"file": root.file_name is not None, "device": root.device}


def _is_empty(folder: bytes) -> bool:
    with os.scandir(folder) as entries:
        return next(entries, None) is None


def polled_file_system(folder: str, mounts: Path = MOUNTS) -> str | None:
    """The type of the file system at ``folder`` when it has to be polled, else None.

    Every FUSE file system (``fuse.sshfs``, …) is polled. Without a table of mounts none is.
    """
    try:
        lines = mounts.read_bytes().splitlines()
    except OSError:
        return None
    real = os.path.realpath(os.fsencode(folder))
    best, kind = b"", b""
    for line in lines:
        fields = line.split(b" ")
        if len(fields) < 3:
            continue
        place = _unescape(fields[1])
        inside = real == place or real.startswith(place.rstrip(b"/") + b"/")
        # The last one wins: a mount hides what was mounted there before.
        if inside and len(place) >= len(best):
            best, kind = place, fields[2]
    name = kind.decode("ascii", "replace")
    return name if name in _UNREPORTED or name.split(".")[0] in ("fuse", "fuseblk") else None


def _unescape(field: bytes) -> bytes:
    """A field of the table without its octal escapes (fstab(5): space, tab, newline, backslash)."""
    for code, letter in ((b"\\040", b" "), (b"\\011", b"\t"), (b"\\012", b"\n"), (b"\\134", b"\\")):
        field = field.replace(code, letter)
    return field

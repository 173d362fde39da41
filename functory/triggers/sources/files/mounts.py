"""Which file systems the kernel reports changes of: those whose changes are all made on this machine."""

from __future__ import annotations

import os
from pathlib import Path

# Others change these: the kernel hears only of what was done here. An overlay tells of its upper layer alone.
_SILENT = frozenset({
    "nfs", "nfs4", "cifs", "smb3", "smbfs", "ncpfs", "afs", "ceph", "glusterfs", "lustre", "9p", "virtiofs",
    "overlay", "overlayfs", "aufs", "vboxsf", "vmhgfs", "prl_fs", "beegfs", "gpfs", "ocfs2", "gfs2",
})  # fmt: skip

MOUNTS = Path("/proc/self/mounts")


def polled_file_system(folder: str, mounts: Path = MOUNTS) -> str | None:
    """The kind of file system at ``folder`` when it has to be polled, else None.

    Every FUSE file system (``fuse.sshfs``, …) is one of them. Without a table of mounts nothing is known to be silent.
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
        place = _plain(fields[1])
        inside = real == place or real.startswith(place.rstrip(b"/") + b"/")
        # The last one wins: a mount hides what was mounted there before.
        if inside and len(place) >= len(best):
            best, kind = place, fields[2]
    name = kind.decode("ascii", "replace")
    return name if name in _SILENT or name.split(".")[0] in ("fuse", "fuseblk") else None


def _plain(field: bytes) -> bytes:
    """A field of the table without its octal escapes (fstab(5): space, tab, newline, backslash)."""
    for code, letter in ((b"\\040", b" "), (b"\\011", b"\t"), (b"\\012", b"\n"), (b"\\134", b"\\")):
        field = field.replace(code, letter)
    return field

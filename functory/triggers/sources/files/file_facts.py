"""Facts of a file from the file system, and its content hash.

File names and files come from outside. Only regular files are opened, symbolic links are followed only if configured,
and no open waits (for a pipe that was put in a file's place).
"""

from __future__ import annotations

import errno
import fcntl
import os
import signal
import stat
from dataclasses import dataclass

from functory.engine.sources import file_watches
from functory.engine.sources.file_watches import KnownFile

_GONE = (errno.ENOENT, errno.ENOTDIR, errno.ELOOP, errno.ENXIO)


class FileChanging(Exception):
    """The file changed while it was read."""


@dataclass(frozen=True, slots=True)
class FileFacts:
    """Facts of a regular file from the file system."""

    size: int
    mtime_ns: int
    ctime_ns: int
    inode: str

    @classmethod
    def from_stat(cls, found: os.stat_result) -> FileFacts | None:
        """The facts; None for anything but a regular file."""
        if not stat.S_ISREG(found.st_mode):
            return None
        inode = f"{found.st_dev}:{found.st_ino}"
        return cls(found.st_size, _bounded(found.st_mtime_ns), _bounded(found.st_ctime_ns), inode)

    def unchanged_since(self, seen: KnownFile) -> bool:
        """True if the file cannot have changed since ``seen`` was stored."""
        return (self.size, self.mtime_ns, self.ctime_ns, self.inode) == (
            seen.size,
            seen.mtime_ns,
            seen.ctime_ns,
            seen.inode,
        )


def _bounded(nanoseconds: int) -> int:
    """A time that databases can hold: files may claim to be of the year 2446, 64 bits end in 2262."""
    return max(-(2**63), min(nanoseconds, 2**63 - 1))


def stat_file(path: bytes, *, follow: bool) -> FileFacts | None:
    """The facts of a file; None when there is none, or something else in its place.

    Raises OSError when that cannot be known: a folder above may not be entered, a server does not answer.
    """
    try:
        return FileFacts.from_stat(os.stat(path, follow_symlinks=follow))
    except OSError as error:
        if error.errno in _GONE:
            return None
        raise


def read_file(root: bytes, path: bytes, most: int, *, follow: bool) -> KnownFile | None:
    """The file ``path`` below ``root`` (without links), with its content's hash if it has at most ``most`` bytes.

    None when it is gone; one that cannot be read has its ``problem``. Raises :class:`FileChanging` when it
    changes meanwhile, OSError when its facts cannot be read.
    """
    whole = os.path.join(root, path)
    flags = os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC | (0 if follow else os.O_NOFOLLOW)
    try:
        descriptor = os.open(whole, flags)
    except OSError as error:
        if error.errno in _GONE:
            return None
        return _unread(path, whole, follow, error)
    try:
        found = FileFacts.from_stat(os.fstat(descriptor))
        if found is None or (not follow and not _is_at(descriptor, whole)):
            return None
        if found.size > most:
            return _seen(path, found)
        sha256 = file_watches.hash_content(descriptor, most)
        if FileFacts.from_stat(os.fstat(descriptor)) != found:
            raise FileChanging
        return _seen(path, found, sha256)
    except OSError as error:
        return _unread(path, whole, follow, error)
    finally:
        os.close(descriptor)


def is_being_written(path: bytes, *, follow: bool) -> bool | None:
    """True if a program on this machine has the file open for writing. None if that cannot be known.

    The kernel gives a read lease (fcntl(2), F_SETLEASE) only on a file that no program has open for writing, and only
    to the file's owner and to root. The lease is given back at once; a program that opens the file meanwhile waits
    that long.
    """
    flags = os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC | (0 if follow else os.O_NOFOLLOW)
    try:
        descriptor = os.open(path, flags)
    except OSError:
        return None
    try:
        # Without it, a broken lease sends SIGIO, which ends the process.
        fcntl.fcntl(descriptor, fcntl.F_SETSIG, signal.SIGURG)
        fcntl.fcntl(descriptor, fcntl.F_SETLEASE, fcntl.F_RDLCK)
        fcntl.fcntl(descriptor, fcntl.F_SETLEASE, fcntl.F_UNLCK)
        return False
    except OSError as error:
        return True if error.errno in (errno.EAGAIN, errno.EBUSY) else None
    finally:
        os.close(descriptor)


def _is_at(descriptor: int, path: bytes) -> bool:
    """True if the open file is the one at ``path``: a folder above it may have become a link meanwhile."""
    try:
        return os.readlink(b"/proc/self/fd/%d" % descriptor) == path
    except FileNotFoundError:
        # Without /proc it cannot be checked.
        return True


def _unread(path: bytes, whole: bytes, follow: bool, error: OSError) -> KnownFile | None:
    found = stat_file(whole, follow=follow)
    return None if found is None else _seen(path, found, problem=error.strerror or str(error))


def _seen(path: bytes, found: FileFacts, sha256: str | None = None, problem: str | None = None) -> KnownFile:
    return KnownFile(path, found.size, found.mtime_ns, found.ctime_ns, found.inode, sha256, problem)

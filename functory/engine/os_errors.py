"""What an error of the operating system means for a user, and what to do: its own text is only its number in words."""

from __future__ import annotations

import errno
import socket

from functory.engine.errors import FunctoryError, Invalid, Unavailable

_Kind = tuple[type[FunctoryError], str, str]

_DENIED: _Kind = (
    Invalid,
    "{} may not be read or written",
    "give the user that runs the command the rights (ls -ld PATH shows them), or run it as the owner",
)
_FULL: _Kind = (
    Unavailable,
    "{} cannot be written",
    "free disk space (df -h), or raise the quota or the limit of file sizes (ulimit -f)",
)
_FILES: _Kind = (
    Unavailable,
    "this process may not open more files",
    "raise the limit: ulimit -n 4096, or LimitNOFILE= of systemd",
)
_MEMORY: _Kind = (
    Unavailable,
    "the system gives this process no more memory, threads or processes",
    "end other programs, or raise the limits (ulimit -v, ulimit -u)",
)
_NETWORK: _Kind = (
    Unavailable,
    "another machine or program does not answer",
    "check its address, that it runs, and the network between",
)
_ADDRESS: _Kind = (
    Unavailable,
    "this machine does not have the address, or no free port for it",
    "choose an address that it has: ip addr shows them",
)
_MISSING: _Kind = (Invalid, "{} is not there", "check the path")
_KINDS: dict[int, _Kind] = {
    errno.EACCES: _DENIED,
    errno.EPERM: _DENIED,
    errno.EROFS: (
        Invalid,
        "{} is on a read-only file system",
        "mount it with write access, or name a folder on another file system",
    ),
    errno.ENOSPC: _FULL,
    errno.EDQUOT: _FULL,
    errno.EFBIG: _FULL,
    errno.EMFILE: _FILES,
    errno.ENFILE: _FILES,
    errno.ENOMEM: _MEMORY,
    errno.EAGAIN: _MEMORY,
    errno.ENOENT: _MISSING,
    errno.ENOTDIR: _MISSING,
    errno.ELOOP: _MISSING,
    errno.EISDIR: (Invalid, "{} is a folder", "name a file"),
    errno.EEXIST: (Invalid, "{} exists already", "name another one, or move it away"),
    errno.ENAMETOOLONG: (Invalid, "a path is too long", "use shorter names, or a folder nearer to /"),
    errno.EADDRINUSE: (
        Unavailable,
        "the address is in use",
        "end the other program (ss -ltnp names it), or choose another port",
    ),
    errno.EADDRNOTAVAIL: _ADDRESS,
    errno.EAFNOSUPPORT: _ADDRESS,
    errno.EBADF: (
        Invalid,
        "a stream that is needed is closed",
        "start it with a stdout: >/dev/null leaves its output out, and >&- closes it",
    ),
    errno.ECONNREFUSED: _NETWORK,
    errno.ECONNRESET: _NETWORK,
    errno.ENETUNREACH: _NETWORK,
    errno.EHOSTUNREACH: _NETWORK,
    errno.ETIMEDOUT: _NETWORK,
}
_NAME: _Kind = (
    Unavailable,
    "a host name was not found",
    "check the name, /etc/hosts and /etc/resolv.conf of this machine",
)
_OTHER: _Kind = (
    FunctoryError,
    "the system refuses {}",
    "check the disk and the log of the kernel (dmesg); FUNCTORY_DEBUG=1 shows where it happened",
)


def is_of_system(error: BaseException) -> bool:
    """Return True for an error that the system causes, by a file, a network, or a limit of this process."""
    # Python has no class for the last one.
    return isinstance(error, OSError | MemoryError) or (
        isinstance(error, RuntimeError) and str(error) == "can't start new thread"
    )


def explain(error: BaseException, what: str = "") -> FunctoryError:
    """Return the error of the system with what, why and what to try. ``what``: what the caller was about to do."""
    if not isinstance(error, OSError):
        kind, said, place = _MEMORY, str(error) or "the memory that it may use is full", ""
    else:
        # The numbers of gaierror are of another list.
        known = _NAME if isinstance(error, socket.gaierror) else _KINDS.get(error.errno or 0, _OTHER)
        kind = _NETWORK if known is _OTHER and isinstance(error, TimeoutError) else known
        said = error.strerror or str(error) or type(error).__name__
        place = " and ".join(str(name) for name in (error.filename, error.filename2) if name is not None)
    error_class, happened, advice = kind
    return error_class(
        what or happened.format(place or "a file"), f"{place}: {said}" if what and place else said, advice
    )

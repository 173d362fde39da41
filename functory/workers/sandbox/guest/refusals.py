"""Explains an error that comes from the sandbox and not from the code: which grant is missing, and how to give it.

A file that is not granted does not exist for a function, and clients wrap the refusal of a connection in errors of
their own. What is said about a file follows from its path and the grants alone, so it does not tell whether there is
one.
"""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from functory.workers.sandbox.guest import network
from functory.workers.sandbox.protocol.job import Grants

_MOST_CAUSES = 50
# A missing file, or one that may not be opened or changed.
_OF_FILES = (errno.ENOENT, errno.EACCES, errno.EPERM, errno.EROFS)
# What every function sees, and what none is ever granted.
_OTHERS = ("/usr", "/lib", "/lib64", "/bin", "/sbin", "/etc/ssl", "/etc/pki", "/dev", "/proc", "/sys", "/run")
_SCRATCH = ("/tmp", "/var/tmp")  # noqa: S108 - each child's own


def explanation(error: BaseException, message: str, grants: Grants) -> str:
    """Return lines that belong below ``message``, the message of ``error``; empty when it has another reason."""
    for cause in _causes(error):
        if isinstance(cause, OSError):
            refusal = network.refusal_of(cause)
            if refusal:
                return "" if refusal in message else refusal
            if cause is error or cause is error.__cause__:
                text = _of_file(cause, grants)
                if text:
                    return text
    return ""


def _causes(error: BaseException) -> Iterator[BaseException]:
    """Yield the error, those of its group, and those that it was raised from or during, each once."""
    pending: list[BaseException | None] = [error]
    seen: set[int] = set()
    while pending and len(seen) < _MOST_CAUSES:
        one = pending.pop(0)
        if one is None or id(one) in seen:
            continue
        seen.add(id(one))
        yield one
        pending += [one.__cause__, one.__context__]
        if isinstance(one, BaseExceptionGroup):
            pending += one.exceptions


def _of_file(error: OSError, grants: Grants) -> str:
    given = error.filename
    if error.errno not in _OF_FILES or not isinstance(given, str | bytes):
        return ""
    name = os.fsdecode(given)
    if not name.isprintable() or '"' in name:
        return ""
    if not name.startswith("/"):
        return (
            (
                f"{name} was looked for in the function's own folder, which is empty when it starts\n"
                'try: use its absolute path, and files={"read": ["/its/path"]}'
            )
            if error.errno == errno.ENOENT
            else ""
        )
    path = os.path.normpath(name)
    if _below(path, grants.write) or _is_own(path):
        return ""
    if _below(path, grants.read):
        if error.errno == errno.ENOENT:
            return ""
        return f'{path} is granted to be read, and not to be changed\ntry: files={{"write": ["{path}"]}}'
    return (
        f"the function has no grant for {path}, so it sees nothing there, whether it exists or not\n"
        f'try: if it exists, files={{"read": ["{path}"]}}; "write" instead of "read" to change it'
    )


def _is_own(path: str) -> bool:
    """Return True for a place that the function has without a grant, or that no grant can give."""
    own: list[Any] = [*_OTHERS, *_SCRATCH, os.environ.get("TMPDIR"), str(Path(os.__file__).parent), *sys.path]
    return _below(path, tuple(place for place in own if place))


def _below(path: str, folders: tuple[str, ...]) -> bool:
    return any(path == folder or path.startswith(f"{folder.rstrip('/')}/") for folder in folders)

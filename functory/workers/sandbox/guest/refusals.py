"""Explains an error that comes from the sandbox and not from the code: which grant is missing, and how to give it.

A file that is not granted does not exist for a function, and libraries wrap a refusal in errors of their own, or say
only its number or its text. What was tried last then says what it was about. What is said about a file follows from its
path and the grants alone, so it does not tell whether there is one.
"""

from __future__ import annotations

import errno
import os
import re
import sys
import traceback
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from functory.workers.sandbox.guest.attempts import Attempt
from functory.workers.sandbox.protocol.job import ChildGrants

_MOST_CAUSES = 50
# A missing file, or one that may not be opened or changed.
_OF_FILES = (errno.ENOENT, errno.EACCES, errno.EPERM, errno.EROFS)
# An error of a file without its name is hardly ever this: what Python itself may not do has no name either.
_OF_BARE_FILES = (errno.ENOENT, errno.EACCES, errno.EROFS)
_OF_PROGRAMS = (errno.EPERM, errno.EACCES, errno.ENOENT)
_OF_CONNECTIONS = (errno.EACCES, errno.EPERM, errno.ENETUNREACH, errno.EHOSTUNREACH)
_NO_SOCKET = errno.EAFNOSUPPORT
# Texts of libraries that leave the number out, and the number that each stands for.
_TEXTS = {os.strerror(number): number for number in (*_OF_FILES, errno.ENETUNREACH, _NO_SOCKET)} | {
    "unable to open database file": errno.ENOENT,
    "attempt to write a readonly database": errno.EACCES,
    # libpq looks for the name of its user before it makes a socket.
    "local user with ID": _NO_SOCKET,
    # psycopg, where libpq could not make a socket and says nothing.
    "connection is bad: no error details available": _NO_SOCKET,
}
_PATH = re.compile(r"(?<![\w/:.])/[^\s'\"`,;:()\[\]<>]+")
# "Permission denied" is also what a service answers, and its paths are not files.
_OF_SERVICES = re.compile(r"://|\b(?:HTTP|GET|HEAD|POST|PUT|PATCH|DELETE)\b")
# What every function sees, and what none is ever granted.
_OTHERS = ("/usr", "/lib", "/lib64", "/bin", "/sbin", "/etc/ssl", "/etc/pki", "/dev", "/proc", "/sys", "/run")
_SCRATCH = ("/tmp", "/var/tmp")  # noqa: S108 - each child's own, but in tier C
_OWN_SCRATCH = (
    "its own temporary files are in tempfile.gettempdir()",
    "its own folder of that name is empty when it starts",
)


def explanation(error: BaseException, message: str, grants: ChildGrants, tried: Sequence[Attempt]) -> str:
    """Return lines that belong below ``message``, the message of ``error``; empty when it has another reason.

    ``tried`` is what the execution has tried until the error, the latest first.
    """
    for cause in _causes(error):
        text = _of_error(cause, grants, tried)
        if text:
            return "" if text in message else text
    return _of_silent_program(grants, tried)


def refused_connection(error: BaseException, tried: Sequence[Attempt]) -> str | None:
    """Return the text of the refused connection that ``error`` comes from; None when it has another reason."""
    texts = {one.what for one in tried if one.kind == "connection"}
    for cause in _causes(error):
        if isinstance(cause, OSError) and cause.strerror in texts:
            return str(cause.strerror)
    return None


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


def _of_error(error: BaseException, grants: ChildGrants, tried: Sequence[Attempt]) -> str:
    if isinstance(error, OSError):
        named = [name for name in (error.filename, error.filename2) if isinstance(name, str | bytes)]
        if named and error.errno in _OF_FILES:
            if any(one.kind == "program" and one.what in named for one in tried):
                return _of_program(named[0], grants)
            # Of two, the one in its own folder may well be there.
            named.sort(
                key=lambda name: not os.fsdecode(name).startswith("/") or _below(os.fsdecode(name), _SCRATCH)
            )
            return next((text for name in named if (text := _of_file(name, error.errno, grants))), "")
    number, text = _number_and_text(error)
    if number is None:
        return ""
    if number == _NO_SOCKET:
        return "" if "only TCP connections" in text else _NO_OTHER_SOCKET
    if _OF_SERVICES.search(text) and not isinstance(error, OSError):
        return ""
    for path in _PATH.findall(text):
        if found := _of_file(path.rstrip("."), number, grants):
            return found
    if number in _OF_PROGRAMS and _in_multiprocessing(error):
        # It makes a semaphore first, which is a file of the machine.
        return _of_program(None, grants)
    return _of_attempts(number, grants, tried)


def _in_multiprocessing(error: BaseException) -> bool:
    frames = list(traceback.walk_tb(error.__traceback__))
    return bool(frames) and "/multiprocessing/" in frames[-1][0].f_code.co_filename


def _number_and_text(error: BaseException) -> tuple[int | None, str]:
    """Return the number of a refusal, also where only its text is given; None for other errors."""
    try:
        text = str(error)
    except Exception:
        return None, ""
    if isinstance(error, OSError) and error.errno is not None:
        return error.errno, text
    return next((number for words, number in _TEXTS.items() if words in text), None), text


def _of_attempts(number: int, grants: ChildGrants, tried: Sequence[Attempt]) -> str:
    """Explain a bare number by the latest attempt that may have been answered with it."""
    for attempt in tried:
        text = ""
        if attempt.kind == "program" and number in _OF_PROGRAMS:
            text = _of_program(attempt.what, grants)
        elif attempt.kind == "connection" and number in _OF_CONNECTIONS:
            text = attempt.what
        elif attempt.kind == "file" and number in _OF_BARE_FILES:
            text = _of_file(
                _database(attempt.what) if "sqlite" in attempt.event else attempt.what, number, grants
            )
        if text:
            return text
    return ""


def _of_silent_program(grants: ChildGrants, tried: Sequence[Attempt]) -> str:
    """Explain what ``os.system`` has not done: it raises nothing."""
    silent = (attempt for attempt in tried if attempt.event == "os.system")
    return next((_of_program(attempt.what, grants) for attempt in silent), "")


def _of_program(given: Any, grants: ChildGrants) -> str:
    if grants.subprocess:
        return ""
    name = os.fsdecode(given) if isinstance(given, str | bytes | os.PathLike) else ""
    which = f": {name}" if name and name.isprintable() else ""
    return (
        f"the function may not start programs or other processes{which}\n"
        "try: subprocess=True, in the tiers A and B of the sandbox; threads need no grant"
    )


_NO_OTHER_SOCKET = (
    "the function has no sockets of its own: Python's socket makes TCP connections to granted hosts, "
    "and a library in C that makes its own cannot\n"
    'try: hosts=["HOST:PORT"], and a client that is written in Python (for PostgreSQL: pg8000)'
)


def _database(given: Any) -> Any:
    """Return the path of a database, which may be given as an URI."""
    if isinstance(given, str) and given.startswith("file:"):
        return given.removeprefix("file:").partition("?")[0]
    return given


def _of_file(given: Any, number: int, grants: ChildGrants) -> str:
    if not isinstance(given, str | bytes | os.PathLike):
        return ""
    name = os.fsdecode(given)
    if not name.isprintable() or '"' in name or name in ("", ":memory:"):
        return ""
    if not name.startswith("/"):
        return (
            (
                f"{name} was looked for in the function's own folder, which is empty when it starts\n"
                'try: use its absolute path, and files={"read": ["/its/path"]}'
            )
            if number == errno.ENOENT
            else ""
        )
    path = os.path.normpath(name)
    if _below(path, grants.write):
        return ""
    if _below(path, grants.read):
        if number == errno.ENOENT:
            return ""
        return f'{path} is granted to be read, and not to be changed\ntry: files={{"write": ["{path}"]}}'
    if _is_own(path):
        return ""
    why = f"the function has no grant for {path}, so it sees nothing there, whether it exists or not"
    if _below(path, _SCRATCH):
        if path in _SCRATCH:
            return ""
        why += f"; {_OWN_SCRATCH[os.environ.get('TMPDIR') in _SCRATCH]}"
    return (
        f'{why}\ntry: if it exists, files={{"read": ["{path}"]}}; files={{"write": ["{path}"]}} to change it'
    )


def _is_own(path: str) -> bool:
    """Return True for a place that the function has without a grant, or that no grant can give."""
    folder = os.environ.get("TMPDIR", "")
    # In the tiers with a file tree of its own it is /tmp itself, where a file of the machine may have been meant.
    scratch = "" if folder in _SCRATCH else folder
    own: list[Any] = [*_OTHERS, scratch, str(Path(os.__file__).parent), *sys.path]
    return _below(path, tuple(place for place in own if place))


def _below(path: str, folders: tuple[str, ...]) -> bool:
    return any(path == folder or path.startswith(f"{folder.rstrip('/')}/") for folder in folders)

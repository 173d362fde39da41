"""Remembers what the code of an execution has tried last: files, programs, connections that were refused.

The kernel refuses with a bare number, and many libraries pass on less than that. The interpreter reports an attempt
before it is made (PEP 578), so the error can still be explained by it. Nothing rests on this: code can silence it.
"""

from __future__ import annotations

import sys
from collections import deque
from pathlib import Path
from typing import Any, NamedTuple

_MOST = 50
_OWN_SOURCES = f"{Path(__file__).parents[3]}/"
# Index of the argument of an audit event that is the path.
_FILES = {
    "open": 0,
    "os.listdir": 0,
    "os.scandir": 0,
    "os.mkdir": 0,
    "os.remove": 0,
    "os.rmdir": 0,
    "os.truncate": 0,
    "os.chmod": 0,
    "os.rename": 1,
    "os.link": 1,
    "os.symlink": 1,
    "sqlite3.connect": 0,
    "ctypes.dlopen": 0,
}
# The program; None where the process itself is copied.
_PROGRAMS = {
    "subprocess.Popen": 1,
    "os.system": 0,
    "os.exec": 0,
    "os.posix_spawn": 0,
    "os.fork": None,
    "os.forkpty": None,
}


class Attempt(NamedTuple):
    """``what`` is a path, a program, or the message of a refused connection."""

    kind: str
    event: str
    what: Any


# The latest last.
_recent: deque[Attempt] = deque(maxlen=_MOST)


def watch() -> None:
    """Remember attempts from now on, in this process and its forks; called once."""
    sys.addaudithook(_note)


def forget() -> None:
    """Forget the attempts of an earlier execution."""
    _recent.clear()


def refused_connection(message: str) -> None:
    """Remember the message of a connection that was refused."""
    _recent.append(Attempt("connection", "", message))


def latest_first() -> list[Attempt]:
    """Return what is remembered, without Functory's own sources, which a printed traceback reads."""
    return [
        one
        for one in reversed(_recent)
        if not isinstance(one.what, str) or not one.what.startswith(_OWN_SOURCES)
    ]


def _note(event: str, args: tuple[Any, ...]) -> None:
    if event in _FILES:
        _recent.append(Attempt("file", event, args[_FILES[event]]))
    elif event in _PROGRAMS:
        place = _PROGRAMS[event]
        what = None if place is None else args[place]
        _recent.append(
            Attempt("program", event, what[0] if isinstance(what, list | tuple) and what else what)
        )

"""Shares one server of each kind among all test processes of a run.

The first process that needs a server starts it. The others read its address from a file in the run's folder. Every
process holds a named pipe open; when the last one ends, in any way, the guards of the server see the end of the
pipe and remove the server with its folder.
"""

from __future__ import annotations

import errno
import fcntl
import os
import pickle
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

from tests.services.server import Server

Kind = TypeVar("Kind", bound=Server)

# Kept until the process ends: closing the pipe means that this process no longer needs the server.
_held: dict[Path, int] = {}


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold the lock file ``path``: one process of the run at a time."""
    with path.open("a") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def shared(kind: type[Kind], programs: Mapping[str, Path], run: Path) -> Kind:
    """The run's server of this kind, started by the first process that asks. ``run`` is the run's folder."""
    name = kind.__name__.lower()
    card, pipe = run / f"{name}.server", run / f"{name}.users"
    with locked(run / f"{name}.lock"):
        if card.exists() and _joined(pipe):
            server = kind.__new__(kind)
            server.attach(pickle.loads(card.read_bytes()))
            return server
        if not pipe.exists():
            os.mkfifo(pipe)
        server = kind(programs)
        # Without O_NONBLOCK each end would wait for the other one.
        reading = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
        _held[pipe] = os.open(pipe, os.O_WRONLY)
        os.set_blocking(reading, True)
        try:
            server.start_shared(reading)
        except BaseException:
            server.close()
            raise
        finally:
            os.close(reading)
        card.write_bytes(pickle.dumps(server.card()))
        return server


def _joined(pipe: Path) -> bool:
    """True when the server's guards still read the pipe: this process is then one of its users."""
    if pipe in _held:
        return True
    try:
        _held[pipe] = os.open(pipe, os.O_WRONLY | os.O_NONBLOCK)
    except OSError as error:
        if error.errno == errno.ENXIO:
            return False
        raise
    return True

"""Where the HTTP server of a project listens: it says so in a file of the home folder, for as long as it serves.

A server that takes a free port, or one of ``--port``, is not where the settings say. Other processes of the project
read the file to print addresses that are true. The server holds a lock on the file, which ends with its process: what
a killed server has left is not believed.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
from collections.abc import Iterator

from functory.engine.http_addresses import http_url
from functory.engine.private_files import FILE_MODE
from functory.engine.settings import Settings

FILE = "server.url"
# No address is longer: a host has at most 255 characters.
_MOST_BYTES = 1000


@contextlib.contextmanager
def announced(settings: Settings, url: str) -> Iterator[None]:
    """Say that a server listens at ``url`` until the block ends. Of several servers with one home the first is named.

    Does nothing where the home folder cannot be written: the address of the settings is shown then.
    """
    try:
        file = os.open(settings.home / FILE, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, FILE_MODE)
    except OSError:
        yield
        return
    try:
        with contextlib.suppress(OSError):
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            os.ftruncate(file, 0)
            os.pwrite(file, url.encode(), 0)
        yield
    finally:
        os.close(file)


def server_url(settings: Settings) -> str:
    """Return the address of the server of this project: of the one that serves, else the one of the settings."""
    return _serving(settings) or http_url(settings.host, settings.port)


def _serving(settings: Settings) -> str | None:
    try:
        file = os.open(settings.home / FILE, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
    except OSError:
        return None
    try:
        fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError:
        # The lock is held: there is a server.
        return os.pread(file, _MOST_BYTES, 0).decode("utf-8", "replace") or None
    finally:
        os.close(file)
    return None

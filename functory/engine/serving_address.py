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
_LINKS, _NO_LINKS = "takes links", "takes no links"


@contextlib.contextmanager
def announced(settings: Settings, url: str, *, takes_links: bool) -> Iterator[None]:
    """Say that a server listens at ``url`` until the block ends, and whether a link logs its owner in there. Of several
    servers with one home the first is named.

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
            os.pwrite(file, f"{url}\n{_LINKS if takes_links else _NO_LINKS}\n".encode(), 0)
        yield
    finally:
        os.close(file)


def running_url(settings: Settings) -> str | None:
    """Return the address of the server of this project that serves now; None without one."""
    return next(iter(_serving(settings)), None)


def server_url(settings: Settings) -> str:
    """Return the address of the server of this project: of the one that serves, else the one of the settings."""
    return running_url(settings) or http_url(settings.host, settings.port)


def refuses_links(settings: Settings) -> bool:
    """Return whether a server of this project serves that no link logs anybody in to (``functory server``)."""
    return _NO_LINKS in _serving(settings)


def _serving(settings: Settings) -> list[str]:
    try:
        file = os.open(settings.home / FILE, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
    except OSError:
        return []
    try:
        fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError:
        # The lock is held: there is a server.
        return os.pread(file, _MOST_BYTES, 0).decode("utf-8", "replace").splitlines()
    finally:
        os.close(file)
    return []

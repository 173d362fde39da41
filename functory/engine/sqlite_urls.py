"""The URL of a SQLite file, and the way back from a URL to the path.

A path may hold every character, and some of them mean something in a URL: ``?`` begins a query, ``%41`` is an A. So no
other code joins a path and ``sqlite:///``, or cuts a URL. A file's name need not be UTF-8: its bytes are quoted, which
:meth:`sqlalchemy.URL.create` cannot do.
"""

from __future__ import annotations

import os
from pathlib import Path
from urllib.parse import quote_from_bytes, unquote_to_bytes

_PREFIX = "sqlite:///"


def url_of(path: Path) -> str:
    """Return the URL of a SQLite file. A relative path is of the current folder."""
    return _PREFIX + quote_from_bytes(os.fsencode(path.absolute()), safe=" +/")


def path_of(url: str) -> Path | None:
    """Return the file that a URL names. None for a server, a database in memory, and a name that only SQLite reads
    (``sqlite:///file:…``).
    """
    name, _, _ = url.removeprefix(_PREFIX).partition("?")
    if not url.startswith(_PREFIX) or name.startswith("file:"):
        return None
    path = os.fsdecode(unquote_to_bytes(name))
    return None if path in ("", ":memory:") else Path(path)


def check(url: str) -> None:
    """Raise ValueError for the URL of a SQLite database that would be read as another one than was written."""
    if url.partition("://")[2].partition("/")[0]:
        raise ValueError("a SQLite URL has no host; write sqlite:///file, or sqlite:////folder/file")
    if "?" in url and not url.startswith(_PREFIX + "file:"):
        raise ValueError("a SQLite URL has no options; write the ? of a name as %3F")
    if b"\0" in unquote_to_bytes(url):
        raise ValueError("the name of a file cannot contain %00")

"""Where ``functory.toml`` is: found without any library, because a client of a server reads only one line of it."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterator
from pathlib import Path

from functory.engine.errors import Invalid

SETTINGS_FILE = Path("functory.toml")
VARIABLE = "FUNCTORY_CONFIG"


def settings_file() -> Path:
    """Return the file that ``FUNCTORY_CONFIG`` names, else the nearest ``functory.toml``, which may not exist."""
    if named := os.environ.get(VARIABLE):
        return Path(named)
    if SETTINGS_FILE.is_file():
        return SETTINGS_FILE
    return next(own_above(SETTINGS_FILE, stat.S_ISREG), SETTINGS_FILE)


def own_above(name: Path, is_kind: Callable[[int], bool]) -> Iterator[Path]:
    """Give ``name`` in each folder above this one, nearest first, where it is of the kind and of this user.

    Raises :class:`Invalid` where this folder was deleted.
    """
    try:
        here = Path.cwd()
    except FileNotFoundError:
        raise Invalid(
            "the current folder is gone", "it was deleted or moved", "cd to a folder that is there"
        ) from None
    for folder in here.parents:
        try:
            if folder.stat().st_mode & stat.S_IWOTH:
                return
            found = (folder / name).lstat()
        except OSError:
            continue
        if is_kind(found.st_mode) and found.st_uid == os.geteuid():
            yield folder / name

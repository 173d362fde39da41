"""Keeps what a deployment stores on a disk from other users: the home folder, a database file, keys.

A database holds the inputs and results of functions, which may be anything. So the home folder is 0700 and its files
are 0600, whatever the umask is. What an earlier version made with wider modes is mended when a process starts.
"""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Iterator
from pathlib import Path

from functory.engine import sqlite_urls
from functory.engine.errors import Invalid
from functory.engine.settings import Settings

FOLDER_MODE, FILE_MODE = 0o700, 0o600
# Packages of functions. A worker of root runs functions under other user ids, which must reach this folder.
ENVIRONMENTS = "environments"
_PASSABLE_MODE = 0o711
_DEFAULT_NAME = ".functory"
_DATABASE = "functory.db"
_KEY = "secret.key"
_SUFFIXES = ("", "-wal", "-shm", "-journal")

_callers_umask: int | None = None


def make_home(home: Path) -> None:
    """Make the home folder, for its owner only. Raises :class:`Invalid`."""
    try:
        make_folder(home)
    except OSError as error:
        raise Invalid(
            f"the folder {home} cannot be made",
            error.strerror or str(error),
            "set FUNCTORY_HOME to a folder that you may write",
        ) from None


def make_folder(folder: Path) -> None:
    """Make a folder for its owner only, where there is none. Raises OSError."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    folder.mkdir(mode=FOLDER_MODE, exist_ok=True)


def create_file(file: Path) -> None:
    """Create an empty file for its owner only, where there is none. Does nothing where that is not possible."""
    with contextlib.suppress(OSError):
        os.close(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, FILE_MODE))


def mend(settings: Settings) -> None:
    """Take the rights of other users from the folder and the files of a deployment, as far as this user may."""
    for path, mode in _wanted_modes(settings):
        found = _mode(path)
        if found is not None and found & ~mode:
            with contextlib.suppress(OSError):
                path.chmod(mode)
    let_functions_pass(settings.home)


def let_functions_pass(home: Path) -> None:
    """Let other user ids go through the home folder, without reading it, to the packages of functions in it."""
    if _mode(home) == FOLDER_MODE and _mode_of_home(home) == _PASSABLE_MODE and _is_own_folder(home):
        with contextlib.suppress(OSError):
            home.chmod(_PASSABLE_MODE)


def find_open(settings: Settings) -> list[tuple[Path, str]]:
    """Return what other users can read or enter, each with the command that mends it."""
    found = []
    for path, mode in _wanted_modes(settings):
        has = _mode(path)
        if has is not None and has & ~mode:
            found.append((path, f"chmod {mode:o} {path}"))
    home = settings.home
    has = _mode(home)
    if has is not None and not _is_own_folder(home) and has & 0o077:
        found.append((home, f"use a folder of its own as FUNCTORY_HOME, or chmod {FOLDER_MODE:o} {home}"))
    return found


def restrict_umask() -> None:
    """Let this process make files for its owner only. Functions write theirs with the caller's umask."""
    global _callers_umask
    before = os.umask(0o077)
    if _callers_umask is None:
        _callers_umask = before


def umask_of_functions() -> int:
    """Return the umask with which functions write files; -1 for the one of this process."""
    return -1 if _callers_umask is None else _callers_umask


def _wanted_modes(settings: Settings) -> Iterator[tuple[Path, int]]:
    home = settings.home
    if _is_own_folder(home):
        yield home, _mode_of_home(home)
    for name in sorted(_names(home)):
        path = home / name
        if _is_our_file(name) and not path.is_symlink():
            yield path, FILE_MODE
    file = sqlite_urls.path_of(settings.database)
    if file is not None and file.parent.absolute() != home.absolute():
        yield from ((file.with_name(file.name + suffix), FILE_MODE) for suffix in _SUFFIXES)


def _is_own_folder(home: Path) -> bool:
    """True for a folder that holds nothing but Functory's: the mode of another one is not ours to change."""
    if home.name == _DEFAULT_NAME:
        return True
    # A sticky folder is one that all users share, such as /tmp.
    shared = (_mode(home) or 0) & stat.S_ISVTX
    return not shared and all(_is_our_file(name) or name == ENVIRONMENTS for name in _names(home))


def _is_our_file(name: str) -> bool:
    return name.startswith((_DATABASE, _KEY))


def _mode_of_home(home: Path) -> int:
    return _PASSABLE_MODE if os.geteuid() == 0 and (home / ENVIRONMENTS).is_dir() else FOLDER_MODE


def _names(folder: Path) -> list[str]:
    try:
        return [path.name for path in folder.iterdir()]
    except OSError:
        return []


def _mode(path: Path) -> int | None:
    try:
        return stat.S_IMODE(path.stat().st_mode)
    except OSError:
        return None

"""Removes a folder in which untrusted code has worked, and counts what is in it.

``shutil.rmtree`` recurses, so it gives up half-way in a tree that is some thousand folders deep, and at folders
that their owner may not read. ``remove`` walks no tree: it moves every folder that it finds up to the top, so
that there are never more than two levels. It follows no link.
"""

from __future__ import annotations

import contextlib
import os
import stat
from pathlib import Path
from typing import Any

_DEPTH = 32  # folders in each other that are looked into: each is two descriptors of the worker meanwhile


def remove(path: str) -> None:
    """Remove the folder ``path`` and all in it; never raises, and leaves what cannot be removed."""
    with contextlib.suppress(OSError):
        top = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
        try:
            _empty(top)
        finally:
            os.close(top)
        Path(path).rmdir()


def usage(path: str, most_bytes: int, most_files: int) -> tuple[int, int]:
    """Count bytes on the disk and entries below the folder ``path``, until a limit is passed.

    The code that owns the folder changes it meanwhile: an entry that vanishes counts as nothing. A folder
    that cannot be read counts as more than ``most_files``: one that forbids to be listed, one that lies too
    deep.
    """
    size = files = 0
    # Each by its descriptor: a path below may be longer than the kernel takes, or a link by now.
    folders: list[tuple[int, Any]] = []
    try:
        _look_into(path, None, folders)
        while folders:
            folder, entries = folders[-1]
            for entry in entries:
                files += 1
                with contextlib.suppress(FileNotFoundError):
                    size += entry.stat(follow_symlinks=False).st_blocks * 512
                    if entry.is_dir(follow_symlinks=False):
                        _look_into(entry.name, folder, folders)
                        break
                if size > most_bytes or files > most_files:
                    return size, files
            else:
                entries.close()
                os.close(folder)
                folders.pop()
    except OSError:
        return size, most_files + 1
    finally:
        for folder, entries in folders:
            entries.close()
            os.close(folder)
    return size, files


def _look_into(name: str, parent: int | None, folders: list[tuple[int, Any]]) -> None:
    if len(folders) == _DEPTH:
        raise OSError(f"more than {_DEPTH} folders in each other")
    folder = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=parent)
    try:
        folders.append((folder, os.scandir(folder)))
    except OSError:
        os.close(folder)
        raise


def _empty(top: int) -> None:
    pending = _clear(top, top, "")
    number = 0
    while pending:
        name = pending.pop()
        number += 1
        with contextlib.suppress(OSError):
            folder = _enter(name, top)
            try:
                pending += _clear(folder, top, f".remove-{number}-")
            finally:
                os.close(folder)
            os.rmdir(name, dir_fd=top)


def _clear(folder: int, top: int, prefix: str) -> list[str]:
    """Unlink the files of ``folder`` and move its folders to ``top``; returns their names there."""
    moved = []
    for number, name in enumerate(os.listdir(folder)):
        with contextlib.suppress(OSError):
            if stat.S_ISDIR(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode):
                target = name if folder == top else f"{prefix}{number}"
                if folder != top:
                    # Moving a folder rewrites its "..", which needs the right to write in it.
                    os.close(_enter(name, folder))
                    os.rename(name, target, src_dir_fd=folder, dst_dir_fd=top)
                moved.append(target)
            else:
                os.unlink(name, dir_fd=folder)
    return moved


def _enter(name: str, parent: int) -> int:
    """Open a folder that may forbid reading, by its descriptor and never by a link."""
    handle = os.open(name, os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=parent)
    try:
        os.chmod(f"/proc/self/fd/{handle}", 0o700)  # noqa: PTH101 - a descriptor has no Path
        return os.open(".", os.O_RDONLY | os.O_DIRECTORY, dir_fd=handle)
    finally:
        os.close(handle)

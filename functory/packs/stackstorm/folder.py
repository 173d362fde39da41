"""Reads a pack's folder as untrusted input: only its own regular files, of a bounded size and number."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import Any

from functory.engine import os_errors
from functory.engine.errors import Invalid
from functory.packs.stackstorm.document import parse_document

# The largest pack of the Exchange has some hundred files.
MAX_FILES = 5000
MAX_DEPTH = 12
MAX_SOURCE = 512 * 1024
MAX_DOCUMENT = 256 * 1024


class Folder:
    """The files below ``root``. Paths are texts with slashes, relative to it.

    A symbolic link is never followed, wherever it leads, and is listed in ``links``.
    """

    def __init__(self, root: Path) -> None:
        """Raises :class:`Invalid` when ``root`` is no folder, or has too many files."""
        if not root.is_dir():
            raise Invalid(
                f"{root} is not a folder", "a pack is a folder with pack.yaml in it", "check the path"
            )
        self.root = root.resolve()
        self.links: list[str] = []
        self.files: list[str] = sorted(self._walk(self.root, 0))
        self._known = frozenset(self.files)

    def __contains__(self, path: str) -> bool:
        """Return whether ``path`` is one of the files."""
        return path in self._known

    def files_in(self, folder: str, *endings: str) -> list[str]:
        """Files right inside ``folder`` (not deeper) with one of these endings."""
        return [f for f in self.files if str(PurePosixPath(f).parent) == folder and f.endswith(endings)]

    def document(self, path: str) -> Any:
        """The YAML value of a file. Raises :class:`Invalid`."""
        return parse_document(self.text(path, MAX_DOCUMENT), path)

    def text(self, path: str, most: int = MAX_SOURCE) -> str:
        """A file's text. Raises :class:`Invalid` for a path that is not one of the pack's own files."""
        clean = str(PurePosixPath(os.path.normpath(path)))
        if clean not in self._known:
            raise Invalid(
                f"{path} is not a file of the pack",
                "links and paths out of its folder are not followed",
                "copy the file into the pack",
            )
        # The folder may change after it was listed: a new link or pipe is not opened either.
        try:
            handle = os.open(self.root / clean, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
            with os.fdopen(handle, "rb") as stream:
                regular = stat.S_ISREG(os.fstat(stream.fileno()).st_mode)
                raw = stream.read(most + 1) if regular else b""
        except OSError as error:
            raise os_errors.explain(error, f"{path} cannot be read") from None
        if not regular or not (self.root / clean).resolve().is_relative_to(self.root):
            raise Invalid(f"{path} is not a file of the pack", "it was replaced while it was read")
        if len(raw) > most:
            raise Invalid(f"{path} is too large", f"at most {most:,} bytes are read")
        try:
            return raw.decode("utf-8-sig")
        except UnicodeDecodeError as error:
            raise Invalid(f"{path} is not UTF-8 text", f"byte {error.start}", "save it as UTF-8") from None

    def _walk(self, folder: Path, depth: int) -> Iterator[str]:
        count = 0
        with os.scandir(folder) as entries:
            for entry in sorted(entries, key=lambda entry: entry.name):
                path = Path(entry.path)
                relative = path.relative_to(self.root).as_posix()
                if entry.is_symlink():
                    self.links.append(relative)
                elif entry.is_dir(follow_symlinks=False):
                    if not entry.name.startswith(".") and depth < MAX_DEPTH:
                        for file in self._walk(path, depth + 1):
                            count += 1
                            yield file
                elif entry.is_file(follow_symlinks=False):
                    count += 1
                    yield relative
                if count > MAX_FILES:
                    raise Invalid(
                        f"{self.root} has more than {MAX_FILES:,} files",
                        "this is not one pack",
                        "name the pack's own folder",
                    )

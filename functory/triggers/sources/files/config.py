"""The configuration of a file watch."""

from __future__ import annotations

import posixpath
from typing import Annotated, Any, Literal

from pydantic import Field, field_validator

from functory.engine.errors import Invalid
from functory.engine.serialization import durations
from functory.engine.sources import file_watches
from functory.triggers.sources.files.change_detection import TYPES
from functory.triggers.sources.files.glob_patterns import MAX_PATTERN_LENGTH, MAX_PATTERNS
from functory.triggers.sources.files.temporary_names import DEFAULT_IGNORE
from functory.triggers.sources.plugin import SourceConfig

# The kernel's own trees: their entries are not files that change.
_KERNEL = ("/proc", "/sys", "/dev")
_MAX_PATH = 4096

Globs = Annotated[tuple[str, ...], Field(max_length=MAX_PATTERNS)]


class FileWatchConfig(SourceConfig):
    """The configuration of a watch. ``settle`` is in seconds, or a text such as ``300ms``."""

    path: str = Field(description="absolute path of the folder or file on the watcher's machine")
    patterns: Globs = Field(("*",), description="names (*.csv) or paths (in/**/*.csv) to watch")
    ignore: Globs = Field(DEFAULT_IGNORE, description="names or paths to ignore")
    events: tuple[Literal["created", "modified", "deleted", "moved"], ...] = Field(
        TYPES, description="changes that become events"
    )
    recursive: bool = Field(True, description="watch subfolders too")
    settle: float = Field(0.3, description="seconds that a file has to stay as it is before its event")
    wait_for_close: bool = Field(
        False, description="report a file only when no program has it open for writing any more"
    )
    polling: Literal["auto", "always", "never"] = Field("auto", description="auto polls network file systems")
    follow_symlinks: bool = Field(False, description="follow symbolic links; the folder is polled then")
    initial: Literal["ignore", "events"] = Field("ignore", description="files that are there at the start")
    max_hash_bytes: int = Field(
        file_watches.HASH_BYTES,
        ge=0,
        le=10**12,
        strict=True,
        description="larger files are compared by size and time, not by content",
    )
    must_exist: bool = Field(True, description="refuse a path that is not there")

    @field_validator("path")
    @classmethod
    def _plain(cls, path: str) -> str:
        if not path.startswith("/"):
            raise ValueError(
                "the path is not absolute; a watch may run on another machine or in another folder"
            )
        if len(path) > _MAX_PATH or any(not _is_plain(character) for character in path):
            raise ValueError(
                f"the path must have at most {_MAX_PATH} characters, without control characters or lone surrogates"
            )
        if ".." in path.split("/"):
            raise ValueError("the path goes up by ..; write the folder that is meant")
        plain = "/" + posixpath.normpath(path).lstrip("/")
        if plain == "/" or any(plain == tree or plain.startswith(tree + "/") for tree in _KERNEL):
            raise ValueError(f"{plain} is not for watching; name the folder that matters")
        return plain

    @field_validator("patterns", "ignore")
    @classmethod
    def _globs(cls, globs: tuple[str, ...]) -> tuple[str, ...]:
        for glob in globs:
            if (
                not 0 < len(glob) <= MAX_PATTERN_LENGTH
                or not glob.strip("/")
                or not all(map(_is_plain, glob))
            ):
                raise ValueError(f"{glob[:80]!r} is no pattern; *.csv, in/*.csv or .git/** are")
            if ".." in glob.split("/"):
                raise ValueError(
                    f"{glob[:80]!r} goes up by ..; patterns are of paths below the watched folder"
                )
        return globs

    @field_validator("patterns", "events")
    @classmethod
    def _some(cls, given: tuple[str, ...]) -> tuple[str, ...]:
        if not given:
            raise ValueError("the list is empty; leave it out for everything")
        return tuple(dict.fromkeys(given))

    @field_validator("settle", mode="before")
    @classmethod
    def _settle(cls, given: Any) -> float:
        try:
            return durations.parse(given, "settle", 0.0, 3600.0)
        except Invalid as error:
            raise ValueError(" / ".join(part for part in (error.why, error.try_) if part)) from None


def _is_plain(character: str) -> bool:
    return character >= " " and character != "\x7f" and not "\ud800" <= character <= "\udfff"

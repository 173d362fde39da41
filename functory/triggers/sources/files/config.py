"""The configuration of a file watch."""

from __future__ import annotations

import posixpath
from typing import Annotated, Any, Literal

from pydantic import Field, field_validator

from functory.engine.errors import Invalid
from functory.engine.serialization import durations
from functory.engine.sources import file_watches
from functory.triggers.sources.files.change_detection import TYPES
from functory.triggers.sources.files.glob_patterns import DEFAULT_IGNORE, MAX_PATTERN_LENGTH, MAX_PATTERNS
from functory.triggers.sources.plugin import SourceConfig

# The kernel's own trees: their entries are not files that change.
_KERNEL = ("/proc", "/sys", "/dev")
_MAX_PATH = 4096

Globs = Annotated[tuple[str, ...], Field(max_length=MAX_PATTERNS)]


class FileWatchConfig(SourceConfig):
    """The configuration of a watch. ``settle`` is in seconds, or a text such as ``300ms``."""

    path: str
    patterns: Globs = ("*",)
    ignore: Globs = DEFAULT_IGNORE
    events: tuple[Literal["created", "modified", "deleted", "moved"], ...] = TYPES
    recursive: bool = True
    settle: float = 0.3
    polling: Literal["auto", "always", "never"] = "auto"
    follow_symlinks: bool = False
    initial: Literal["ignore", "events"] = "ignore"
    max_hash_bytes: int = Field(file_watches.HASH_BYTES, ge=0, le=10**12, strict=True)
    must_exist: bool = True

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

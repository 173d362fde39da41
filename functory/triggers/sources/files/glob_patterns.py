"""Glob patterns: they select the files of a watch by their paths below its root.

A pattern without a slash applies to names, at any depth (``*.csv``); one with a slash to the path from the root
(``in/*.csv``), where ``**`` stands for any number of folders (``.git/**``). ``*``, ``?`` and ``[…]`` never match a
slash, and do match a leading dot. A pattern that ends with ``/**`` leaves its folder out of the scan as well.
"""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Sequence
from functools import lru_cache

from functory.engine.errors import Invalid

# Those of the default list are among them.
MAX_PATTERNS = 200
MAX_PATTERN_LENGTH = 1024

_FOLDER = re.compile(r"\*\*/([^/]*[^/*][^/]*)/\*\*", re.DOTALL)


class GlobFilter:
    """The files of a watch. Paths are relative, with the bytes that are no UTF-8 as surrogate escapes."""

    def __init__(self, patterns: Sequence[str], ignore: Sequence[str]) -> None:
        self._patterns = None if "*" in patterns or "**" in patterns else _Globs(patterns)
        self._ignore = _Globs(ignore)

    def includes(self, path: str) -> bool:
        """True if the watch includes the file."""
        parts = path.split("/")
        if self._patterns is not None and not self._patterns.match(parts):
            return False
        return not self._ignore.match(parts)

    def excludes_folder(self, folder: str) -> bool:
        """True if the watch includes no file below the folder."""
        return self._ignore.match_all_below(folder.split("/"))


class _Globs:
    """Several patterns. Those of names, and those of folders anywhere (``**/.git/**``), are one expression each."""

    def __init__(self, patterns: Sequence[str]) -> None:
        names = [pattern for pattern in patterns if "/" not in pattern]
        folders = [found[1] for pattern in patterns if (found := _FOLDER.fullmatch(pattern))]
        self._name = _any_of(tuple(names))
        self._folder = _any_of(tuple(folders))
        self._others = [
            _Glob(pattern) for pattern in patterns if "/" in pattern and not _FOLDER.fullmatch(pattern)
        ]

    def match(self, parts: Sequence[str]) -> bool:
        return (
            bool(self._name.match(parts[-1]))
            or self._below(parts)
            or any(glob.matches(parts) for glob in self._others)
        )

    def match_all_below(self, parts: Sequence[str]) -> bool:
        return self._below(parts) or any(glob.matches_all_below(parts) for glob in self._others)

    def _below(self, parts: Sequence[str]) -> bool:
        return any(map(self._folder.match, parts))


def check(pattern: str) -> None:
    """Refuse what a shell or git reads in another way, and what no path below the root is. Raises :class:`Invalid`.

    Such a pattern would match no file, or another one, without a word.
    """
    braces = re.search(r"(?<!\[)\{([^{}]*,[^{}]*)\}", pattern)
    if braces is not None:
        each = [pattern[: braces.start()] + one + pattern[braces.end() :] for one in braces[1].split(",")]
        why, instead = (
            "braces are no alternatives; each alternative is a pattern",
            f"{' and '.join(each)}; [{{] is a brace",
        )
    elif pattern.startswith("!"):
        why, instead = (
            "! does not turn a pattern round",
            f"ignore {pattern[1:]}; [!…] begins a set of other characters",
        )
    elif "." in pattern.split("/"):
        why, instead = "a path below the watched folder has no part .", pattern.replace("./", "")
    elif pattern.endswith("/"):
        why, instead = "a pattern is of files, and this one ends with a slash", f"{pattern}**"
    else:
        return
    raise Invalid(f"wrong pattern {pattern[:80]!r}", why, instead)


class _Glob:
    """A pattern with a slash."""

    def __init__(self, pattern: str) -> None:
        # None stands for any number of folders.
        self._parts = [None if part == "**" else _compiled(part) for part in pattern.strip("/").split("/")]

    def matches(self, parts: Sequence[str]) -> bool:
        return self._reach(parts)[-1]

    def matches_all_below(self, parts: Sequence[str]) -> bool:
        """True if every path below the folder ``parts`` matches: the folder matches with or without the last ``**``."""
        if self._parts[-1] is not None or len(self._parts) < 2:
            return False
        return any(self._reach(parts)[-2:])

    def _reach(self, parts: Sequence[str]) -> list[bool]:
        """Match the first *n* parts of the pattern against the whole of ``parts``, for each *n* from 0.

        One row of the table of pattern and path at a time: the cost is their product, whatever they are.
        """
        count = len(self._parts)
        row = [True] + [False] * count
        for number, part in enumerate(self._parts, 1):
            row[number] = row[number - 1] and part is None
        for name in parts:
            following = [False] * (count + 1)
            for number, part in enumerate(self._parts, 1):
                if part is None:
                    following[number] = row[number] or following[number - 1]
                else:
                    following[number] = row[number - 1] and bool(part.match(name))
            row = following
        return row


@lru_cache(maxsize=1000)
def _compiled(part: str) -> re.Pattern[str]:
    # Since 3.9 the translation has no backtracking between stars: its cost is bounded by pattern times name.
    return re.compile(fnmatch.translate(part), re.DOTALL)


@lru_cache(maxsize=100)
def _any_of(patterns: tuple[str, ...]) -> re.Pattern[str]:
    # Without patterns the expression matches nothing.
    return re.compile("|".join(map(fnmatch.translate, patterns)) or "(?!)", re.DOTALL)

"""The lines of the stored version around the line that raised the error of an execution, and whether the version before
had that line, too.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from functory.engine.errors import NotFound
from functory.engine.functions.registry import Functions

# Lines that are shown before the line of the error, and after it.
AROUND = 3


def of_error(
    functions: Functions, error: Mapping[str, Any] | None, sees: Callable[[str], bool]
) -> dict[str, Any] | None:
    """Return the lines, or None: without a line of user code in the error, when the version is gone, and of a function
    that the reader does not see.
    """
    frame = _last_frame(error)
    if frame is None or not sees(frame["function"]):
        return None
    name, number = frame["function"], frame["version"]
    try:
        version = functions.get(name, number)
        lines = _lines(functions, version, frame)
    except NotFound:
        return None
    if not 1 <= frame["line"] <= len(lines):
        return None
    try:
        before = _lines(functions, functions.get(name, number - 1), frame) if number > 1 else None
    except NotFound:
        before = None
    return around(lines, frame["line"], before) | {
        "function": name,
        "version": number,
        "module": frame.get("module") or None,
        "author": version["author"],
        "created_at": version["created_at"],
    }


def around(lines: Sequence[str], number: int, before: Sequence[str] | None) -> dict[str, Any]:
    """Return the lines around line ``number`` (from 1), and whether the version before, if there is one, lacks it."""
    first = max(1, number - AROUND)
    return {
        "line": number,
        "first_line": first,
        "lines": list(lines[first - 1 : number + AROUND]),
        "changed": before is not None and lines[number - 1] not in before,
    }


def _last_frame(error: Mapping[str, Any] | None) -> Mapping[str, Any] | None:
    """The frame in which the error was raised. Errors are as the worker has stored them: any JSON."""
    frames = (error or {}).get("frames")
    last = frames[-1] if isinstance(frames, list) and frames else None
    if not isinstance(last, Mapping):
        return None
    known = isinstance(last.get("function"), str) and all(
        isinstance(last.get(name), int) for name in ("version", "line")
    )
    return last if known else None


def _lines(functions: Functions, version: Mapping[str, Any], frame: Mapping[str, Any]) -> list[str]:
    if module := frame.get("module"):
        texts = functions.modules(version["name"], version["number"])
        return texts.get(module, "").split("\n")
    return version["source"].split("\n")

"""Output patterns: checks the patterns of a version, and matches them against the output of an execution.

A pattern is an event pattern over an object (``{"stock": [{"numeric": ["<", 5]}]}``) or a regular
expression with named groups over a text. The pattern language belongs to ``triggers``, which the
engine must not import: the matcher comes in as a plug-in through the entry point group
``functory.outputs`` (name ``default``), an object with ``check(patterns)`` and ``match(patterns, output)``.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from importlib.metadata import entry_points
from typing import Any, Protocol

from functory.engine.errors import FunctoryError

GROUP = "functory.outputs"


class Matcher(Protocol):
    """Checks and matches patterns.

    ``check`` returns valid patterns in their stored form. ``match`` returns the patterns that match, with their
    captured groups.
    """

    def check(self, patterns: Mapping[str, Any]) -> dict[str, Any]: ...
    def match(self, patterns: Mapping[str, Any], output: Any) -> list[tuple[str, dict[str, Any]]]: ...


@functools.cache
def matcher() -> Matcher:
    """Return the installed matcher. Raises :class:`FunctoryError` when the installation lacks it."""
    for point in entry_points(group=GROUP, name="default"):
        return point.load()
    raise FunctoryError(
        "no output matcher is installed", f"the entry point {GROUP} is missing", "reinstall functory"
    )


def check(patterns: Mapping[str, Any]) -> dict[str, Any]:
    """Return the stored form of output patterns. Raises :class:`Invalid` for wrong ones."""
    return matcher().check(patterns) if patterns else {}


def match(patterns: Mapping[str, Any], output: Any) -> list[tuple[str, dict[str, Any]]]:
    """Return the patterns that ``output`` matches, with captured groups."""
    return matcher().match(patterns, output) if patterns else []

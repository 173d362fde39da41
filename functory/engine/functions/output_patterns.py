"""Output patterns: which of a version's patterns an output matches.

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
    """``check`` refuses wrong patterns and returns them as stored; ``match`` returns those that match,
    each with the groups that it captured."""

    def check(self, patterns: Mapping[str, Any]) -> dict[str, Any]: ...
    def match(self, patterns: Mapping[str, Any], output: Any) -> list[tuple[str, dict[str, Any]]]: ...


@functools.cache
def matcher() -> Matcher:
    """The installed matcher. Raises :class:`FunctoryError` when the installation lacks it."""
    for point in entry_points(group=GROUP, name="default"):
        return point.load()
    raise FunctoryError(
        "no output matcher is installed", f"the entry point {GROUP} is missing", "reinstall functory"
    )


def check(patterns: Mapping[str, Any]) -> dict[str, Any]:
    """Refuse wrong output patterns; returns them in their stored form. Raises :class:`Invalid`."""
    return matcher().check(patterns) if patterns else {}


def match(patterns: Mapping[str, Any], output: Any) -> list[tuple[str, dict[str, Any]]]:
    """The patterns that ``output`` matches, with captured groups."""
    return matcher().match(patterns, output) if patterns else []

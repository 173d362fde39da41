"""The stored things that a trigger is checked against."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

Row = Mapping[str, Any]


def _none_known() -> Collection[str]:
    return ()


@dataclass(frozen=True)
class Surroundings:
    """``functions``: the active version of each function, by name. ``target``: the version that the trigger runs; None
    when it does not exist. ``was_seen``: whether an event of a type is stored. ``seen_types``: types of stored events,
    to find a similar one."""

    functions: Mapping[str, Row] = field(default_factory=dict)
    target: Row | None = None
    was_seen: Callable[[str], bool] = lambda _: False
    seen_types: Callable[[], Collection[str]] = _none_known

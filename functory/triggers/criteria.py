"""Criteria: conditions in the language of another system, evaluated by a plug-in.

A stored trigger may have ``criteria`` beside ``when``. The language is StackStorm's and belongs to
``functory.packs.stackstorm.criteria``, which the triggers do not import. The compiler comes in through the entry point
group ``functory.criteria`` (name ``stackstorm``).
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from datetime import datetime
from importlib.metadata import entry_points
from typing import Any, Protocol

from functory.engine.errors import Invalid
from functory.triggers.expressions.conditions import ConditionResult
from functory.triggers.patterns import Clause

GROUP = "functory.criteria"


class Criteria(Protocol):
    """Compiled criteria; may be used from any thread."""

    source: Mapping[str, Any]  # the criteria as JSON, to be stored
    required_names: frozenset[str]  # names that they read beside ``trigger``, the event's data

    def narrow(self, on: Mapping[str, Any]) -> dict[str, Any]:
        """``on`` with what an event pattern can say of the criteria added, for the index."""
        ...

    def evaluate(self, event: Mapping[str, Any], now: datetime) -> ConditionResult:
        """The result for an event at ``now``. Never raises."""
        ...

    def explain(self, event: Mapping[str, Any], now: datetime) -> list[Clause]:
        """One clause for each criterion. Never raises."""
        ...


@functools.cache
def _compiler() -> Callable[[Mapping[str, Any]], Criteria]:
    for point in entry_points(group=GROUP, name="stackstorm"):
        return point.load()
    raise Invalid(
        "criteria cannot be evaluated", f"the entry point {GROUP} is not installed", "reinstall functory"
    )


def compile_criteria(criteria: Mapping[str, Any]) -> Criteria:
    """Compile criteria. Raises :class:`Invalid` that names the wrong key."""
    return _compiler()(criteria)

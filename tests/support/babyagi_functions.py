"""What these tests share: functions saved from their source text, states of executions, suppressed firings."""

import textwrap
from typing import Any

from functory.client.functory import Functory


def add(engine: Functory, source: str, **declared: Any) -> dict[str, Any]:
    """Save a function from its source text."""
    return engine.functions.save(textwrap.dedent(source), **declared)


def states(engine: Functory, function: str) -> list[str]:
    """The states of a function's executions, oldest first."""
    return [row["state"] for row in reversed(engine.executions.list(function=function, limit=1000))]


def suppressed(engine: Functory) -> list[dict[str, Any]]:
    """The first suppressed firing of each trigger, root and reason, with the ``count`` of them all."""
    return [
        row | firing
        for row in engine.suppressions.list()
        for firing in engine.lineage.firings(row["first_event_id"])
        if firing["trigger_id"] == row["trigger_id"]
    ]

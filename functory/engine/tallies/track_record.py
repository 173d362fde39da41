"""Track record: how often a function has succeeded, in words for models that choose tools, and for people. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import Any

# How far back it goes.
SPAN = timedelta(days=30)


def words(total: Mapping[str, Any]) -> str | None:
    """Return ``succeeded 120 of 125 in 30 days, p95 80 ms``; None for a function that has not run. ``total`` has
    ``runs``, ``outcomes`` and ``p95_run_seconds``, as :class:`functory.engine.tallies.reader.Runs` counts them.
    """
    if not total["runs"]:
        return None
    text = f"succeeded {total['outcomes'].get('succeeded', 0):,} of {total['runs']:,} in {SPAN.days} days"
    seconds = total["p95_run_seconds"]
    return text if seconds is None else f"{text}, p95 {_duration(seconds)}"


def _duration(seconds: float) -> str:
    if seconds < 1:
        return f"{seconds * 1000:.0f} ms"
    return f"{seconds:.1f} s" if seconds < 100 else f"{seconds:,.0f} s"

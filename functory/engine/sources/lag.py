"""The lag of a source: how far behind now it is. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any


def lag_seconds(row: Mapping[str, Any], now: datetime) -> float | None:
    """Return the seconds that a source is behind ``now``; 0 while it keeps up.

    A schedule is behind since its oldest time without an event was due. A source that a process runs is behind since
    the last look at it, while no process runs it. None for one that is paused, has ended, or only waits for requests.
    """
    if row["state"] != "enabled":
        return None
    if "next_at" in row:
        since = row["next_at"]
    elif row["looked_at"] is None:
        return None
    else:
        is_held = row["lease_until"] is not None and row["lease_until"] > now
        since = now if is_held else row["looked_at"]
    return None if since is None else round(max(0.0, (now - since).total_seconds()), 1)

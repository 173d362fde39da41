"""What guards have dropped within the last day, in words, for ``functory status`` and ``functory doctor``."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from functory.terminal.console import count_of, format_time

DAY = 86_400.0
# Triggers that are named; the others are counted.
MAX_NAMED = 10


def describe(rows: Sequence[Mapping[str, Any]], existing: Collection[str]) -> list[tuple[str, str]]:
    """Return a line and an advice for each trigger among ``rows`` of :meth:`Suppressions.dropped`. ``existing`` are the
    names of the triggers that are not deleted.
    """
    triggers: dict[str, list[Mapping[str, Any]]] = {}
    for row in rows:
        triggers.setdefault(row["trigger"], []).append(row)
    found: list[tuple[str, str]] = []
    for name, mine in list(triggers.items())[:MAX_NAMED]:
        total = sum(row["count"] for row in mine)
        reasons = ", ".join(f"{row['count']:,} {row['reason']}" for row in mine)
        last = format_time(max(row["last_at"] for row in mine))
        dropped = count_of(total, "match", "matches")
        text = f"trigger {name}: {dropped} dropped within a day ({reasons}), the last at {last}"
        paused = mine[0]["paused_until"]
        if paused is not None:
            text += f"; its circuit breaker is open until {format_time(paused)}"
        advice = f"functory trigger resume-suppressed --trigger {name} --dry-run"
        if name not in existing:
            text += "; the trigger is deleted"
            advice += " (without --dry-run it runs them although the trigger is deleted)"
        found.append((text, advice))
    if len(triggers) > MAX_NAMED:
        found.append(
            (
                f"{count_of(len(triggers) - MAX_NAMED, 'more trigger')} dropped matches",
                "functory trigger suppressed",
            )
        )
    return found

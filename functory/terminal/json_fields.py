"""Rows as ``--json`` shows them where the API has no row for them: events as CloudEvents, lines of a log."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

_EVENT = ("state", "problem")


def event(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of an event: its CloudEvents envelope and its state."""
    from functory.engine.events.envelope import of_mapping

    return of_mapping(row) | {name: row.get(name) for name in _EVENT}


def duration(row: Mapping[str, Any]) -> float | None:
    """Seconds from the first start to the end; None while there is no end or was no start."""
    if row.get("started_at") is None or row.get("finished_at") is None:
        return None
    return round((row["finished_at"] - row["started_at"]).total_seconds(), 6)


def without_execution_id(row: Mapping[str, Any]) -> dict[str, Any]:
    """A log line, without the id of its execution."""
    return {name: value for name, value in row.items() if name != "execution_id"}

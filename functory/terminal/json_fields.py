"""Rows as ``--json`` shows them: the stable fields of each noun, without the engine's bookkeeping."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

_FUNCTION = (
    "name", "number", "state", "active", "latest", "sha256", "source_sha256", "is_async", "parameters", "input_schema",
    "output_schema", "imports", "requirements", "environment", "environment_error", "dependencies", "secrets",
    "permissions", "grants", "compensate", "metadata", "output_patterns", "limits", "warnings", "findings", "author",
    "log_policy", "created_at",
)  # fmt: skip
_TRIGGER = (
    "name", "state", "version", "definition", "note", "author", "fired", "suppressed", "last_at", "created_at",
    "updated_at", "warnings",
)  # fmt: skip
_EXECUTION = (
    "id", "function", "version", "state", "cause", "trigger_id", "event_id", "parent_id", "replay_of", "resolved_by",
    "root_id",
    "depth", "chain", "input", "result", "result_kind", "error", "warnings", "versions", "attempt", "max_attempts",
    "created_at", "run_at", "started_at", "finished_at", "cancelled_by",
)  # fmt: skip
_PAYLOADS = ("input", "result")
_EVENT = ("state", "problem")
_ACTIVATION = (
    "function", "version", "previous", "reason", "author", "cause_execution_id", "at", "ended_at", "ended_by",
)  # fmt: skip
_MARK = ("mark", "reason", "by", "at")


def function(row: Mapping[str, Any], *, source: bool = False) -> dict[str, Any]:
    """A function's version."""
    return {name: row.get(name) for name in (*_FUNCTION, *(("source",) if source else ()))}


def activation(row: Mapping[str, Any]) -> dict[str, Any]:
    """An activation of a version, with the version's mark."""
    return {name: row[name] for name in _ACTIVATION} | {"mark": row["mark"] and mark(row["mark"])}


def mark(row: Mapping[str, Any]) -> dict[str, Any]:
    """The mark of a version."""
    return {name: row[name] for name in _MARK}


def trigger(row: Mapping[str, Any]) -> dict[str, Any]:
    """A trigger with its definition."""
    return {name: row.get(name) for name in _TRIGGER if name in row}


def execution(row: Mapping[str, Any]) -> dict[str, Any]:
    """An execution with its duration in seconds; one of a list has no input and no result."""
    return {name: row.get(name) for name in _EXECUTION if name in row or name not in _PAYLOADS} | {
        "duration_seconds": duration(row)
    }


def event(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of an event: its CloudEvents envelope and its state."""
    from functory.engine.events.envelope import envelope

    return envelope(row) | {name: row.get(name) for name in _EVENT}


def duration(row: Mapping[str, Any]) -> float | None:
    """Seconds from the first start to the end; None while there is no end or was no start."""
    if row.get("started_at") is None or row.get("finished_at") is None:
        return None
    return round((row["finished_at"] - row["started_at"]).total_seconds(), 6)


def without_execution_id(row: Mapping[str, Any]) -> dict[str, Any]:
    """An attempt, span or log line, without the id of its execution."""
    return {name: value for name, value in row.items() if name != "execution_id"}

"""Canaries, as commands print them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from functory.engine.releases.canary_evidence import ROLL_BACK_AT
from functory.terminal.console import format_time


def in_list(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return a canary as a row of a list."""
    return {
        **row,
        "versions": f"v{row['version']} beside v{row['base']}",
        "state": _state(row),
        "share": f"{row['share']:.0%}",
        "failed": _failed(row["counts"]["canary"]),
        "base_failed": _failed(row["counts"]["base"]),
    }


def record(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return a canary as names and values."""
    decided = f"{format_time(row['decided_at'])} by {row['decided_by'] or 'the engine'}"
    is_open = row["decided_at"] is None
    return {
        "id": row["id"],
        "function": f"{row['function']} v{row['version']} beside v{row['base']}",
        "state": _state(row),
        "reason": row["reason"],
        "share": f"{row['share']:.0%}, by {row['unit']}",
        f"v{row['version']} failed": _failed(row["counts"]["canary"]),
        f"v{row['base']} failed": _failed(row["counts"]["base"]),
        "evidence": f"{row['evidence']:.3g} : 1 that v{row['version']} is worse; rolled back at {ROLL_BACK_AT:.0f}",
        "not yet": "\n".join(row["unmet"]) or None,
        "started": format_time(row["started_at"]),
        "until": format_time(row["deadline"]) if is_open else None,
        "decided": None if is_open else decided,
    }


def _state(row: Mapping[str, Any]) -> str:
    return row["state"].replace("_", " ")


def _failed(counts: Mapping[str, int]) -> str:
    return f"{counts['failed']:,} of {counts['units']:,} units"

"""How an execution can end, and what its caller gets. It needs no database: clients of a server use it, too."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from functory.engine.errors import ExecutionFailed

BAD_ENDS = ("failed", "timed_out", "dead")
TERMINAL = ("succeeded", "failed", "timed_out", "cancelled", "dead", "expired")


def result_or_raise(finished: Mapping[str, Any]) -> Any:
    """Return the result of a finished execution. Raises :class:`ExecutionFailed` unless it succeeded."""
    if finished["state"] == "succeeded":
        return finished["result"]
    error = finished["error"] or {}
    reason = f"{error.get('type', finished['state'])}: {error.get('message', '')}".rstrip(": ")
    raise ExecutionFailed(
        f"{finished['function']} v{finished['version']} {finished['state'].replace('_', ' ')}",
        reason,
        f"functory execution show {finished['id']}",
        state=finished["state"],
        error=error,
        execution_id=finished["id"],
    )

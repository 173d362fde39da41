"""Rows of executions for tests of decisions, which need no database."""

from datetime import UTC, datetime
from typing import Any

from functory.engine.executions.execution_row import ExecutionRow

START = datetime(2026, 1, 1, tzinfo=UTC)


def execution_row(**fields: Any) -> ExecutionRow:
    """The row of a first attempt of ``work``, with these fields."""
    usual: dict[str, Any] = {
        "id": "e", "fence": 1, "root_id": "e", "depth": 0, "chain": [], "function": "work", "version": 1,
        "version_id": "v", "cause": "manual", "trigger_id": None, "event_id": None, "parent_id": None, "input": {},
        "attempt": 1, "failures": 0, "max_attempts": 3, "retries": 0, "run_at": START, "has_concurrency": False,
        "throttle": None, "cancel_requested_at": None, "created_at": START, "started_at": START,
    }  # fmt: skip
    return ExecutionRow(**usual | fields)

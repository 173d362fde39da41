"""Rows of versions for tests of decisions, which need no database."""

from datetime import UTC, datetime
from typing import Any

from functory.engine.functions.version_row import VersionRow

START = datetime(2026, 1, 1, tzinfo=UTC)


def version_row(**fields: Any) -> VersionRow:
    """The row of the first and active version of ``work``, with these fields."""
    usual: dict[str, Any] = {
        "id": "v", "function_id": "f", "number": 1, "source": "def work():\n    return 1\n", "source_sha256": "s",
        "sha256": "c", "is_async": False, "parameters": [], "input_schema": None, "output_schema": None, "declared": {},
        "imports": [], "dependencies": [], "secrets": [], "permissions": [], "metadata": {}, "output_patterns": {},
        "limits": {}, "warnings": [], "requirements": [], "grants": {}, "reuse": False, "compensate": None,
        "findings": [], "environment": None, "environment_error": None, "author": "", "cause_execution_id": None,
        "created_at": START, "name": "work", "state": "enabled", "active": 1, "latest": 1, "log_policy": "full",
        "canary_id": None,
    }  # fmt: skip
    return VersionRow(**usual | fields)

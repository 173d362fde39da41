"""Rows of batches."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field

from functory.rows.base import Body, Instant, Row, Text
from functory.rows.executions import ExecutionRow

ActionName = Literal["retry", "replay", "cancel"]


class BatchFilter(Body):
    """Which executions: the filters of ``GET /executions``, with lists for those that can be repeated there."""

    function: list[str] = []
    state: list[str] = []
    trigger: list[str] = []
    cause: list[str] = []
    event: str | None = None
    parent: str | None = None
    root: str | None = None
    replay_of: str | None = None
    version: int | None = Field(default=None, ge=1, le=2**31 - 1)
    roots: bool = False
    unresolved: bool = False
    since: str | None = None
    until: str | None = None
    q: str | None = None


class BatchCreate(Body):
    """What a batch is to do, with the executions of a filter or with those of ``ids``.

    Without a state in the filter a retry is for executions that failed, timed out or are dead, a replay for those that
    have ended, and a cancel for those that are open. With ``dry_run`` nothing is done or stored.
    """

    action: ActionName
    filter: BatchFilter | None = None
    ids: list[str] | None = Field(default=None, min_length=1, max_length=1000)
    latest: bool = Field(
        default=False, description="Run the active version instead of that of the execution."
    )
    limit: int = Field(default=1000, ge=1, le=100_000, description="At most this number, the newest first.")
    reason: str = Field(default="", max_length=500)
    dry_run: bool = False


class Problem(Row):
    """An execution that could not be handled."""

    execution_id: str
    error: Text


class Batch(Row):
    """A batch and how far it is. ``total`` is null when there were too many executions to count."""

    id: str
    action: ActionName
    filters: dict[str, Any] | None
    ids: list[str] | None
    latest: bool
    limit: int
    reason: Text
    author: str
    state: Literal["waiting", "running", "done", "cancelled"]
    total: int | None
    seen: int
    done: int
    failed: int
    problems: list[Problem]
    created_at: Instant
    finished_at: Instant | None


class BatchCount(Row):
    """The executions that a batch would handle. ``complete`` is false when there are more than were counted."""

    dry_run: Literal[True]
    count: int
    complete: bool
    examples: list[ExecutionRow]

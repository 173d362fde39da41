"""Rows of what happens now."""

from __future__ import annotations

from pydantic import Field

from functory.rows.base import Instant, Row


class RunningExecution(Row):
    """An execution that runs. ``started_at`` is that of its attempt."""

    id: str
    function: str
    version: int
    attempt: int
    cause: str
    worker_id: str
    root_id: str
    started_at: Instant


class ActiveFunction(Row):
    """A function: how many of its executions run now, and those that ended in the last minutes."""

    name: str
    running: int
    runs: int
    failures: int = Field(description="Those of them that failed, timed out, or are dead.")
    run_p95_seconds: float | None
    queued_p95_seconds: float | None = Field(description="Seconds until they started.")


class Activity(Row):
    """What happens now. The functions and the executions are the busiest ones, and the ones that have run longest."""

    at: Instant
    minutes: int = Field(
        description="What the numbers of ended executions are about, with the current minute."
    )
    queued: int
    running: int
    runs: int = Field(description="Executions that ended in these minutes.")
    failures: int
    workers: int
    slots: int
    functions: list[ActiveFunction]
    executions: list[RunningExecution]

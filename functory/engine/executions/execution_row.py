"""The rows of executions, as the transitions of their states read them."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from functory.engine.database.schema import execution
from functory.engine.database.typed_rows import columns
from functory.engine.events.causation import CausingExecution


class ExecutionRow(CausingExecution, frozen=True):
    """What an attempt, its end and every event about them need of an execution (columns of table ``execution``)."""

    version: int
    version_id: str
    cause: str
    trigger_id: str | None
    event_id: str | None
    parent_id: str | None
    input: Any
    attempt: int
    failures: int
    max_attempts: int
    retries: int
    run_at: datetime
    has_concurrency: bool
    throttle: Mapping[str, Any] | None
    cancel_requested_at: datetime | None
    created_at: datetime
    started_at: datetime | None


class LockedExecution(ExecutionRow, frozen=True):
    """An execution whose row a transaction has locked, to cancel, recover, expire or compensate it."""

    state: str
    worker_id: str | None
    cancelled_by: str | None
    error: Mapping[str, Any] | None


LOCKED_COLUMNS = columns(LockedExecution, execution)

"""Execution events: the event of a state change, written in the transaction that makes the change."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from functory.engine.database.transaction import Tx
from functory.engine.events import store as event_store
from functory.engine.events.causation import Cause
from functory.engine.events.decided_events import TriggerFacts
from functory.engine.executions.execution_row import ExecutionRow

# The types of the events that workers write: of each claim and of each result.
WORKER_EVENT_TYPES = frozenset({
    "execution.started", "execution.succeeded", "execution.failed", "execution.timed_out", "execution.cancelled",
    "execution.dead", "execution.attempt_failed", "output.matched",
})  # fmt: skip


class AppendEvents(Protocol):
    """Writes new event rows in a transaction, which may have read ``facts`` about the triggers."""

    def __call__(self, tx: Tx, rows: Sequence[dict[str, Any]], facts: TriggerFacts | None = None) -> None: ...


def append_for_router(tx: Tx, rows: Sequence[dict[str, Any]], facts: TriggerFacts | None = None) -> None:
    """Write new event rows without a decision about any of them, which no ``facts`` are needed for."""
    del facts
    event_store.append(tx, rows)


def event_data(row: ExecutionRow, state: str) -> dict[str, Any]:
    """Return the fields that every event about an execution carries."""
    return {
        "execution_id": row.id,
        "function": row.function,
        "version": row.version,
        "state": state,
        "attempt": row.attempt,
        "parent_id": row.parent_id,
        "trigger_id": row.trigger_id,
        "event_id": row.event_id,
    }


def execution_event(tx: Tx, row: ExecutionRow, type_: str, data: Mapping[str, Any]) -> dict[str, Any]:
    """Return an event row caused by an execution; its subject is the function's name."""
    return event_store.record(
        tx,
        type_,
        row.function,
        data,
        source=f"/functory/executions/{row.id}",
        cause=Cause.from_row(row),
    )

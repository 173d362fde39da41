"""Execution events: the event of a state change, written in the transaction that makes the change."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from functory.engine.database.transaction import Tx
from functory.engine.events import store as event_store
from functory.engine.events.causation import Cause


def event_data(row: Mapping[str, Any], state: str) -> dict[str, Any]:
    """Return the fields that every event about an execution carries."""
    return {
        "execution_id": row["id"],
        "function": row["function"],
        "version": row["version"],
        "state": state,
        "attempt": row["attempt"],
        "parent_id": row["parent_id"],
        "trigger_id": row["trigger_id"],
        "event_id": row["event_id"],
    }


def execution_event(tx: Tx, row: Mapping[str, Any], type_: str, data: Mapping[str, Any]) -> dict[str, Any]:
    """Return an event row caused by an execution; its subject is the function's name."""
    return event_store.record(
        tx,
        type_,
        row["function"],
        data,
        source=f"/functory/executions/{row['id']}",
        cause=Cause.from_row(row),
    )

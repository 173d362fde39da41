"""Rows of events for tests of what needs no database."""

from datetime import UTC, datetime
from typing import Any

from functory.engine.events.event_row import EventRow

START = datetime(2026, 1, 1, tzinfo=UTC)


def event_row(id_: str = "01998c5e-0000-7000-8000-000000000001", **fields: Any) -> EventRow:
    """The row of an event ``order.placed``, with these fields. It is the root of its tree unless one is given."""
    usual: dict[str, Any] = {
        "type": "order.placed", "subject": None, "root_id": id_, "cause_execution_id": None, "depth": 0, "chain": [],
        "time": START, "source": "/functory/api", "data": None, "extensions": None, "state": "pending",
        "routed_at": None,
    }  # fmt: skip
    return EventRow(id=id_, **usual | fields)

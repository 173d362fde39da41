"""The rows of events, as routing and publishing read them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from functory.engine.database.schema import event
from functory.engine.database.typed_rows import TypedRow, columns


class FiringEvent(TypedRow, frozen=True):
    """What a firing needs of its event (columns of table ``event``)."""

    id: str
    type: str
    subject: str | None
    root_id: str
    cause_execution_id: str | None
    depth: int
    chain: Sequence[Mapping[str, Any]]
    time: datetime


class EventRow(FiringEvent, frozen=True):
    """An event, as it is routed and published."""

    source: str
    data: Any
    extensions: Mapping[str, Any] | None
    state: str
    routed_at: datetime | None


FIRING_COLUMNS = columns(FiringEvent, event)
EVENT_COLUMNS = columns(EventRow, event)


def from_mapping(row: Mapping[str, Any]) -> EventRow:
    """Return the event of a mapping with its columns: a new row that is to be inserted, or one that was listed.

    Raises KeyError without one of the columns.
    """
    return EventRow(*[row[name] for name in EventRow.__struct_fields__])

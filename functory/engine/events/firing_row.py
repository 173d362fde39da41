"""The rows of firings: what each trigger decided about an event."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from functory.engine.database.schema import firing
from functory.engine.database.typed_rows import TypedRow, columns


class FiringRow(TypedRow, frozen=True):
    """The recorded decision of a trigger about an event (columns of table ``firing``)."""

    trigger_id: str
    event_id: str
    trigger_version: int
    decision: str
    reason: str | None
    limit_value: int | None
    actual_value: int | None
    detail: str | None
    chain: Sequence[Mapping[str, Any]] | None
    execution_id: str | None
    joint: bool
    root_id: str
    time: datetime


FIRING_ROW_COLUMNS = columns(FiringRow, firing)

"""The rows of triggers, as routing, flow control and firings read them."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

import sqlalchemy as sa

from functory.engine.database.schema import trigger, trigger_version
from functory.engine.database.typed_rows import TypedRow


class FiringTrigger(TypedRow, frozen=True):
    """What a firing needs of its trigger."""

    id: str
    name: str
    version: int


class TriggerRow(FiringTrigger, frozen=True):
    """A trigger with the definition of its current version, or of a draft that is tried."""

    definition: Mapping[str, Any]
    state: str = "enabled"
    origin: str = "user"
    note: str | None = None
    changed: int = 0
    updated_at: datetime | None = None


TRIGGER_COLUMNS: list[sa.ColumnElement[Any]] = [
    trigger.c.id,
    trigger.c.name,
    trigger.c.version,
    trigger_version.c.definition,
    trigger.c.state,
    trigger.c.origin,
    trigger.c.note,
    trigger.c.changed,
    trigger.c.updated_at,
]


def from_mapping(row: Mapping[str, Any]) -> TriggerRow:
    """Return the trigger of a mapping, as lists and pages have it: those of its columns that are there."""
    return TriggerRow(**{name: row[name] for name in TriggerRow.__struct_fields__ if name in row})

"""An event as others read it: a CloudEvents envelope. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from functory.engine.events import event_row
from functory.engine.events.event_row import EventRow


def envelope(row: EventRow) -> dict[str, Any]:
    """Return an event row as a CloudEvents 1.0.2 structured-mode JSON object (spec sections 3.1 and 3.2).

    Lineage is sent as extension attributes; the specification allows only lower-case letters in their names.
    """
    result: dict[str, Any] = dict(row.extensions or {})
    result |= {
        "specversion": "1.0",
        "id": row.id,
        "source": row.source,
        "type": row.type,
        "time": row.time.isoformat().replace("+00:00", "Z"),
        "datacontenttype": result.get("datacontenttype", "application/json"),
        "data": row.data,
        "functoryroot": row.root_id,
        "functorydepth": row.depth,
    }
    if row.subject is not None:
        result["subject"] = row.subject
    if row.cause_execution_id is not None:
        result["functorycause"] = row.cause_execution_id
    return result


def of_mapping(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return the envelope of an event in a mapping, as lists and pages have it. Without data the envelope has none
    either: the specification makes ``data`` optional.
    """
    found = envelope(
        event_row.from_mapping({"extensions": None, "data": None, "routed_at": None} | dict(row))
    )
    return found if "data" in row else {name: value for name, value in found.items() if name != "data"}


def completed(members: Mapping[str, Any], id_: str, time: datetime, source: str) -> dict[str, Any]:
    """Return members of an envelope with those that every event has: for an event that is tried and not stored."""
    return {
        "specversion": "1.0",
        "id": id_,
        "source": source,
        "time": time.isoformat().replace("+00:00", "Z"),
        "datacontenttype": "application/json",
        "data": None,
        "functorydepth": 0,
        **members,
    }

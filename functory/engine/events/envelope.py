"""An event as others read it: a CloudEvents envelope. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any


def envelope(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return an event row as a CloudEvents 1.0.2 structured-mode JSON object (spec sections 3.1 and 3.2).

    A row of a list has no data, and neither has its envelope (the spec makes ``data`` optional).
    Lineage is sent as extension attributes; the specification allows only lower-case letters in their names.
    """
    result: dict[str, Any] = dict(row.get("extensions") or {})
    result |= {
        "specversion": "1.0",
        "id": row["id"],
        "source": row["source"],
        "type": row["type"],
        "time": row["time"].isoformat().replace("+00:00", "Z"),
        "datacontenttype": result.get("datacontenttype", "application/json"),
        **({"data": row["data"]} if "data" in row else {}),
        "functoryroot": row["root_id"],
        "functorydepth": row["depth"],
    }
    if row["subject"] is not None:
        result["subject"] = row["subject"]
    if row["cause_execution_id"] is not None:
        result["functorycause"] = row["cause_execution_id"]
    return result


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

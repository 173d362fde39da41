"""Version marks: what is known about a version from its use. A rollback marks the version that it leaves as bad."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import sqlalchemy as sa

from functory.engine.database.schema import version_mark
from functory.engine.database.transaction import Tx
from functory.engine.events.causation import Cause
from functory.engine.functions import function_events
from functory.engine.functions.version_row import VersionRow

Mark = Literal["good", "bad"]


def load(tx: Tx, function_id: str) -> dict[int, dict[str, Any]]:
    """Return the marks of a function's versions, by number."""
    rows = tx.rows(sa.select(version_mark).where(version_mark.c.function_id == function_id))
    return {row["version"]: row for row in rows}


def write(
    tx: Tx,
    version: VersionRow,
    mark: Mark,
    reason: str,
    author: str,
    cause: Cause | None,
    *,
    canary_id: str | None = None,
) -> None:
    """Mark a version, and write the event ``version.marked``. A version that has this mark keeps its reason.
    ``canary_id`` is the canary that has shown it.
    """
    key = {"function_id": version.function_id, "version": version.number}
    known = load(tx, version.function_id).get(version.number)
    if known is not None and known["mark"] == mark:
        return
    values = {"mark": mark, "reason": reason, "by": author, "canary_id": canary_id, "at": tx.now}
    if known is None:
        tx.insert(version_mark, [key | values])
    else:
        tx.execute(sa.update(version_mark).filter_by(**key).values(**values))
    data = {
        "function": version.name,
        "version": version.number,
        "sha256": version.sha256,
        "mark": mark,
        "previous_mark": known["mark"] if known else None,
        "reason": reason,
        "author": author,
    }
    function_events.append(tx, "version.marked", version.name, data, cause)


def why(mark: Mapping[str, Any]) -> str:
    """Return the reason of a mark, with its author and time."""
    return f"{mark['reason']}, marked by {mark['by'] or 'unknown'} at {mark['at']:%Y-%m-%d %H:%M:%S} UTC"

"""The ``function.*`` events and the audit entries: one for each change of a function, in its transaction."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import sqlalchemy as sa

from functory.engine.database import audit
from functory.engine.database.schema import function, function_version
from functory.engine.database.transaction import Tx
from functory.engine.events import store as event_store
from functory.engine.events.causation import Cause

# What an audit entry has of the event's data.
_AUDITED = ("version", "previous_version", "active", "reason", "forced", "mark", "previous_mark")


def append(tx: Tx, type_: str, name: str, data: Mapping[str, Any], cause: Cause | None) -> None:
    """Append an event of the function ``name``, and its audit entry with the hashes of the versions."""
    append_event(tx, type_, name, data, cause)
    entry = {key: data[key] for key in _AUDITED if data.get(key) is not None}
    if cause is not None:
        entry["execution"] = cause.execution_id
    number = data["previous_version"] if "previous_version" in data else data["version"]
    before = tx.scalar(_SHA256, {"name": name, "number": number})
    after = None if type_ == "function.deleted" else data.get("sha256", before)
    audit.append(tx, data["author"], type_, name, entry, before=before, after=after)


def append_event(tx: Tx, type_: str, name: str, data: Mapping[str, Any], cause: Cause | None) -> None:
    """Append an event of the function ``name`` whose audit entry is the caller's."""
    source = f"/functory/functions/{name}"
    event_store.append(tx, [event_store.record(tx, type_, name, dict(data), source=source, cause=cause)])


_SHA256 = (
    sa.select(function_version.c.sha256)
    .join(function, function.c.id == function_version.c.function_id)
    .where(
        function.c.name == sa.bindparam("name"),
        function_version.c.number == sa.bindparam("number", type_=sa.Integer),
    )
)


def version_data(version: Mapping[str, Any]) -> dict[str, Any]:
    """Return the data of an event about one version."""
    return {
        "function": version["name"],
        "version": version["number"],
        "sha256": version["sha256"],
        "source_sha256": version["source_sha256"],
        "metadata": version["metadata"],
        "dependencies": [d["name"] for d in version["dependencies"]],
        "environment": version["environment"],
    }

"""The ``function.*`` events: one for each change of a function, in the transaction of the change."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from functory.engine.database.transaction import Tx
from functory.engine.events import store as event_store
from functory.engine.events.causation import Cause


def append(tx: Tx, type_: str, name: str, data: Mapping[str, Any], cause: Cause | None) -> None:
    """Append an event of the function ``name``."""
    source = f"/functory/functions/{name}"
    event_store.append(tx, [event_store.record(tx, type_, name, dict(data), source=source, cause=cause)])


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

"""The ``canary.*`` events: one for each change of a canary, in its transaction, with the counts so far."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from functory.engine.database.transaction import Tx
from functory.engine.functions import function_events

# What is counted of the units of a stage (functory.engine.releases.canary_counts).
COUNTED = ("units", "failed", "attempt_failed", "left_out")


def counts(stages: Sequence[Mapping[str, Any]]) -> dict[str, dict[str, int]]:
    """Return the numbers of all stages, of the ``base`` and of the ``canary``."""
    return {
        name: {counted: sum(stage[counted][arm] for stage in stages) for counted in COUNTED}
        for arm, name in enumerate(("base", "canary"))
    }


def append(tx: Tx, change: str, row: Mapping[str, Any], author: str, **more: Any) -> None:
    """Append the event ``canary.<change>`` about a canary (its row after the change)."""
    data = {
        "canary_id": row["id"],
        "function": row["function"],
        "version": row["version"],
        "base": row["base"],
        "share": row["share"],
        "unit": row["unit"],
        "state": row["state"],
        "reason": row["reason"],
        "deadline": row["deadline"].isoformat(),
        "proposal_id": row["proposal_id"],
        "counts": counts(row["stages"]),
        "author": author,
        **more,
    }
    function_events.append_event(tx, f"canary.{change}", row["function"], data, None)

"""Cancel-on: events that cancel what a trigger has started, or still holds, for events before them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from engine.tables import cancellation
from engine.tx import Tx


@dataclass(frozen=True)
class Cancel:
    """An event that the trigger's cancel-on rule number ``rule`` matched."""

    trigger: Mapping[str, Any]
    rule: int


def note(tx: Tx, found: Sequence[tuple[Mapping[str, Any], Cancel]]) -> None:
    """Remember these events; they are carried out once every event before them has been routed."""
    tx.insert(
        cancellation,
        [
            {"trigger_id": one.trigger["id"], "event_id": row["id"], "rule": one.rule, "time": tx.now}
            for row, one in found
        ],
    )
    if found:
        tx.wake("flow")

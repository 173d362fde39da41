"""Why a source made no event of what came: a count and the newest time for each reason.

The reasons are words of a closed list. Nothing that a sender wrote is kept, and no secret. The counts of all reasons
are one column of the source's row, so what a stranger can write is bounded.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import sqlalchemy as sa

from functory.engine.database.schema import source
from functory.engine.database.transaction import Tx

OTHER = "other"
# What a person reads, by reason.
REASONS = {
    "proof_missing": "the signature or the credentials are missing, or not in their form",
    "proof_wrong": "the signature or the credentials are wrong",
    "proof_old": "the signed time is too far from this machine's clock",
    "secret_missing": "the secret of the source is not set",
    "too_large": "it is larger than the source takes",
    "slow": "the body did not come in time",
    "content_type": "its content type is not one that is read",
    "encoding": "it is compressed, or in an encoding that is not read",
    "malformed": "the body is not what its content type says, such as JSON",
    "mapping": "an expression of the configuration makes no event of it",
    "rate": "more came than the rate of the source allows",
    "no_id": "the message has no id",
    "own_event": "the message is an event of this installation",
    "too_deep": "the message has come through too many installations of Functory",
    OTHER: "another reason",
}


@dataclass(frozen=True)
class Refusal:
    """``count`` arrivals became no event for this ``reason``; ``what`` says it in words. ``last_at``: the newest."""

    reason: str
    what: str
    count: int
    last_at: datetime


def counted(tx: Tx, source_id: str, numbers: Mapping[str, int]) -> dict[str, Any]:
    """Return the changes of a source's row that count these arrivals by reason. The row is locked."""
    before = tx.scalar(sa.select(source.c.refusals).where(source.c.id == source_id).with_for_update())
    known: dict[str, dict[str, Any]] = dict(before or {})
    for given, number in numbers.items():
        reason = given if given in REASONS else OTHER
        earlier = known.get(reason, {"count": 0})["count"]
        known[reason] = {"count": earlier + number, "last_at": tx.now.isoformat()}
    return {"refused": source.c.refused + sum(numbers.values()), "refusals": known}


def listed(stored: Mapping[str, Mapping[str, Any]] | None) -> list[Refusal]:
    """Return what a source's row holds, newest first. A reason of a later release counts as another one."""
    found = [
        Refusal(
            reason,
            REASONS.get(reason, REASONS[OTHER]),
            one["count"],
            datetime.fromisoformat(one["last_at"]),
        )
        for reason, one in (stored or {}).items()
    ]
    return sorted(found, key=lambda one: (one.last_at, one.count), reverse=True)

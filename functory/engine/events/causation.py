"""Causation: the cause that events and executions carry, and the fence check that keeps it true.

A cause is read from rows, never from parameters that a caller could omit or forge. Everything that a running function
writes carries its own execution's cause, and is checked against its fence in the writing transaction.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa

from functory.engine.database.connection import Tx
from functory.engine.database.schema import Id, execution
from functory.engine.errors import Stale


@dataclass(frozen=True)
class Cause:
    """The running attempt that is a cause: its execution, fence, root, depth and trigger chain.

    ``chain`` lists the triggers that led here, oldest first: ``{"trigger": id, "name", "subject", "event"}``.
    """

    execution_id: str
    fence: int
    root_id: str
    depth: int
    chain: tuple[Mapping[str, Any], ...]
    function: str

    @classmethod
    def from_row(cls, row: Mapping[str, Any]) -> Cause:
        """Return the cause that an execution row describes."""
        return cls(
            row["id"], row["fence"], row["root_id"], row["depth"], tuple(row["chain"]), row["function"]
        )


# Built once, because it runs with every event, call and write of a function.
_OWNED = (
    sa.select(execution.c.id)
    .where(
        execution.c.id == sa.bindparam("id", type_=Id),
        execution.c.fence == sa.bindparam("fence", type_=sa.Integer),
        execution.c.state == "running",
    )
    .with_for_update(read=True)
)


def check_fence(tx: Tx, cause: Cause | None) -> None:
    """Check, inside the writing transaction, that the attempt still owns its execution.

    Raises :class:`Stale` for a zombie: its lease was lost, it was cancelled, or it has finished.
    """
    if cause is None:
        return
    if tx.scalar(_OWNED, {"id": cause.execution_id, "fence": cause.fence}) is None:
        raise Stale(
            f"execution {cause.execution_id} no longer belongs to this attempt",
            f"fence {cause.fence} is not the current one",
            "nothing was written; the attempt ends",
        )

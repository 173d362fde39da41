"""Causation: the cause that events and executions carry, and the fence check that keeps it true.

A cause is read from rows, never from parameters that a caller could omit or forge. Everything that a running function
writes carries its own execution's cause, and is checked against its fence in the writing transaction.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa

from functory.engine.database.connection import Tx
from functory.engine.database.schema import Id, execution
from functory.engine.database.typed_rows import TypedRow, columns
from functory.engine.errors import Stale

# Links of a chain; chains of the default depth are far shorter.
MAX_LINKS = 64


class CausingExecution(TypedRow, frozen=True):
    """The columns of an execution that make it a cause (:meth:`Cause.from_row`)."""

    id: str
    fence: int
    root_id: str
    depth: int
    chain: Sequence[Mapping[str, Any]]
    function: str


CAUSE_COLUMNS = columns(CausingExecution, execution)


@dataclass(frozen=True)
class Cause:
    """The running attempt that is a cause: its execution, fence, root, depth and trigger chain.

    ``chain`` lists the triggers that led here, oldest first: ``{"trigger": id, "name", "subject", "event"}``;
    see :func:`extend_chain`.
    """

    execution_id: str
    fence: int
    root_id: str
    depth: int
    chain: tuple[Mapping[str, Any], ...]
    function: str

    @classmethod
    def from_row(cls, row: CausingExecution) -> Cause:
        """Return the cause that an execution row describes."""
        return cls(row.id, row.fence, row.root_id, row.depth, tuple(row.chain), row.function)


def extend_chain(chain: Sequence[Mapping[str, Any]], link: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Return the chain with one more link, of at most :data:`MAX_LINKS`: rows stay small however deep a chain is.

    In a longer chain the oldest link that a later one repeats (same trigger and subject) is counted on that one, as
    ``visits``. If there is none, the oldest link is left out; depth and budget still count it.
    """
    links = [*chain, link]
    if len(links) <= MAX_LINKS:
        return links
    later: dict[tuple[Any, Any], int] = {}
    repeated: tuple[int, int] | None = None
    for index in range(len(links) - 1, -1, -1):
        key = links[index]["trigger"], links[index]["subject"]
        if key in later:
            repeated = index, later[key]
        later[key] = index
    if repeated is None:
        return links[1:]
    oldest, next_ = repeated
    links[next_] = {**links[next_], "visits": visits(links[next_]) + visits(links[oldest])}
    return links[:oldest] + links[oldest + 1 :]


def visits(link: Mapping[str, Any]) -> int:
    """Return how many firings of its trigger for its subject a link of a chain stands for."""
    return link.get("visits", 1)


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

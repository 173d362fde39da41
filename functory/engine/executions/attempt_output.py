"""Output of attempts, which is stored while they run: log lines, and calls of dependencies that have ended.

The end of an attempt stores the rest (:mod:`functory.engine.executions.completion`), and so does its release
(:mod:`functory.engine.executions.leases`). All write under the fence, so an attempt that has lost its execution stores
nothing any more.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa

from functory.engine.database.connection import Database
from functory.engine.database.id_lists import one_of_keys
from functory.engine.database.schema import execution, log, span
from functory.engine.database.transaction import Tx

# The rows stay locked until the commit: the end of an attempt waits, and comes after its lines.
_OWNED = (
    sa.select(execution.c.id, execution.c.fence)
    .where(one_of_keys((execution.c.id, execution.c.fence), "mine"), execution.c.state == "running")
    .order_by(execution.c.id)
    .with_for_update(read=True)
)


@dataclass(frozen=True)
class AttemptOutput:
    """New output of the attempt with this execution id and fence: rows of ``log`` and ``span`` without their key.

    ``repeated`` means that some of the rows may be stored already: the outcome of a commit was not known.
    """

    key: tuple[str, int]
    logs: Sequence[Mapping[str, Any]] = ()
    spans: Sequence[Mapping[str, Any]] = ()
    repeated: bool = False


class AttemptOutputs:
    """Stores the output of one worker's attempts."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def store_output(self, outputs: Sequence[AttemptOutput]) -> set[tuple[str, int]]:
        """Store the output of running attempts in one transaction. Returns the keys of those that still own their
        executions; of the others nothing is stored.
        """
        if not outputs:
            return set()
        with self._database.write() as tx:
            return store(tx, outputs)


def store(tx: Tx, outputs: Sequence[AttemptOutput]) -> set[tuple[str, int]]:
    """Store output of running attempts in a transaction that is open. Returns the keys of those that still own their
    executions; of the others nothing is stored.
    """
    rows = tx.rows(_OWNED, {"mine": sorted(output.key for output in outputs)})
    owned = {(row["id"], row["fence"]) for row in rows}
    insert(tx, [output for output in outputs if output.key in owned])
    if owned:
        tx.wake("logs")
    return owned


def insert(tx: Tx, outputs: Sequence[AttemptOutput]) -> None:
    """Write output in a transaction that is open."""
    for table, name in ((span, "spans"), (log, "logs")):
        new: list[dict[str, Any]] = []
        repeated: list[dict[str, Any]] = []
        for output in outputs:
            key = {"execution_id": output.key[0], "fence": output.key[1]}
            (repeated if output.repeated else new).extend(key | dict(row) for row in getattr(output, name))
        tx.insert(table, new)
        tx.insert_missing(table, repeated)

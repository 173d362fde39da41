"""Open canaries: a version of a function that gets a share of its new executions, beside the active one.

Triggers (:mod:`functory.engine.firings.admission`) and starts (:mod:`functory.engine.executions.start`) ask here for
the version of a new execution, and record what they got. ``function.canary_id`` comes with the version that they read
anyway: without an open canary nothing more is read or written.
:mod:`functory.engine.releases.canaries` starts and ends canaries.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa

from functory.engine.database.schema import canary, canary_execution, function
from functory.engine.database.schema.canaries import CANARY_OPEN
from functory.engine.database.transaction import Tx
from functory.engine.functions import canary_assignment, canary_events, versions
from functory.engine.functions.canary_assignment import Arm
from functory.engine.functions.version_row import StartVersion


@dataclass(frozen=True)
class OpenCanary:
    """A canary (its row) and its ``version``."""

    row: Mapping[str, Any]
    version: StartVersion

    def assign(self, root_id: str, subject: str | None) -> Assigned:
        """Return what a new execution of the function is assigned to."""
        row = self.row
        unit = canary_assignment.unit_of(row["unit"], root_id, subject)
        return Assigned(self, canary_assignment.assign(unit, row["salt"], row["share"]))


@dataclass(frozen=True)
class Assigned:
    """The arm of one new execution."""

    canary: OpenCanary
    arm: Arm

    def choose(self, base: StartVersion) -> StartVersion:
        """Return the version of the arm; ``base`` is the active one."""
        return self.canary.version if self.arm.is_canary else base


def find(tx: Tx, version: StartVersion) -> OpenCanary | None:
    """Return the open canary of the function of a ``version`` that was loaded as the active one."""
    if version.canary_id is None:
        return None
    return load(tx, [version.canary_id]).get(version.name)


def load(tx: Tx, ids: Collection[str]) -> dict[str, OpenCanary]:
    """Return those of the canaries that are open, by the name of their function."""
    rows = tx.rows(sa.select(canary).where(canary.c.id.in_(ids), canary.c.state.in_(CANARY_OPEN)))
    found = versions.load_starts(tx, [(row["function"], row["version"]) for row in rows])
    return {
        row["function"]: OpenCanary(row, found[row["function"], row["version"]])
        for row in rows
        if (row["function"], row["version"]) in found
    }


def record(tx: Tx, assigned: Sequence[tuple[Assigned, str]]) -> None:
    """Record the arms of new executions (their ids), in the transaction that writes them."""
    tx.insert(
        canary_execution,
        [
            {
                "execution_id": id_,
                "canary_id": one.canary.row["id"],
                "unit": one.arm.unit,
                "is_canary": one.arm.is_canary,
                "stage": len(one.canary.row["stages"]) - 1,
                "outcome": None,
            }
            for one, id_ in assigned
        ],
    )


def end(tx: Tx, id_: str, state: str, reason: str, author: str) -> dict[str, Any] | None:
    """Write that an open canary has ended: no execution that starts later is assigned. Returns its row; None when it
    has ended before.

    The registry's lock (:data:`functory.engine.database.counters.FUNCTIONS`) is held by the caller, and it writes the
    event.
    """
    tx.execute(sa.update(function).where(function.c.canary_id == id_).values(canary_id=None))
    return tx.first(
        sa.update(canary)
        .where(canary.c.id == id_, canary.c.state.in_(CANARY_OPEN))
        .values(state=state, reason=reason, decided_at=tx.now, decided_by=author)
        .returning(canary)
    )


def stop(tx: Tx, function_id: str, reason: str, author: str) -> None:
    """Stop the open canary of a function, if it has one: another version becomes active, so that it compares with
    nothing any more.
    """
    id_ = tx.scalar(
        sa.select(canary.c.id).where(canary.c.function_id == function_id, canary.c.state.in_(CANARY_OPEN))
    )
    stopped = None if id_ is None else end(tx, id_, "stopped", reason, author)
    if stopped is not None:
        canary_events.append(tx, "stopped", stopped, author)

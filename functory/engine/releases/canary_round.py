"""One round of a canary: its executions that have ended are counted, and the evidence decides what is done with it.

:mod:`functory.engine.maintenance.canary_watch` begins the rounds, in any number of schedulers. A round counts units in
one transaction that also writes the number of the round: of two that have read the same units, one writes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa

from functory.engine.database.connection import Database
from functory.engine.database.schema import Id, attempt, canary, canary_execution, execution
from functory.engine.database.schema.canaries import CANARY_OPEN
from functory.engine.database.transaction import Tx
from functory.engine.database.typed_rows import TypedRow
from functory.engine.executions.outcomes import TERMINAL
from functory.engine.releases import canaries, canary_counts, canary_evidence, canary_moves
from functory.engine.releases.canary_counts import Outcome
from functory.engine.releases.canary_durations import SECONDS

# Executions of one transaction; on SQLite every writer waits for it.
PAGE = 500
# Of a unit that ended so nothing is known about its version.
LEFT_OUT = ("cancelled", "expired")
FAILED = ("failed", "timed_out", "dead")
_FAILED_ATTEMPTS = ("failed", "timed_out", "crashed")


@dataclass(frozen=True)
class Look:
    """What a round has read: the ``outcomes`` of units, what is written about each execution, the units of each stage
    that are open (of the base and of the canary), and whether there is ``more``.
    """

    outcomes: Sequence[Outcome]
    written: Mapping[str, str]
    pending: Sequence[Sequence[int]]
    more: bool


class _MeasuredAttempt(TypedRow, frozen=True):
    """The end of an attempt, as it counts for a version."""

    execution_id: str
    outcome: str | None
    seconds: float | None


def due(tx: Tx) -> list[dict[str, Any]]:
    """Return the canaries that are open, and those that have ended and have executions that were open then."""
    return tx.rows(_DUE)


def look(database: Database, id_: str) -> tuple[bool, float]:
    """Count what has ended of a canary, and decide, if it is still open. Returns whether there is more to count, and
    the evidence against the version.
    """
    with database.read(snapshot=True) as tx:
        row = tx.first(_OPEN_CANARY, {"canary_id": id_})
        if row is None:
            return False, 0.0
        found = _read(tx, row)
    stages = canary_counts.add(row["stages"], row["edges"], found.outcomes)
    seen = {**row, "stages": stages}
    if found.written:
        with database.write() as tx:
            if not _save(tx, row, stages, found.written):
                return False, 0.0
        seen["round"] += 1
    worse = canary_evidence.evidence(stages, row["tilts"])
    if found.more:
        # The rest may say something else.
        return True, worse
    assigned = [
        [stage["units"][arm] + stage["left_out"][arm] + pending[arm] for arm in (0, 1)]
        for stage, pending in zip(stages, found.pending, strict=True)
    ]
    decision = canary_evidence.decide(
        stages,
        row["tilts"],
        assigned,
        now=database.clock.now(),
        deadline=row["deadline"],
        held_for=row["reason"] if row["state"] == "held" else None,
    )
    if decision is not None:
        with database.write() as tx:
            canaries.decide(tx, seen, decision)
    return False, worse


def finish(database: Database, row: Mapping[str, Any]) -> bool:
    """Close the records of executions that were open when a canary (its row) ended. After a roll-back those that have
    not begun are given to the base: also one that was started at the same time. True when there is more.
    """
    with database.write() as tx:
        moved = canary_moves.to_base(tx, row) if row["state"] == "rolled_back" else 0
        late = list(tx.execute(_ENDED_LATE, {"canary_id": row["id"]}).scalars())
        tx.update_rows(canary_execution, [{"execution_id": id_, "outcome": "late"} for id_ in late])
    return max(moved, len(late)) >= PAGE


def _read(tx: Tx, row: Mapping[str, Any]) -> Look:
    ended = tx.rows(_ENDED, {"canary_id": row["id"]})
    attempts = _attempts(tx, [one["execution_id"] for one in ended if not one["is_later"]])
    written: dict[str, str] = {}
    outcomes = []
    for one in ended:
        id_ = one["execution_id"]
        if one["is_later"]:
            written[id_] = "later"
            continue
        left_out = one["state"] in LEFT_OUT
        written[id_] = "left_out" if left_out else "counted"
        failed, seconds = attempts.get(id_, (False, None))
        outcomes.append(
            Outcome(
                one["is_canary"],
                one["stage"],
                failed=one["state"] in FAILED,
                attempt_failed=failed,
                seconds=seconds if one["state"] == "succeeded" else None,
                left_out=left_out,
            )
        )
    pending = [[0, 0] for _ in row["stages"]]
    for one in tx.rows(_PENDING, {"canary_id": row["id"]}):
        pending[one["stage"]][int(one["is_canary"])] += one["units"]
    for outcome in outcomes:
        # It is no longer pending.
        pending[outcome.stage][int(outcome.is_canary)] -= 1
    return Look(outcomes, written, pending, len(ended) >= PAGE)


def _attempts(tx: Tx, ids: Sequence[str]) -> dict[str, tuple[bool, float | None]]:
    """Return for each execution whether an attempt failed, and the seconds of the last one."""
    found: dict[str, tuple[bool, float | None]] = {}
    for row in tx.all(_MeasuredAttempt, _MEASURED, {"ids": list(ids)}) if ids else ():
        failed, _ = found.get(row.execution_id, (False, None))
        found[row.execution_id] = (failed or row.outcome in _FAILED_ATTEMPTS, row.seconds)
    return found


def _save(
    tx: Tx, row: Mapping[str, Any], stages: Sequence[Mapping[str, Any]], written: Mapping[str, str]
) -> bool:
    """Write the counts of a round. False when another scheduler has counted since, or the canary has changed."""
    mine = (canary.c.id == row["id"], canary.c.round == row["round"], canary.c.state == row["state"])
    share = canary.c.share == row["share"]
    values = {"stages": list(stages), "round": row["round"] + 1}
    if tx.execute(sa.update(canary).where(*mine, share).values(**values)).rowcount != 1:
        return False
    tx.update_rows(
        canary_execution, [{"execution_id": id_, "outcome": outcome} for id_, outcome in written.items()]
    )
    return True


# Built once, because every scheduler runs them in every round.
_MEASURED = (
    sa.select(attempt.c.execution_id, attempt.c.outcome, SECONDS)
    .where(attempt.c.execution_id.in_(sa.bindparam("ids", expanding=True)))
    .order_by(attempt.c.execution_id, attempt.c.fence)
)
_DUE = sa.select(canary).where(
    sa.or_(
        canary.c.state.in_(CANARY_OPEN),
        canary.c.id.in_(
            sa.select(canary_execution.c.canary_id).where(canary_execution.c.outcome.is_(None)).distinct()
        ),
    )
)
_CANARY_ID = sa.bindparam("canary_id", type_=Id)
_OPEN_CANARY = sa.select(canary).where(canary.c.id == _CANARY_ID, canary.c.state.in_(CANARY_OPEN))
_OPEN = (canary_execution.c.canary_id == _CANARY_ID, canary_execution.c.outcome.is_(None))
_other = canary_execution.alias("other")
# Another execution of the unit was made before, or has been counted.
_IS_LATER = (
    sa.exists()
    .where(
        _other.c.canary_id == canary_execution.c.canary_id,
        _other.c.unit == canary_execution.c.unit,
        _other.c.execution_id != canary_execution.c.execution_id,
        sa.or_(_other.c.execution_id < canary_execution.c.execution_id, _other.c.outcome.is_not(None)),
    )
    .correlate(canary_execution)
)
_ENDED = (
    sa.select(
        canary_execution.c.execution_id,
        canary_execution.c.is_canary,
        canary_execution.c.stage,
        execution.c.state,
        _IS_LATER.label("is_later"),
    )
    .join(execution, execution.c.id == canary_execution.c.execution_id)
    .where(*_OPEN, execution.c.state.in_(TERMINAL))
    .order_by(canary_execution.c.execution_id)
    .limit(PAGE)
)
_PENDING = (
    sa.select(canary_execution.c.stage, canary_execution.c.is_canary, sa.func.count().label("units"))
    .where(*_OPEN, sa.not_(_IS_LATER))
    .group_by(canary_execution.c.stage, canary_execution.c.is_canary)
)
_ENDED_LATE = (
    sa.select(canary_execution.c.execution_id)
    .join(execution, execution.c.id == canary_execution.c.execution_id)
    .where(*_OPEN, execution.c.state.in_(TERMINAL))
    .order_by(canary_execution.c.execution_id)
    .limit(PAGE)
)

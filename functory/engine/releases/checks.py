"""The checks of proposals as work: a worker takes one, keeps its lease, and writes its end.

pending → running → passed | warned | failed. A check whose worker has died is taken again, at most three times. When
one fails, those after it are skipped.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Literal

import sqlalchemy as sa

from functory.engine.database.connection import Database
from functory.engine.database.schema import gate_check, proposal
from functory.engine.database.transaction import Tx
from functory.engine.functions import dependencies, version_modules, versions
from functory.engine.functions.version_row import VersionCode, VersionRow

End = Literal["passed", "warned", "failed", "skipped"]
MAX_TRIES = 3
# A report is for people: what does not fit is cut by the checks themselves.
MAX_REPORT_BYTES = 65_536
STATIC, RIGHTS, TESTS, MUTANTS = "static", "rights", "tests", "mutants"
ORDER = (STATIC, RIGHTS, TESTS, MUTANTS)
# Those that run in the sandbox.
RUN = (TESTS, MUTANTS)

_OPEN = gate_check.c.state.in_(("pending", "running"))


@dataclass(frozen=True)
class Work:
    """A check that a worker has taken. ``codes`` are the version and its dependencies by ``name@3``, with their own
    modules; ``base_codes`` those of the version that was active, None for a new function.
    """

    proposal: Mapping[str, Any]
    name: str
    tries: int
    version: VersionRow
    codes: Mapping[str, VersionCode]
    base: VersionRow | None
    base_codes: Mapping[str, VersionCode]


def new_row(tx: Tx, proposal_id: str, name: str, state: str, report: Mapping[str, Any]) -> dict[str, Any]:
    """Return the row of a check of a proposal."""
    return {
        "proposal_id": proposal_id,
        "name": name,
        "position": ORDER.index(name),
        "state": state,
        "report": dict(report),
        "tries": 0,
        "worker": None,
        "lease_until": None,
        "seconds": None,
        "updated_at": tx.now,
    }


def of_proposal(tx: Tx, id_: str) -> list[dict[str, Any]]:
    """Return the checks of a proposal, in their order."""
    return tx.rows(
        sa.select(gate_check).where(gate_check.c.proposal_id == id_).order_by(gate_check.c.position)
    )


class Checks:
    """Hands out the checks of a database. ``worker`` names the process, ``lease_seconds`` is how long it keeps one
    without a renewal.
    """

    def __init__(self, database: Database, worker: str, lease_seconds: float) -> None:
        self._database = database
        self._worker = worker
        self._lease = timedelta(seconds=lease_seconds)

    def is_any_open(self) -> bool:
        """Return True when a check waits or runs."""
        with self._database.read() as tx:
            return tx.scalar(sa.select(gate_check.c.proposal_id).where(_OPEN).limit(1)) is not None

    def claim(self) -> Work | None:
        """Take the next check; None without one."""
        with self._database.write() as tx:
            row = self._next(tx)
            if row is None:
                return None
            if row["tries"] >= MAX_TRIES:
                problem = f"it did not end in {MAX_TRIES} tries"
                _end(tx, row, "failed", {"problem": problem}, None)
                tx.wake("gate")
                return None
            tries = row["tries"] + 1
            tx.execute(
                sa.update(gate_check)
                .where(*_key(row))
                .values(
                    state="running",
                    tries=tries,
                    worker=self._worker,
                    lease_until=tx.now + self._lease,
                    updated_at=tx.now,
                )
            )
            own = tx.first(sa.select(proposal).where(proposal.c.id == row["proposal_id"]))
            assert own is not None
            version = versions.load(tx, own["function"], own["version"])
            if version is None:
                _end(tx, row, "failed", {"problem": "the function was deleted"}, None)
                return None
            base = versions.load(tx, own["function"], own["base_version"]) if own["base_version"] else None
            return Work(
                own,
                row["name"],
                tries,
                version,
                _codes(tx, version),
                base,
                _codes(tx, base) if base is not None else {},
            )

    def renew(self, work: Work) -> bool:
        """Keep a check for another lease. False when another worker has it, or its proposal has ended."""
        with self._database.write() as tx:
            return bool(
                tx.execute(
                    sa.update(gate_check)
                    .where(*_of(work))
                    .values(lease_until=tx.now + self._lease, updated_at=tx.now)
                ).rowcount
            )

    def finish(self, work: Work, state: End, report: Mapping[str, Any], seconds: float) -> bool:
        """Write the end of a check. False when another worker has it, or its proposal has ended."""
        with self._database.write() as tx:
            row = tx.first(sa.select(gate_check).where(*_of(work)))
            if row is None:
                return False
            _end(tx, row, state, report, seconds)
        return True

    @staticmethod
    def _next(tx: Tx) -> dict[str, Any] | None:
        earlier = gate_check.alias("earlier")
        free = sa.or_(gate_check.c.state == "pending", gate_check.c.lease_until < tx.now)
        blocked = (
            sa.select(earlier.c.position)
            .where(
                earlier.c.proposal_id == gate_check.c.proposal_id,
                earlier.c.position < gate_check.c.position,
                earlier.c.state.in_(("pending", "running")),
            )
            .exists()
        )
        return tx.first(
            sa.select(gate_check)
            .where(_OPEN, free, ~blocked)
            .order_by(gate_check.c.proposal_id, gate_check.c.position)
            .limit(1)
            .with_for_update(skip_locked=True, of=gate_check)
        )


def end_open(tx: Tx, id_: str) -> None:
    """Skip the checks of a proposal that has ended."""
    tx.execute(
        sa.update(gate_check)
        .where(gate_check.c.proposal_id == id_, _OPEN)
        .values(state="skipped", worker=None, lease_until=None, updated_at=tx.now)
    )


def _end(
    tx: Tx, row: Mapping[str, Any], state: End, report: Mapping[str, Any], seconds: float | None
) -> None:
    tx.execute(
        sa.update(gate_check)
        .where(*_key(row))
        .values(
            state=state,
            report=dict(report),
            seconds=seconds,
            worker=None,
            lease_until=None,
            updated_at=tx.now,
        )
    )
    if state == "failed":
        end_open(tx, row["proposal_id"])


def _key(row: Mapping[str, Any]) -> tuple[sa.ColumnElement[bool], ...]:
    return gate_check.c.proposal_id == row["proposal_id"], gate_check.c.name == row["name"]


def _of(work: Work) -> tuple[sa.ColumnElement[bool], ...]:
    return (
        gate_check.c.proposal_id == work.proposal["id"],
        gate_check.c.name == work.name,
        gate_check.c.tries == work.tries,
        gate_check.c.state == "running",
    )


def _codes(tx: Tx, version: VersionRow) -> dict[str, VersionCode]:
    linked = dependencies.closure(version, lambda name, pin: versions.load(tx, name, pin))
    return version_modules.as_codes(tx, linked)

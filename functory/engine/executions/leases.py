"""Leases: an attempt owns its execution until ``lease_until``, and renews or gives up that ownership here.

A lease lasts ``lease_seconds`` (``functory.engine.settings``). A worker renews the leases of everything that it runs
with one heartbeat. An attempt whose lease has expired is requeued or declared dead by
:mod:`functory.engine.maintenance.lost_workers`; its fence is raised, so every later write of that attempt changes no
row.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

import sqlalchemy as sa

from functory.engine.database.connection import Database, Tx
from functory.engine.database.id_lists import one_of_keys
from functory.engine.database.schema import Instant, attempt, execution
from functory.engine.database.typed_rows import TypedRow, columns
from functory.engine.executions import attempt_output, queue_rows
from functory.engine.executions.attempt_output import AttemptOutput
from functory.engine.telemetry import metrics

# A worker that stops again and again may release an execution this often before a release counts as an attempt.
MAX_RELEASES = 20


class _OwnedExecution(TypedRow, frozen=True):
    """An execution that runs, in the attempt that asked."""

    id: str
    fence: int
    cancel_requested_at: datetime | None


# Built once, because they run with every heartbeat.
_OWNED = (one_of_keys((execution.c.id, execution.c.fence), "mine"), execution.c.state == "running")
_OWNED_COLUMNS = columns(_OwnedExecution, execution)
_RENEWED = (
    sa.update(execution)
    .where(*_OWNED)
    .values(lease_until=sa.bindparam("lease", type_=Instant))
    .returning(*_OWNED_COLUMNS)
)
_LEASE_STATUS = sa.select(*_OWNED_COLUMNS).where(*_OWNED)


@dataclass
class LeaseStatus:
    """The answer to a heartbeat: the attempts that lost their lease, and those that an operator wants cancelled.

    Both are (execution id, fence) pairs, because one worker may claim an execution again while an older attempt of its
    own has not stopped yet.
    """

    lost: set[tuple[str, int]] = field(default_factory=set)
    cancel_requested: set[tuple[str, int]] = field(default_factory=set)


class Leases:
    """The leases of one worker's attempts."""

    def __init__(self, database: Database, lease_seconds: float) -> None:
        self._database = database
        self._lease = timedelta(seconds=lease_seconds)

    def heartbeat(self, claims: Iterable[tuple[str, int]]) -> LeaseStatus:
        """running → running: renew the leases of these (execution id, fence) pairs."""
        asked = set(claims)
        if not asked:
            return LeaseStatus()
        with metrics.transaction("heartbeat"), self._database.write() as tx:
            rows = tx.all(_OwnedExecution, _RENEWED, {"mine": sorted(asked), "lease": tx.now + self._lease})
        return _lease_status(asked, rows)

    def lease_status(self, claims: Iterable[tuple[str, int]]) -> LeaseStatus:
        """Return the answer of :meth:`heartbeat` without renewing: a read, cheap enough to run every second."""
        asked = set(claims)
        if not asked:
            return LeaseStatus()
        with self._database.read() as tx:
            rows = tx.all(_OwnedExecution, _LEASE_STATUS, {"mine": sorted(asked)})
        return _lease_status(asked, rows)

    def release(
        self,
        claims: Iterable[tuple[str, int]],
        reason: str = "worker shutdown",
        *,
        started: bool = True,
        outputs: Sequence[AttemptOutput] = (),
    ) -> int:
        """running → queued without counting the attempt, because the worker shuts down. Returns the number released.

        A ``started`` attempt can be released :data:`MAX_RELEASES` times; one that never ran, without limit. ``outputs``
        is what the attempts have printed and is not stored yet.
        """
        with self._database.write() as tx:
            if outputs:
                attempt_output.store(tx, outputs)
            return sum(release(tx, id_, fence, reason, started=started) for id_, fence in claims)


def release(tx: Tx, id_: str, fence: int, reason: str, *, started: bool) -> int:
    """Give one attempt back in a transaction that is open. Returns 1, or 0 if the attempt owns nothing any more."""
    changed = tx.execute(
        sa.update(execution)
        .where(
            execution.c.id == id_,
            execution.c.fence == fence,
            execution.c.state == "running",
            execution.c.released < MAX_RELEASES if started else sa.true(),
        )
        .values(
            state="queued",
            attempt=execution.c.attempt - 1,
            released=execution.c.released + int(started),
            run_at=tx.now,
            lease_until=None,
            worker_id=None,
        )
    ).rowcount
    if changed:
        queue_rows.requeue(tx, id_, tx.now)
        tx.execute(
            sa.update(attempt)
            .where(attempt.c.execution_id == id_, attempt.c.fence == fence)
            .values(ended_at=tx.now, outcome="released", error={"type": "Released", "message": reason})
        )
        tx.wake("executions")
    return changed


def _lease_status(asked: set[tuple[str, int]], rows: Sequence[_OwnedExecution]) -> LeaseStatus:
    found = {(row.id, row.fence): row.cancel_requested_at for row in rows}
    return LeaseStatus(asked - found.keys(), {key for key, since in found.items() if since is not None})

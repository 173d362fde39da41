"""Claims: a worker takes queued executions, and each claim begins one attempt.

A claim raises ``attempt`` and ``fence`` in the transaction that sets ``running``. Every later write of the attempt is
conditional on ``(id, fence, state = 'running')``, so a zombie (an attempt that lost its lease) changes no row.
Attempts are counted at the claim: a function that kills its worker still reaches its limit of attempts.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

import sqlalchemy as sa

from functory.engine.access import grants
from functory.engine.access.grants import NOTHING, Grants
from functory.engine.database.connection import Database, Tx
from functory.engine.database.schema import Id, Json, attempt, execution
from functory.engine.errors import FunctoryError, NotFound, Unavailable
from functory.engine.events import store as event_store
from functory.engine.events.causation import Cause
from functory.engine.executions import claim_batch, leases, ready_queue, throttled_claims
from functory.engine.executions.execution_events import (
    AppendEvents,
    append_for_router,
    event_data,
    execution_event,
)
from functory.engine.executions.execution_row import ExecutionRow
from functory.engine.executions.runnable_versions import RunnableVersion, RunnableVersions
from functory.engine.functions.limits import Limits
from functory.engine.functions.log_policies import ALL, LogPolicy
from functory.engine.functions.version_row import VersionCode
from functory.engine.telemetry import metrics

# Built once, because they run with every claim.
_IDS = sa.bindparam("ids", expanding=True)
# Executions that another transaction changes now are left to it: this one already holds their queue rows.
_FREE = (
    sa.select(execution.c.id)
    .where(execution.c.id.in_(_IDS), execution.c.state == "queued")
    .with_for_update(skip_locked=True)
)


@dataclass(frozen=True)
class Claim:
    """One attempt that this worker owns: the execution's row and the exact code it runs.

    ``codes`` holds versions by ``name@number``, the entry first. ``problem`` says why it cannot
    run (a dependency is missing): the worker then finishes it without starting a process. ``grants`` are those of all
    its codes together, because they share a process.
    """

    row: ExecutionRow
    version: VersionCode
    codes: Mapping[str, VersionCode]
    limits: Limits
    claimed_at: datetime
    problem: FunctoryError | None = None
    grants: Grants = NOTHING
    grant_warnings: Sequence[str] = ()
    # Seconds between the first sending and this claim; None if no message was sent.
    queued_seconds: float | None = None
    log_policy: LogPolicy = ALL

    @property
    def id(self) -> str:
        return self.row.id

    @property
    def fence(self) -> int:
        return self.row.fence

    @property
    def started_at(self) -> datetime:
        """When the first attempt of the execution began."""
        assert self.row.started_at is not None
        return self.row.started_at

    @property
    def cause(self) -> Cause:
        """The cause that events and executions of this attempt carry."""
        return Cause.from_row(self.row)


class Claims:
    """The claims of one worker."""

    def __init__(
        self,
        database: Database,
        worker_id: str,
        *,
        lease_seconds: float,
        isolation: str = "none",
        author_grants: Collection[str] = grants.SERVER_AUTHOR_GRANTS,
        append_events: AppendEvents = append_for_router,
    ) -> None:
        self._database = database
        self._worker_id = worker_id
        self._lease = timedelta(seconds=lease_seconds)
        self._isolation = isolation
        self._append_events = append_events
        self._runnable = RunnableVersions(isolation, author_grants)
        # Claims whose commit outcome is unknown: (id, fence) and when the attempt started.
        self._unknown_claims: dict[tuple[str, int], datetime] = {}

    def claim(self, ids: Sequence[str]) -> list[Claim]:
        """queued → running for those of ``ids`` that are due.

        The others (taken, cancelled, early, without a token of their throttle) and texts that are no id are skipped:
        ids come from messages.
        """
        known = [id_ for id_ in map(_id_or_none, ids) if id_ is not None]
        if not known:
            return []
        return self._claim_or_remember(lambda tx, taken: self._claim(tx, known, taken))

    def claim_any(self, limit: int, *, waited: float = 0.0) -> list[Claim]:
        """Claim up to ``limit`` due executions without a message: those that have waited ``waited`` seconds for one.

        The order is that of :mod:`functory.engine.executions.ready_queue`.
        """

        def next_ones(tx: Tx, taken: dict[tuple[str, int], datetime]) -> list[Claim]:
            ids = ready_queue.select_unclaimed(tx, limit, waited=waited)
            ids += (
                ready_queue.select_next(tx, limit - len(ids), waited=waited).ids if len(ids) < limit else []
            )
            if ids and tx.writes_concurrently:
                free = set(tx.execute(_FREE, {"ids": ids}).scalars())
                ids = [id_ for id_ in ids if id_ in free]
            return self._claim(tx, ids, taken) if ids else []

        return self._claim_or_remember(next_ones)

    def any_due(self, *, waited: float = 0.0) -> bool:
        """Return True when :meth:`claim_any` would find something: a read, cheap enough to run every second."""
        with self._database.read() as tx:
            return ready_queue.has_due(tx, waited=waited)

    def reconcile(self) -> int:
        """Release the claims that were committed although the commit was reported as failed. No worker runs them.

        Returns the number released. Raises :class:`~functory.engine.errors.Unavailable`; the claims are then kept for
        the next call.
        """
        unknown = dict(self._unknown_claims)
        if not unknown:
            return 0
        released = 0
        with self._database.write() as tx:
            for (id_, fence), started_at in unknown.items():
                committed = sa.select(attempt.c.fence).where(
                    attempt.c.execution_id == id_,
                    attempt.c.fence == fence,
                    attempt.c.worker_id == self._worker_id,
                    # A later claim of this worker may have got the same fence.
                    attempt.c.started_at == started_at,
                )
                if tx.scalar(committed) is not None:
                    released += leases.release(
                        tx, id_, fence, "its claim was reported as failed", started=False
                    )
        for key in unknown:
            self._unknown_claims.pop(key, None)
        return released

    def _claim_or_remember(
        self, claim: Callable[[Tx, dict[tuple[str, int], datetime]], list[Claim]]
    ) -> list[Claim]:
        """Run a claim; if its commit outcome is unknown, remember what it took for :meth:`reconcile`."""
        taken: dict[tuple[str, int], datetime] = {}
        try:
            with metrics.transaction("claim"):
                return self._database.group_commit(lambda tx: claim(tx, taken))
        except Unavailable:
            self._unknown_claims |= taken
            raise

    def _claim(self, tx: Tx, ids: Sequence[str], taken: dict[tuple[str, int], datetime]) -> list[Claim]:
        claimed = claim_batch.take(tx, ids, self._worker_id, tx.now + self._lease)
        places = claimed.places
        rows = throttled_claims.keep_with_token(tx, claimed.rows, places)
        taken.clear()
        if not rows:
            return []
        taken.update({(row.id, row.fence): tx.now for row in rows})
        order = {id_: position for position, id_ in enumerate(ids)}
        rows.sort(key=lambda row: order[row.id])
        runnable = self._runnable.get(tx, claimed.grant_changes, {row.version_id for row in rows})
        _record_versions(tx, rows, runnable)
        queued = [_seconds_since(places[row.id].dispatched_at, tx.now) for row in rows]
        claim_batch.add_attempts(tx, rows, queued, runnable, self._worker_id, self._isolation)
        self._append_events(
            tx,
            [execution_event(tx, row, "execution.started", event_data(row, "running")) for row in rows],
            claimed.facts,
        )
        return [
            _claim_of(row, runnable[row.version_id], tx.now, seconds)
            for row, seconds in zip(rows, queued, strict=True)
        ]


_RECORDED = (
    sa.update(execution)
    .where(execution.c.id == sa.bindparam("own_id", type_=Id))
    .values(versions=sa.bindparam("exact", type_=Json))
)


def _record_versions(tx: Tx, rows: Sequence[ExecutionRow], runnable: Mapping[str, RunnableVersion]) -> None:
    """Record the exact versions of the executions whose functions have dependencies."""
    exact = [{"own_id": row.id, "exact": runnable[row.version_id].exact} for row in rows]
    exact = [one for one in exact if one["exact"] is not None]
    if exact:
        tx.execute(_RECORDED, exact)


def _claim_of(
    row: ExecutionRow, version: RunnableVersion, claimed_at: datetime, queued_seconds: float | None
) -> Claim:
    return Claim(
        row,
        version.version,
        version.codes,
        version.limits,
        claimed_at,
        version.problem,
        version.grants,
        version.grant_warnings,
        queued_seconds,
        version.log_policy,
    )


def _seconds_since(sent_at: datetime | None, now: datetime) -> float | None:
    return None if sent_at is None else max(0.0, (now - sent_at).total_seconds())


def _id_or_none(value: Any) -> str | None:
    try:
        return event_store.as_id(value, "execution")
    except NotFound:
        return None

"""Claims: a worker takes queued executions, and each claim begins one attempt.

A claim raises ``attempt`` and ``fence`` in the transaction that sets ``running``. Every later write of the attempt is
conditional on ``(id, fence, state = 'running')``, so a zombie (an attempt that lost its lease) changes no row.
Attempts are counted at the claim: a function that kills its worker still reaches its limit of attempts.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any

import sqlalchemy as sa

from functory.engine.access import grants
from functory.engine.access.grants import NOTHING, Grants
from functory.engine.database.connection import Database, Tx
from functory.engine.database.schema import Instant, attempt, execution
from functory.engine.errors import FunctoryError, NotFound, Unavailable
from functory.engine.events import store as event_store
from functory.engine.events.causation import Cause
from functory.engine.executions import leases, ready_queue, throttled_claims
from functory.engine.executions.execution_events import event_data, execution_event
from functory.engine.functions import dependencies, grant_approvals, limits, version_modules, versions
from functory.engine.functions.limits import Limits

# Loaded versions that one worker keeps.
MAX_CACHED_VERSIONS = 2000

# Built once, because they run with every claim.
_IDS = sa.bindparam("ids", expanding=True)
_NOW = sa.bindparam("now", type_=Instant)
_CLAIMED = (
    sa.update(execution)
    # What was dispatched is due by the dispatcher's clock; the clock of this process may be slightly behind.
    .where(
        execution.c.id.in_(_IDS),
        execution.c.state == "queued",
        sa.not_(execution.c.waiting_for_slot),
        sa.or_(execution.c.run_at <= _NOW, execution.c.dispatched_at.is_not(None)),
        sa.or_(
            execution.c.expires_at.is_(None),
            execution.c.expires_at > _NOW,
            execution.c.started_at.is_not(None),
        ),
    )
    .values(
        state="running",
        attempt=execution.c.attempt + 1,
        fence=execution.c.fence + 1,
        lease_until=sa.bindparam("lease", type_=Instant),
        worker_id=sa.bindparam("worker"),
        started_at=sa.func.coalesce(execution.c.started_at, _NOW),
    )
    .returning(execution, grant_approvals.CHANGE_COUNTER)
)


@dataclass(frozen=True)
class Claim:
    """One attempt that this worker owns: the execution's row and the exact code it runs.

    ``codes`` holds version rows by ``name@number``, the entry first. ``problem`` says why it cannot
    run (a dependency is missing): the worker then finishes it without starting a process. ``grants`` are those of all
    its codes together, because they share a process.
    """

    row: Mapping[str, Any]
    version: Mapping[str, Any]
    codes: Mapping[str, Mapping[str, Any]]
    limits: Limits
    problem: FunctoryError | None = None
    grants: Grants = NOTHING
    grant_warnings: Sequence[str] = ()
    # Seconds between the first sending and this claim; None if no message was sent.
    queued_seconds: float | None = None

    @property
    def id(self) -> str:
        return self.row["id"]

    @property
    def fence(self) -> int:
        return self.row["fence"]

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
    ) -> None:
        self._database = database
        self._worker_id = worker_id
        self._lease = timedelta(seconds=lease_seconds)
        self._isolation = isolation
        self._author_grants = author_grants
        # A version never changes once it is written, so a cached one stays right.
        self._versions: dict[str, dict[str, Any]] = {}
        self._grant_approvals = grant_approvals.GrantApprovalCache()
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
            return self._database.group_commit(lambda tx: claim(tx, taken))
        except Unavailable:
            self._unknown_claims |= taken
            raise

    def _claim(self, tx: Tx, ids: Sequence[str], taken: dict[tuple[str, int], datetime]) -> list[Claim]:
        parameters = {
            "ids": list(ids),
            "now": tx.now,
            "lease": tx.now + self._lease,
            "worker": self._worker_id,
        }
        rows = throttled_claims.keep_with_token(tx, tx.rows(_CLAIMED, parameters))
        taken.clear()
        if not rows:
            return []
        taken.update({(row["id"], row["fence"]): tx.now for row in rows})
        order = {id_: position for position, id_ in enumerate(ids)}
        change_counter = {row.pop("grants_changed") for row in rows}.pop()
        claims = [self._with_code(tx, row) for row in sorted(rows, key=lambda r: order[r["id"]])]
        claims = self._with_grants(tx, change_counter, claims)
        tx.insert(
            attempt,
            [
                {
                    "execution_id": claim.id,
                    "fence": claim.fence,
                    "number": claim.row["attempt"],
                    "worker_id": self._worker_id,
                    "isolation": self._isolation,
                    "sandbox": self._sandbox(claim),
                    "started_at": tx.now,
                    "queued_seconds": claim.queued_seconds,
                }
                for claim in claims
            ],
        )
        event_store.append(
            tx, [execution_event(tx, row, "execution.started", event_data(row, "running")) for row in rows]
        )
        return claims

    def _with_grants(self, tx: Tx, change_counter: int | None, claims: Sequence[Claim]) -> list[Claim]:
        """Add to each claim its grants: those that the authors may declare, and those that operators approved."""
        keys = {(code["name"], code["sha256"]) for claim in claims for code in claim.codes.values()}
        approved = self._grant_approvals.get(tx, change_counter, keys)
        found: list[Claim] = []
        for claim in claims:
            effective, warnings = NOTHING, []
            for code in claim.codes.values():
                declared, allowed = Grants.declared(code), approved[code["name"], code["sha256"]]
                effective = effective | grants.effective(declared, self._author_grants, allowed)
                if declared:
                    missing = grants.pending(declared, self._author_grants, allowed).only(grants.RIGHTS)
                    warnings += grants.warnings(code["name"], code["number"], missing)
            found.append(
                replace(claim, grants=effective, grant_warnings=warnings) if effective or warnings else claim
            )
        return found

    def _sandbox(self, claim: Claim) -> dict[str, Any]:
        """Return the confinement of the attempt, for its row: code hash, isolation tier, environment, grants and
        limits.
        """
        return {
            "sha256": claim.version["sha256"],
            "tier": self._isolation,
            "environment": claim.version["environment"],
            "grants": claim.grants.as_json(),
            "limits": claim.limits.as_json(),
        }

    def _with_code(self, tx: Tx, row: dict[str, Any]) -> Claim:
        version = self._versions.get(row["version_id"])
        if version is None:
            version = versions.load_version(tx, row["version_id"])
            # The active version changes, so it is not cached.
            version = {
                key: value for key, value in version.items() if key not in ("state", "active", "latest")
            }
            if len(self._versions) > MAX_CACHED_VERSIONS:
                self._versions.clear()
            version |= {"modules": version_modules.load_texts(tx, [version]).get(version["id"], {})}
            # An environment that could not be built may succeed later, so such a version is read again.
            if not version["environment_error"]:
                self._versions[row["version_id"]] = version
        problem: FunctoryError | None = None
        codes: dict[str, Mapping[str, Any]] = {f"{version['name']}@{version['number']}": version}
        if version["dependencies"]:
            try:
                codes = dependencies.closure(version, lambda name, pin: versions.load(tx, name, pin))
                texts = version_modules.load_texts(
                    tx, [row for row in codes.values() if "modules" not in row]
                )
                codes = {key: {"modules": texts.get(row["id"], {})} | dict(row) for key, row in codes.items()}
                used = {code["function"]: code["number"] for key, code in codes.items()}
                exact = (
                    sorted(codes) if len(used) < len(codes) else [f"{n}@{v}" for n, v in sorted(used.items())]
                )
                tx.execute(sa.update(execution).where(execution.c.id == row["id"]).values(versions=exact))
            except FunctoryError as error:
                problem = error
        sent_at = row["dispatched_at"]
        queued = None if sent_at is None else max(0.0, (tx.now - sent_at).total_seconds())
        return Claim(row, version, codes, limits.parse(version["limits"]), problem, queued_seconds=queued)


def _id_or_none(value: Any) -> str | None:
    try:
        return event_store.as_id(value, "execution")
    except NotFound:
        return None

"""What an attempt does: claim, heartbeat, finish, release. Each is one transaction, guarded by a fence.

A claim raises ``attempt`` and ``fence``; every later write of the attempt is conditional on
``(id, fence, state = 'running')``. An attempt that lost its lease (a zombie) finds no row to change
and ends without a trace in the results. Attempts are counted at the claim, so that a function which
kills its worker still reaches its limit.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any

import sqlalchemy as sa

from functory.engine.access import grants
from functory.engine.access.grants import NOTHING, Grants
from functory.engine.database.connection import Database, Tx
from functory.engine.database.schema import Instant, attempt, execution
from functory.engine.errors import FunctoryError, NotFound, Stale, Unavailable
from functory.engine.events import store as event_store
from functory.engine.executions import completion, ready_queue
from functory.engine.executions.claim import Claim
from functory.engine.executions.completion import event_data, execution_event
from functory.engine.executions.retry import AttemptResult, NextState, decide
from functory.engine.functions import dependencies, grant_approvals, limits, versions

# A worker that stops again and again may give an execution back this often without it counting.
MAX_RELEASES = 20


# Carried out for every attempt: built once.
_IDS = sa.bindparam("ids", expanding=True)
_NOW = sa.bindparam("now", type_=Instant)
_CLAIMED = (
    sa.update(execution)
    # What was dispatched is due by the dispatcher's clock; ours may be a moment behind.
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
_OWNED = (
    sa.tuple_(execution.c.id, execution.c.fence).in_(sa.bindparam("mine", expanding=True)),
    execution.c.state == "running",
)
_LEASE_COLUMNS = (execution.c.id, execution.c.fence, execution.c.cancel_requested_at)
_RENEWED = (
    sa.update(execution)
    .where(*_OWNED)
    .values(lease_until=sa.bindparam("lease", type_=Instant))
    .returning(*_LEASE_COLUMNS)
)
_LEASE_STATUS = sa.select(*_LEASE_COLUMNS).where(*_OWNED)


@dataclass
class LeaseStatus:
    """The answer to a heartbeat: attempts that are no longer ours, and those that shall be cancelled.

    They are (id, fence) pairs: a worker may have claimed anew what a stopped thread of its own still runs.
    """

    lost: set[tuple[str, int]] = field(default_factory=set)
    cancel_requested: set[tuple[str, int]] = field(default_factory=set)


class Attempts:
    """The claims of one worker."""

    def __init__(
        self,
        database: Database,
        worker_id: str,
        *,
        lease_seconds: float,
        isolation: str = "none",
        author_grants: Collection[str] = grants.SERVER_AUTHOR_GRANTS,
        rng: random.Random | None = None,
    ) -> None:
        self._database = database
        self._worker_id = worker_id
        self._lease = timedelta(seconds=lease_seconds)
        self._isolation = isolation
        self._author_grants = author_grants
        self._random = rng or random.Random()  # noqa: S311  (jitter)
        # Versions never change once written: what was read stays right.
        self._versions: dict[str, dict[str, Any]] = {}
        self._grant_approvals = grant_approvals.GrantApprovalCache()
        # What claims would own whose commit was reported as failed, with the moment of each.
        self._unknown_claims: dict[tuple[str, int], datetime] = {}
        # Endings whose commit was reported as failed: it may have been carried out.
        self._unknown_results: dict[tuple[str, int], AttemptResult] = {}

    def claim(self, ids: Sequence[str]) -> list[Claim]:
        """queued → running for those of ``ids`` that are due. Others (taken, cancelled, early) are left
        alone, and so is what is no id at all: a message comes from outside."""
        known = [id_ for id_ in map(_id_or_none, ids) if id_ is not None]
        if not known:
            return []
        return self._claim_or_remember(lambda tx, taken: self._claim(tx, known, taken))

    def _claim_or_remember(
        self, claim: Callable[[Tx, dict[tuple[str, int], datetime]], list[Claim]]
    ) -> list[Claim]:
        """Carry out a claim; what it has taken is remembered where it is not known whether it was committed."""
        taken: dict[tuple[str, int], datetime] = {}
        try:
            return self._database.group_commit(lambda tx: claim(tx, taken))
        except Unavailable:
            self._unknown_claims |= taken
            raise

    def reconcile(self) -> int:
        """Give back what a claim took whose commit was reported as failed and was carried out: nobody runs it.

        Returns how many. Raises :class:`Unavailable`; what was not looked at then is looked at the next time.
        """
        unsure = dict(self._unknown_claims)
        if not unsure:
            return 0
        back = 0
        with self._database.write() as tx:
            for (id_, fence), moment in unsure.items():
                mine = sa.select(attempt.c.fence).where(
                    attempt.c.execution_id == id_,
                    attempt.c.fence == fence,
                    attempt.c.worker_id == self._worker_id,
                    # Another claim of this worker may have got the same fence since.
                    attempt.c.started_at == moment,
                )
                if tx.scalar(mine) is not None:
                    back += _release(tx, id_, fence, "its claim was reported as failed", started=False)
        for key in unsure:
            self._unknown_claims.pop(key, None)
        return back

    def _claim(self, tx: Tx, ids: Sequence[str], taken: dict[tuple[str, int], datetime]) -> list[Claim]:
        given = {"ids": list(ids), "now": tx.now, "lease": tx.now + self._lease, "worker": self._worker_id}
        rows = tx.rows(_CLAIMED, given)
        taken.clear()
        if not rows:
            return []
        taken.update({(row["id"], row["fence"]): tx.now for row in rows})
        order = {id_: place for place, id_ in enumerate(ids)}
        stamp = {row.pop("grants_changed") for row in rows}.pop()
        claims = [self._with_code(tx, row) for row in sorted(rows, key=lambda r: order[r["id"]])]
        claims = self._with_grants(tx, stamp, claims)
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

    def _with_grants(self, tx: Tx, stamp: int | None, claims: Sequence[Claim]) -> list[Claim]:
        """The claims with their grants: what the authors of their codes may grant, and what operators allowed."""
        keys = {(code["name"], code["sha256"]) for claim in claims for code in claim.codes.values()}
        widened = self._grant_approvals.get(tx, stamp, keys)
        found: list[Claim] = []
        for claim in claims:
            has, waiting = NOTHING, []
            for code in claim.codes.values():
                declared, allowed = Grants.declared(code), widened[code["name"], code["sha256"]]
                has = has | grants.effective(declared, self._author_grants, allowed)
                if declared:
                    missing = grants.pending(declared, self._author_grants, allowed)
                    waiting += grants.warnings(code["name"], code["number"], missing)
            found.append(replace(claim, grants=has, grant_warnings=waiting) if has or waiting else claim)
        return found

    def _sandbox(self, claim: Claim) -> dict[str, Any]:
        """How the attempt is confined, for the record; and what changes that it makes are measured by."""
        return {
            "sha256": claim.version["sha256"],
            "tier": self._isolation,
            "environment": claim.version["environment"],
            "grants": claim.grants.as_json(),
            "limits": claim.limits.as_json(),
        }

    def any_due(self, *, waited: float = 0.0) -> bool:
        """Whether :meth:`claim_any` would find something: cheap enough to be asked every second."""
        with self._database.read() as tx:
            return ready_queue.has_due(tx, waited=waited)

    def claim_any(self, limit: int, *, waited: float = 0.0) -> list[Claim]:
        """Claim up to ``limit`` due executions without a broker's hint: those that have waited ``waited`` seconds for
        one, sent or not, in the order of ``functory.engine.executions.ready_queue``."""

        def next_ones(tx: Tx, taken: dict[tuple[str, int], datetime]) -> list[Claim]:
            ids = ready_queue.select_unclaimed(tx, limit, waited=waited)
            ids += (
                ready_queue.select_next(tx, limit - len(ids), waited=waited).ids if len(ids) < limit else []
            )
            return self._claim(tx, ids, taken) if ids else []

        return self._claim_or_remember(next_ones)

    def _with_code(self, tx: Tx, row: dict[str, Any]) -> Claim:
        version = self._versions.get(row["version_id"])
        if version is None:
            version = versions.load_version(tx, row["version_id"])
            # What is active changes: it must not be remembered.
            version = {
                key: value for key, value in version.items() if key not in ("state", "active", "latest")
            }
            if len(self._versions) > 2000:
                self._versions.clear()
            # Packages that could not be had may be there the next time: the one thing that a version lacks at first.
            if not version["environment_error"]:
                self._versions[row["version_id"]] = version
        problem: FunctoryError | None = None
        codes: dict[str, Mapping[str, Any]] = {f"{version['name']}@{version['number']}": version}
        if version["dependencies"]:
            try:
                codes = dependencies.closure(version, lambda name, pin: versions.load(tx, name, pin))
                used = {code["function"]: code["number"] for key, code in codes.items()}
                exact = (
                    sorted(codes) if len(used) < len(codes) else [f"{n}@{v}" for n, v in sorted(used.items())]
                )
                tx.execute(sa.update(execution).where(execution.c.id == row["id"]).values(versions=exact))
            except FunctoryError as error:
                problem = error
        sent = row["dispatched_at"]
        queued = None if sent is None else max(0.0, (tx.now - sent).total_seconds())
        return Claim(row, version, codes, limits.parse(version["limits"]), problem, queued_seconds=queued)

    def heartbeat(self, claims: Iterable[tuple[str, int]]) -> LeaseStatus:
        """running → running: extend the leases of (id, fence) pairs; what is lost or to be cancelled comes back."""
        wanted = set(claims)
        if not wanted:
            return LeaseStatus()
        with self._database.write() as tx:
            rows = tx.rows(_RENEWED, {"mine": sorted(wanted), "lease": tx.now + self._lease})
        return _lease_status(wanted, rows)

    def lease_status(self, claims: Iterable[tuple[str, int]]) -> LeaseStatus:
        """As :meth:`heartbeat`, but only looks: cheap enough to be asked every second."""
        wanted = set(claims)
        if not wanted:
            return LeaseStatus()
        with self._database.read() as tx:
            rows = tx.rows(_LEASE_STATUS, {"mine": sorted(wanted)})
        return _lease_status(wanted, rows)

    def finish(self, claim: Claim, attempt_result: AttemptResult) -> NextState:
        """running → succeeded, failed, timed_out, cancelled, dead, or queued for another try.

        One transaction: the state, the attempt's end, spans, logs, exactly one event, and the
        ``output.matched`` events of a success. Raises :class:`Stale` when the attempt is a zombie.
        """
        following = decide(claim.row, claim.limits, attempt_result, self._random.random())
        matched = completion.match_outputs(claim, attempt_result) if following.state == "succeeded" else []
        key = (claim.id, claim.fence)
        try:
            done = self._database.group_commit(
                lambda tx: completion.finish(tx, claim, attempt_result, following, matched)
            )
        except Unavailable:
            self._unknown_results[key] = attempt_result
            raise
        except Stale:
            if self._unknown_results.pop(key, None) == attempt_result and self._is_stored(
                claim, attempt_result
            ):
                return following
            raise
        self._unknown_results.pop(key, None)
        return done

    def _is_stored(self, claim: Claim, attempt_result: AttemptResult) -> bool:
        """Whether this very ending is there already: its commit was carried out and reported as failed.

        Only a finish writes how long an attempt took; what the reaper or an operator ended has none.
        """
        with self._database.read() as tx:
            row = tx.first(
                sa.select(attempt.c.outcome, attempt.c.duration_seconds, attempt.c.waited_seconds).where(
                    attempt.c.execution_id == claim.id, attempt.c.fence == claim.fence
                )
            )
        return row is not None and row == {
            "outcome": attempt_result.outcome,
            "duration_seconds": attempt_result.duration_seconds,
            "waited_seconds": attempt_result.waited_seconds,
        }

    def release(
        self, claims: Iterable[tuple[str, int]], reason: str = "worker shutdown", *, started: bool = True
    ) -> int:
        """running → queued without counting the attempt: the worker goes away. Returns how many.

        What was ``begun`` may be released a limited number of times; what never ran cannot be at fault.
        """
        released = 0
        with self._database.write() as tx:
            for id_, fence in claims:
                released += _release(tx, id_, fence, reason, started)
        return released


def _lease_status(wanted: set[tuple[str, int]], rows: Sequence[Mapping[str, Any]]) -> LeaseStatus:
    """What the rows that were found say about those that were asked for."""
    found = {(row["id"], row["fence"]): row["cancel_requested_at"] for row in rows}
    return LeaseStatus(wanted - found.keys(), {key for key, moment in found.items() if moment is not None})


def _release(tx: Tx, id_: str, fence: int, reason: str, started: bool) -> int:
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
            queue_at=tx.now,
            dispatched_at=None,
            dispatch_count=0,
            lease_until=None,
            worker_id=None,
        )
    ).rowcount
    if changed:
        tx.execute(
            sa.update(attempt)
            .where(attempt.c.execution_id == id_, attempt.c.fence == fence)
            .values(ended_at=tx.now, outcome="released", error={"type": "Released", "message": reason})
        )
        tx.wake("executions")
    return changed


def _id_or_none(value: Any) -> str | None:
    try:
        return event_store.as_id(value, "execution")
    except NotFound:
        return None

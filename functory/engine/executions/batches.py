"""Batches: one action on many executions, as a job that survives the process that began it.

A batch is a row with its filter or its ids. The scheduler takes a page of executions at a time under a lease, newest
first, and moves the batch on after each page. A process that dies leaves its page to the next one, which does it again:
a replay has an idempotency key of its batch, and an execution that is cancelled already stays so.

Executions that are newer than the batch are left out. Those that it starts itself are among them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import datetime, timedelta
from typing import Any, Literal, get_args

import sqlalchemy as sa

from functory.engine.access.scopes import Scope
from functory.engine.database import audit, prune_watermarks
from functory.engine.database.connection import Database
from functory.engine.database.schema import batch
from functory.engine.database.transaction import Tx
from functory.engine.errors import Conflict, FunctoryError, Invalid, NotFound, Unavailable
from functory.engine.events.store import as_id, check_key
from functory.engine.executions import listing
from functory.engine.executions.cancellation import OPEN
from functory.engine.executions.listing import ExecutionFilter
from functory.engine.executions.store import Executions
from functory.engine.service import Service
from functory.engine.settings import Settings

Action = Literal["retry", "replay", "cancel"]
ACTIONS: tuple[Action, ...] = get_args(Action)

# The states that an action applies to; a retry is for what did not succeed.
STATES: Mapping[Action, tuple[str, ...]] = {
    "retry": ("failed", "timed_out", "dead", "cancelled", "expired"),
    "replay": ("succeeded", "failed", "timed_out", "cancelled", "dead", "expired"),
    "cancel": OPEN,
}
# What a retry without a state in its filter means.
USUAL_STATES: Mapping[Action, tuple[str, ...]] = {**STATES, "retry": ("failed", "timed_out", "dead")}

MAX_EXECUTIONS = 100_000
MAX_IDS = 1_000
# Executions of one page: at most this number is done again after a crash.
PAGE = 100
# The page of a count, and its pages: more are not looked at while a person waits.
COUNT_PAGE, COUNT_PAGES = 1_000, 20
# A page takes seconds. When a process dies, another one goes on after this time.
LEASE = timedelta(seconds=60)
# Of the executions that could not be handled, the first are kept with their errors.
KEPT_PROBLEMS = 20
MAX_REASON = 500
EXAMPLES = 5


@dataclass(frozen=True)
class BatchRequest:
    """What a batch is to do: with the executions of a filter, or with those of ``ids``."""

    action: Action
    filter: ExecutionFilter | None = None
    ids: Sequence[str] | None = None
    latest: bool = False
    limit: int = 1_000
    reason: str = ""

    def __post_init__(self) -> None:
        if self.action not in ACTIONS:
            raise Invalid(f"unknown action {self.action!r}", f"known are: {', '.join(ACTIONS)}")
        if (self.filter is None) == (self.ids is None):
            raise Invalid("a batch needs a filter or ids", "it has both, or none of them")
        if self.ids is not None and not 1 <= len(self.ids) <= MAX_IDS:
            raise Invalid("wrong ids", f"a batch takes 1 to {MAX_IDS:,} ids", "use a filter for more")
        if not 1 <= self.limit <= MAX_EXECUTIONS:
            raise Invalid("wrong limit", f"it must be 1 to {MAX_EXECUTIONS:,}")
        if self.latest and self.action == "cancel":
            raise Invalid("latest is for retry and replay", "a cancelled execution runs no version")
        if len(self.reason) > MAX_REASON:
            raise Invalid("the reason is too long", f"at most {MAX_REASON} characters are kept")


@dataclass(frozen=True)
class Found:
    """The executions that a batch would handle: how many, and the first of them. Not ``complete``: there are more."""

    count: int
    complete: bool
    examples: list[dict[str, Any]]


class Batches:
    """Makes, lists and ends batches."""

    def __init__(self, database: Database, settings: Settings) -> None:
        self._database = database
        self._settings = settings

    def work_once(self) -> bool:
        """Handle one page in this process, as the scheduler does. False when there was nothing to do."""
        return BatchRunner(self._database, self._settings).run_once()

    def time_ago(self, seconds: float) -> datetime:
        """Return the time that was this number of seconds ago, by the engine's clock."""
        return self._database.clock.now() - timedelta(seconds=seconds)

    def count(self, request: BatchRequest, scope: Scope = None) -> Found:
        """Return what a batch would handle now, up to its limit. Changes nothing."""
        if request.ids is not None:
            ids = _distinct(request.ids)
            visible = listing.visible_ids(self._database, ids, scope)
            missing = next((id_ for id_ in ids if id_ not in visible), None)
            if missing is not None:
                raise NotFound(f"execution {missing} not found", try_="functory execution list")
            with self._database.read() as tx:
                rows = listing.rows_of(tx, ids, scope)
            fitting = [row for row in rows if row["state"] in STATES[request.action]]
            return Found(min(len(fitting), request.limit), True, fitting[: min(EXAMPLES, request.limit)])
        wanted, before, count, examples = self._wanted(request), None, 0, []
        for _ in range(COUNT_PAGES):
            size = min(COUNT_PAGE, request.limit - count)
            page = listing.page(self._database, wanted, before=before, limit=size, scope=scope)
            count += len(page.rows)
            examples = examples or page.rows[:EXAMPLES]
            before = page.next
            if before is None or count >= request.limit:
                return Found(count, True, examples)
        return Found(count, False, examples)

    def create(
        self,
        request: BatchRequest,
        *,
        author: str,
        scope: Scope = None,
        idempotency_key: str | None = None,
    ) -> dict[str, Any]:
        """Store a batch, which the scheduler carries out. Returns its row; with a used key that of the first one."""
        check_key(idempotency_key, "idempotency_key")
        found = self.count(request, scope)
        wanted = None if request.filter is None else self._wanted(request)
        with self._database.write() as tx:
            row = {
                "id": tx.new_id(),
                "action": request.action,
                "filters": None if wanted is None else _stored(wanted),
                "ids": None if request.ids is None else _distinct(request.ids),
                "latest": request.latest,
                "at_most": request.limit,
                "scope": None if scope is None else list(scope),
                "author": author,
                "reason": request.reason,
                "state": "waiting",
                "total": found.count if found.complete else None,
                "last_id": None,
                "seen": 0,
                "done": 0,
                "failed": 0,
                "problems": [],
                "created_at": tx.now,
                "finished_at": None,
                "lease_until": None,
                "idempotency_key": idempotency_key,
            }
            if not tx.insert_missing(batch, [row]):
                known = tx.first(sa.select(batch).where(batch.c.idempotency_key == idempotency_key))
                if known is None or known["author"] != author:
                    raise Conflict("this idempotency key was used before", "by somebody else")
                return known
            audit.append(
                tx,
                author,
                f"batch.{request.action}",
                row["id"],
                {name: row[name] for name in ("filters", "ids", "latest", "at_most", "reason", "total")},
            )
            tx.wake("batches")
        return row

    def list(
        self, *, before: str | None = None, limit: int = 50, author: str | None = None
    ) -> list[dict[str, Any]]:
        """Return batches, newest first; with ``author`` only those that this author made."""
        statement = sa.select(batch).order_by(batch.c.id.desc()).limit(limit)
        if before is not None:
            statement = statement.where(batch.c.id < as_id(before, "batch"))
        if author is not None:
            statement = statement.where(batch.c.author == author)
        with self._database.read() as tx:
            return tx.rows(statement)

    def get(self, id_: str, author: str | None = None) -> dict[str, Any]:
        """Return a batch; with ``author`` only one that this author made. Raises :class:`NotFound`."""
        with self._database.read() as tx:
            return _get(tx, id_, author)

    def cancel(self, id_: str, *, author: str, own: bool = False) -> dict[str, Any]:
        """End a batch before its next page; what it has done stays. Returns its row. ``own``: only one that the author
        made. Raises :class:`NotFound`, and :class:`Conflict` for a batch that is over.
        """
        with self._database.write() as tx:
            row = _get(tx, id_, author if own else None)
            ended = tx.execute(
                sa.update(batch)
                .where(batch.c.id == row["id"], batch.c.state.in_(("waiting", "running")))
                .values(state="cancelled", finished_at=tx.now)
            )
            if not ended.rowcount:
                raise Conflict(f"batch {id_} is {row['state']}", "it cannot be cancelled any more")
            audit.append(tx, author, "batch.cancel", row["id"], {"done": row["done"]})
            return _get(tx, id_)

    def _wanted(self, request: BatchRequest) -> ExecutionFilter:
        """Return the filter of what the action applies to, with an end: later executions are left out."""
        wanted, action = request.filter, request.action
        assert wanted is not None
        if wanted.states:
            states = tuple(state for state in wanted.states if state in STATES[action])
            if not states:
                raise Invalid(
                    f"no {action} of executions that are {' or '.join(wanted.states)}",
                    f"it is for those that are {', '.join(STATES[action])}",
                )
        else:
            states = USUAL_STATES[action]
        now = self._database.clock.now() + timedelta(milliseconds=1)
        return replace(wanted, states=states, until=now if wanted.until is None else min(now, wanted.until))


class BatchRunner(Service):
    """Carries out batches, a page at a time. Any number of processes may run one."""

    name, topic, poll_seconds = "batches", "batches", 5.0

    def __init__(self, database: Database, settings: Settings) -> None:
        self._database = database
        self._executions = Executions(database, settings)

    def run_once(self) -> bool:
        """Handle one page of the oldest batch that no other process works on. True when there was one."""
        with self._database.read() as tx:
            open_ = tx.rows(_OPEN, {"now": tx.now})
        return any(self._run_page(row["id"]) for row in open_[:1])

    def _run_page(self, id_: str) -> bool:
        row = self._claim(id_)
        if row is None:
            return True
        ids, last_id, over = self._next(row)
        visible = listing.visible_ids(self._database, ids, _scope(row))
        problems: list[dict[str, str]] = []
        for execution_id in ids:
            # One of its ids may have been deleted since, or lost the label.
            problem = self._handle(row, execution_id) if execution_id in visible else "execution not found"
            if problem is not None:
                problems.append({"execution_id": execution_id, "error": problem})
        self._store(row, ids, last_id, over, problems)
        return True

    def _claim(self, id_: str) -> dict[str, Any] | None:
        """Take the lease. None when another process has it, or the batch is over."""
        with self._database.write() as tx:
            free = sa.or_(batch.c.lease_until.is_(None), batch.c.lease_until < tx.now)
            taken = tx.execute(
                sa.update(batch)
                .where(batch.c.id == id_, batch.c.state.in_(("waiting", "running")), free)
                .values(state="running", lease_until=tx.now + LEASE)
            )
            return _get(tx, id_) if taken.rowcount else None

    def _next(self, row: Mapping[str, Any]) -> tuple[list[str], str | None, bool]:
        """Return the next executions, the key that the page after them begins with, and whether they are the last."""
        size = min(PAGE, row["at_most"] - row["seen"])
        if row["ids"] is not None:
            ids = row["ids"][row["seen"] : row["seen"] + size]
            return ids, None, row["seen"] + len(ids) >= min(len(row["ids"]), row["at_most"])
        wanted = _filter(row["filters"])
        page = listing.page(self._database, wanted, before=row["last_id"], limit=size, scope=_scope(row))
        over = page.next is None or row["seen"] + len(page.rows) >= row["at_most"]
        return [found["id"] for found in page.rows], page.next, over

    def _handle(self, row: Mapping[str, Any], execution_id: str) -> str | None:
        """Do the action on one execution. Returns the problem if that is not possible. Raises :class:`Unavailable`."""
        action = self._cancel if row["action"] == "cancel" else self._start_again
        try:
            action(row, execution_id)
        except Unavailable:
            raise
        except FunctoryError as error:
            return f"{error.what}: {error.why}" if error.why else error.what
        return None

    def _start_again(self, row: Mapping[str, Any], execution_id: str) -> None:
        again: Callable[..., Any] = (
            self._executions.retry if row["action"] == "retry" else self._executions.replay
        )
        # The batch has one entry in the audit log, its executions have none.
        again(execution_id, latest=row["latest"], idempotency_key=f"batch:{row['id']}:{execution_id}")

    def _cancel(self, row: Mapping[str, Any], execution_id: str) -> None:
        try:
            self._executions.cancel(execution_id, author=row["author"], batch=row["id"])
        except Conflict:
            # Done before a crash.
            if self._executions.get(execution_id)["state"] != "cancelled":
                raise

    def _store(
        self,
        row: Mapping[str, Any],
        ids: Sequence[str],
        last_id: str | None,
        over: bool,
        problems: Sequence[Mapping[str, str]],
    ) -> None:
        """Move the batch on, unless the lease was lost: then another process has done the page again."""
        with self._database.write() as tx:
            kept = [*row["problems"], *problems][:KEPT_PROBLEMS]
            values: dict[str, Any] = {
                "seen": row["seen"] + len(ids),
                "done": row["done"] + len(ids) - len(problems),
                "failed": row["failed"] + len(problems),
                "problems": kept,
                "last_id": last_id,
                "lease_until": None,
            }
            mine = batch.c.id == row["id"], batch.c.lease_until == row["lease_until"]
            stored = tx.execute(sa.update(batch).where(*mine).values(values))
            if over and stored.rowcount:
                # Not a batch that was cancelled meanwhile.
                tx.execute(
                    sa.update(batch)
                    .where(batch.c.id == row["id"], batch.c.state == "running")
                    .values(state="done", finished_at=tx.now)
                )


_OPEN = (
    sa.select(batch.c.id)
    .where(
        sa.text("state IN ('waiting', 'running')"),
        sa.or_(
            batch.c.lease_until.is_(None),
            batch.c.lease_until < sa.bindparam("now", type_=batch.c.lease_until.type),
        ),
    )
    .order_by(batch.c.id)
    .limit(1)
)


def _get(tx: Tx, id_: str, author: str | None = None) -> dict[str, Any]:
    row = tx.first(sa.select(batch).where(batch.c.id == as_id(id_, "batch")))
    if row is None or (author is not None and row["author"] != author):
        raise prune_watermarks.missing(tx, as_id(id_, "batch"), f"batch {id_} not found")
    return row


def _scope(row: Mapping[str, Any]) -> Scope:
    return None if row["scope"] is None else tuple(row["scope"])


def _distinct(ids: Sequence[str]) -> list[str]:
    return list(dict.fromkeys(as_id(id_, "execution") for id_ in ids))


def _stored(wanted: ExecutionFilter) -> dict[str, Any]:
    given = {name: value for name, value in asdict(wanted).items() if value not in (None, (), [], False)}
    return {
        name: value.isoformat() if isinstance(value, datetime) else value for name, value in given.items()
    }


def _filter(stored: Mapping[str, Any]) -> ExecutionFilter:
    times = {name: datetime.fromisoformat(stored[name]) for name in ("since", "until") if name in stored}
    return ExecutionFilter(**{**stored, **times})

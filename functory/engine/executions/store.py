"""The execution store: executions are started, read, awaited, cancelled and replayed.

The states and their transitions (each is one transaction; any other is refused)::

    ∅ → queued                    router, API, a running parent           (start_one, triggers/launch)
    queued → running              a worker                                (claims.claim)
    running → succeeded, failed, timed_out, queued again, dead            (completion.finish; decided in retry_or_dead)
    running → queued              a worker that shuts down                (leases.release)
    running → queued, dead        the reaper, after the lease expired     (maintenance/lost_workers.reap)
    queued, running → cancelled   an operator, a trigger                  (cancellation.cancel)
    queued → expired              the reaper, after expires_at            (maintenance/lost_workers.reap)

A finished execution is never reopened; :meth:`Executions.replay` makes a new one.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeVar

import sqlalchemy as sa

from functory.engine import choices
from functory.engine.database import audit, prune_watermarks
from functory.engine.database.connection import Database, Tx
from functory.engine.database.payloads import columns, page_size
from functory.engine.database.schema import Id, attempt, bad_end, execution, log, span
from functory.engine.database.schema.executions import BAD_ENDS, STATES
from functory.engine.errors import Conflict, NotFound, WaitTimeout
from functory.engine.events import store as event_store
from functory.engine.events.causation import Cause
from functory.engine.events.store import as_id
from functory.engine.executions import cancellation, open_executions, queue_rows, resolutions, start
from functory.engine.executions.cancellation import OPEN
from functory.engine.executions.direct_dispatch import OpensRoom
from functory.engine.executions.outcomes import TERMINAL
from functory.engine.executions.runs import membership
from functory.engine.executions.start import MakeInput
from functory.engine.executions.start_one import OneStart
from functory.engine.flow_control import concurrency
from functory.engine.functions import versions
from functory.engine.serialization import json_schema
from functory.engine.settings import Settings

T = TypeVar("T")

# Built once, because it runs with every end that a caller waits for.
_FINISHED = sa.select(execution).where(
    execution.c.id == sa.bindparam("id", type_=Id), execution.c.state.in_(TERMINAL)
)

# A wait for more executions than this polls them at most this often, in seconds.
BULK_WAIT_SIZE = 16
BULK_WAIT_POLL_SECONDS = 0.02


class Executions:
    """Starts, reads, awaits, cancels and replays executions for users, the API and running parents."""

    def __init__(self, database: Database, settings: Settings) -> None:
        self._database = database
        self._settings = settings
        # Sends what this process starts. Without it new executions wait for the dispatcher.
        self.direct: OpensRoom | None = None

    def new_id(self) -> str:
        """Return a new id, for :meth:`start`."""
        return self._database.new_id()

    def start(
        self,
        function: str,
        make_input: Mapping[str, Any] | MakeInput,
        *,
        version: int | None = None,
        cause: str = "api",
        parent: Cause | None = None,
        idempotency_key: str | None = None,
        step_key: str | None = None,
        delay: float = 0.0,
        priority: int | None = None,
        dispatched: bool = False,
        abandon: bool = False,
        id_: str | None = None,
        maybe_committed: bool = False,
        author: str = "",
    ) -> dict[str, Any]:
        """Queue one execution. Returns its row.

        ``make_input`` is the input object, or makes it from the version's parameters (to bind positional arguments).
        With a ``parent`` the execution is its child: one deeper, in the same root and budget. A used
        ``idempotency_key`` returns the first execution; a used ``step_key`` of the same parent returns the first one
        unless it failed.
        A child is cancelled when its parent ends without success, unless the parent asked to ``abandon`` it.
        ``delay`` is in seconds. ``dispatched`` means that the caller claims the execution itself at once.
        ``maybe_committed`` repeats a start with the same ``id_`` whose commit outcome is unknown: it is started once.
        With an ``author``, who asks for it from outside, the audit log gets an entry.

        Raises :class:`NotFound`, :class:`Invalid`, :class:`Conflict` (disabled), :class:`Refused` (guards).
        """
        event_store.check_key(idempotency_key, "idempotency_key")
        one = OneStart(
            settings=self._settings,
            direct=None if dispatched or parent else self.direct,
            record=audit.from_here(author, "execution.start"),
            function=function,
            make_input=make_input,
            version=version,
            cause=cause,
            parent=parent,
            idempotency_key=idempotency_key,
            step_key=step_key,
            delay=delay,
            priority=priority,
            dispatched=dispatched,
            abandon=abandon,
            id_=id_,
            find_by_id=maybe_committed,
        )

        def again(tx: Tx) -> dict[str, Any]:
            # It may be this id that the other transaction has written.
            return replace(one, find_by_id=id_ is not None).write(tx)

        return start.commit(self._database, one.write, again)

    def run_of(self, id_: str) -> Mapping[str, Any] | None:
        """Return the run that an execution works for (:mod:`functory.engine.executions.runs.membership`)."""
        return membership.run_of(self._database, id_)

    def tools_of_run(self, id_: str) -> list[str]:
        """Return the functions that the run of an execution may use as tools."""
        return membership.tools_of(self._database, id_)

    def run_reads_outside(self, run_id: str) -> bool:
        """Return True for a run with a tool that may reach hosts."""
        return membership.reads_outside(self._database, run_id)

    def get(self, id_: str) -> dict[str, Any]:
        """Return one execution row. Raises :class:`NotFound`."""
        with self._database.read() as tx:
            found = tx.first(sa.select(execution).where(execution.c.id == as_id(id_, "execution")))
            if found is None:
                raise prune_watermarks.missing(
                    tx, as_id(id_, "execution"), f"execution {id_} not found", "functory execution list"
                )
        return found

    def list(
        self,
        *,
        function: str | None = None,
        state: str | None = None,
        root_id: str | None = None,
        parent_id: str | None = None,
        unresolved: bool = False,
        before: str | None = None,
        limit: int = 50,
        payloads: bool = False,
    ) -> list[dict[str, Any]]:
        """Return executions, newest first, at most ``limit`` (1 to 1000); ``before`` is the key of the next page.

        The rows have no ``input`` and no ``result``, which may be large. With ``payloads`` they have both, and at most
        100 rows are returned. :meth:`get` returns one whole row.

        Each has ``resolved_by``: the replay that succeeded after it failed, or None. With ``unresolved`` only
        executions that failed, timed out or are dead and have no such replay. Raises :class:`Invalid` for an unknown
        ``state``.
        """
        choices.check("state", [state], STATES)
        shown = columns(execution, payloads)
        statement = sa.select(*shown)
        for column, value in ((execution.c.function, function), (execution.c.state, state)):
            if value is not None:
                statement = statement.where(column == value)
        if state in OPEN:
            # They are few among all of the history.
            ids = open_executions.open_ids(queued=state == "queued", running=state == "running")
            statement = statement.where(execution.c.id.in_(ids))
        if state in BAD_ENDS:
            statement = statement.join(
                bad_end, sa.and_(bad_end.c.state == state, bad_end.c.execution_id == execution.c.id)
            )
        for column, value in ((execution.c.root_id, root_id), (execution.c.parent_id, parent_id)):
            if value is not None:
                statement = statement.where(column == as_id(value, "execution"))
        if before is not None:
            statement = statement.where(execution.c.id < as_id(before, "execution"))
        limit = page_size(limit, payloads)
        with self._database.read() as tx:
            if unresolved:
                statement = sa.select(*shown).where(
                    execution.c.id.in_(resolutions.unresolved(tx, statement, limit))
                )
            rows = tx.rows(statement.order_by(execution.c.id.desc()).limit(limit))
            return resolutions.with_resolutions(tx, rows)

    def attempts(self, id_: str) -> list[dict[str, Any]]:
        """Return the attempts of an execution, the first one first."""
        return self._parts(attempt, id_, attempt.c.fence)

    def spans(self, id_: str) -> list[dict[str, Any]]:
        """Return the dependency calls of all attempts, in their order."""
        return self._parts(span, id_, span.c.fence, span.c.seq)

    def logs(
        self,
        id_: str,
        *,
        after: tuple[int, int] | None = None,
        tail: int | None = None,
        limit: int | None = None,
        fence: int | None = None,
    ) -> list[dict[str, Any]]:
        """Return the log lines of all attempts, or of the one with this ``fence``, in their order: all of them, those
        after a line (its fence and seq), or the last ``tail``; of these the first ``limit``.
        """
        found = self.get(id_)
        place = sa.tuple_(log.c.fence, log.c.seq)
        statement = sa.select(log).where(log.c.execution_id == found["id"])
        if fence is not None:
            statement = statement.where(log.c.fence == fence)
        if after is not None:
            statement = statement.where(place > sa.tuple_(*(sa.literal(part) for part in after)))
        if tail is not None:
            last = statement.order_by(log.c.fence.desc(), log.c.seq.desc()).limit(tail).subquery()
            statement = sa.select(last).order_by(last.c.fence, last.c.seq)
        else:
            statement = statement.order_by(log.c.fence, log.c.seq)
        with self._database.read() as tx:
            return tx.rows(statement if limit is None else statement.limit(limit))

    def slot_requests(self, id_: str) -> list[dict[str, Any]]:
        """Return the concurrency slots that an open execution holds or waits for
        (:func:`functory.engine.flow_control.concurrency.slots_of_execution`).
        """
        found = self.get(id_)
        with self._database.read() as tx:
            return concurrency.slots_of_execution(tx, found["id"]) if found["has_concurrency"] else []

    def _parts(self, table: sa.Table, id_: str, *order: sa.Column[Any]) -> list[dict[str, Any]]:
        found = self.get(id_)
        with self._database.read() as tx:
            return tx.rows(sa.select(table).where(table.c.execution_id == found["id"]).order_by(*order))

    def before_start(self) -> int:
        """Return what :meth:`wait_for_started` has to know. Call it before the start."""
        return self._database.wakeup.generation("finished")

    def wait_for_started(self, id_: str, before_start: int, timeout: float | None = None) -> dict[str, Any]:
        """Wait as :meth:`wait` for one execution that this process has just started. Returns its row.

        Nothing is read before the first wake-up after the start, or the poll interval: a lone call takes one statement.
        """
        if self._database.wakeup.poll_multiplier <= 1:
            # No wake-ups arrive.
            return self.wait([id_], timeout)[0]
        began, seen = time.monotonic(), before_start
        while True:
            left = None if timeout is None else max(0.0, began + timeout - time.monotonic())
            poll = self._settings.poll_seconds
            now = self._database.wakeup.wait("finished", seen, poll if left is None else min(poll, left))
            if now == seen:
                # It may have been deleted, or the time is up.
                return self.wait([id_], left)[0]
            seen = now
            with self._database.read() as tx:
                row = tx.first(_FINISHED, {"id": id_})
            if row is not None:
                return row

    def wait(self, ids: Iterable[str], timeout: float | None = None) -> list[dict[str, Any]]:
        """Wait until all of ``ids`` are finished. Returns their rows. Raises :class:`WaitTimeout` after ``timeout``
        seconds.
        """
        asked = [as_id(id_, "execution") for id_ in ids]

        def read(tx: Tx) -> list[dict[str, Any]]:
            rows = {r["id"]: r for r in tx.rows(sa.select(execution).where(execution.c.id.in_(set(asked))))}
            return [rows[id_] for id_ in asked]

        return self._wait(asked, timeout, read)

    def wait_for_lengths(self, ids: Iterable[str], timeout: float | None = None) -> dict[str, int]:
        """Wait as :meth:`wait`. Returns of each id the characters of JSON that its result and error have."""
        asked = list(dict.fromkeys(as_id(id_, "execution") for id_ in ids))
        lengths = [sa.func.coalesce(sa.func.length(c), 0) for c in (execution.c.result, execution.c.error)]
        statement = sa.select(execution.c.id, lengths[0] + lengths[1]).where(execution.c.id.in_(asked))
        return self._wait(asked, timeout, lambda tx: tx.pairs(statement))

    def _wait(self, asked: Sequence[str], timeout: float | None, read: Callable[[Tx], T]) -> T:
        """Wait until all are finished, and return what ``read`` finds in the same transaction."""
        unfinished = list(dict.fromkeys(asked))
        deadline = None if timeout is None else time.monotonic() + timeout
        while True:
            seen = self._database.wakeup.generation("finished")
            with self._database.read() as tx:
                # Reads only the states of open executions, so that a long list costs less with every round.
                states = tx.pairs(
                    sa.select(execution.c.id, execution.c.state).where(execution.c.id.in_(unfinished))
                )
                missing = [id_ for id_ in unfinished if id_ not in states]
                if missing:
                    raise NotFound(f"execution {missing[0]} not found", try_="functory execution list")
                unfinished = [id_ for id_ in unfinished if states[id_] not in TERMINAL]
                if not unfinished:
                    return read(tx)
            left = None if deadline is None else deadline - time.monotonic()
            if left is not None and left <= 0:
                raise WaitTimeout(
                    f"execution {unfinished[0]} is still {states[unfinished[0]]}",
                    f"waited {timeout:g} s; it goes on",
                    f"functory execution show {unfinished[0]}",
                )
            self._database.wakeup.wait("finished", seen, min(self._settings.poll_seconds, left or 60.0))
            if len(unfinished) > BULK_WAIT_SIZE:
                # Each execution that ends wakes this loop, and each round reads all that are still open.
                time.sleep(BULK_WAIT_POLL_SECONDS)

    def cancel(
        self, id_: str, *, tree: bool = False, author: str = "", batch: str | None = None
    ) -> dict[str, Any]:
        """Cancel an execution (:func:`functory.engine.executions.cancellation.cancel`). Returns its row. With ``tree``
        also everything that it has caused (:func:`functory.engine.executions.cancellation.cancel_tree`). ``batch`` is
        the batch that cancels it.

        Raises :class:`NotFound`, and without ``tree`` :class:`Conflict` for a finished one.
        """
        if tree:
            cancellation.cancel_tree(self._database, as_id(id_, "execution"), author)
        else:
            cancellation.cancel(self._database, as_id(id_, "execution"), author, batch=batch)
        return self.get(id_)

    def replay(
        self,
        id_: str,
        *,
        latest: bool = False,
        cause: str = "replay",
        author: str = "",
        idempotency_key: str | None = None,
    ) -> dict[str, Any]:
        """Queue a new execution with the input and version of a finished one (with ``latest``: the active version).

        A used ``idempotency_key`` returns the execution that it started. With an ``author`` the audit log gets an
        entry. Raises :class:`Conflict` while the original is open.
        """
        old = self.get(id_)
        if old["state"] in OPEN:
            raise Conflict(f"execution {id_} is {old['state']}", "only a finished one can be replayed")
        event_store.check_key(idempotency_key, "idempotency_key")
        with self._database.write() as tx:
            known = start.find_by_key(tx, idempotency_key, old["function"])
            if known is not None:
                return known
            version = (
                versions.load_start(tx, old["function"], None)
                if latest
                else versions.load_version(tx, old["version_id"]).as_start()
            )
            if version is None:
                raise NotFound(
                    f"function {old['function']!r} has no active version", try_="functory function list"
                )
            start.check_enabled(version.name, version.number, version.state)
            json_schema.check(
                version.input_schema, old["input"], f"input of {version.name} v{version.number}"
            )
            new = start.new_row(
                tx,
                version,
                old["input"],
                cause=cause,
                root_id=None,
                depth=0,
                chain=(),
                replay_of=old["id"],
                idempotency_key=idempotency_key,
            )
            if not tx.insert_missing(execution, [new]):
                raise Conflict(start.RACED, try_="send it again")
            queue_rows.add(tx, [new])
            if author:
                audit.append(tx, author, "execution.replay", new["id"], {"of": old["id"], "latest": latest})
            tx.wake("executions")
        return new

    def retry(self, id_: str, **options: Any) -> dict[str, Any]:
        """Replay an execution that did not succeed (:meth:`replay`). Raises :class:`Conflict` for one that did."""
        if self.get(id_)["state"] == "succeeded":
            raise Conflict(
                f"execution {id_} succeeded", "there is nothing to retry", f"functory execution replay {id_}"
            )
        return self.replay(id_, **options)

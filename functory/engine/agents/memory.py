"""Memory: what agents, their runs and functions remember. Facts, episodes and lessons, each with its origin.

A memory belongs to a run, to an agent, or to all. The same text is stored once in each place, and becomes more
important when it is learnt again. Who reads one learns where it came from, and whether that may be trusted.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import sqlalchemy as sa

from functory.engine import choices
from functory.engine.agents import embeddings, memory_fields, memory_search
from functory.engine.agents.memory_fields import MAX_OWNED, USUAL_IMPORTANCE, Origin, Place
from functory.engine.database import audit
from functory.engine.database.connection import Database
from functory.engine.database.schema import agent, memory, run
from functory.engine.database.schema.memory import MEMORY_KINDS, MEMORY_SCOPES
from functory.engine.database.transaction import Tx
from functory.engine.errors import Invalid, NotFound, Refused
from functory.engine.events import causation
from functory.engine.events import store as event_store
from functory.engine.events.causation import Cause
from functory.engine.events.store import as_id

SOURCE = "/functory/memory"
# Memories that one transaction deletes: each writes an event.
PAGE = 500


# Returns the vector of a query with the name of its model, where there are vectors of that kind to compare it with.
Embed = Callable[[str, str], tuple[str, bytes] | None]


class Memory:
    """The memories of a database. ``embed`` is asked for the vector of a query that comes without."""

    def __init__(self, database: Database, embed: Embed | None = None) -> None:
        self._database = database
        self._embed = embed

    def add(
        self,
        text: str,
        *,
        kind: str = "fact",
        scope: str = "shared",
        owner: str = "",
        importance: float = USUAL_IMPORTANCE,
        days: float | None = None,
        author: str = "",
        origin: Origin | None = None,
        cause: Cause | None = None,
    ) -> dict[str, Any]:
        """Store a memory of at most 16 KiB. Returns its row; ``added`` is False for a text that is there already.

        ``owner`` is the agent's name or the run's id. ``days`` is how long it is kept. Of more than 10,000 of one owner
        the least important one is deleted, of equal ones the oldest, and first those that code has written. Raises
        :class:`Invalid`, :class:`NotFound`.
        """
        memory_fields.check(text, kind, importance, days)
        place = _place(scope, owner)
        source = origin or Origin(author)
        with self._database.write() as tx:
            causation.check_fence(tx, cause)
            _check_owner(tx, place)
            row = _new_row(tx, text, kind, place, float(importance), days, source)
            known = _same(tx, place, row["text_sha256"])
            if known is not None or not tx.insert_missing(memory, [row]):
                return _learn_again(tx, known or _same(tx, place, row["text_sha256"]), row) | {"added": False}
            _write_event(tx, "memory.added", [row], {}, cause)
            _make_room(tx, place, cause)
            if cause is None:
                audit.append(tx, source.author, "memory.add", row["id"], _facts(row))
        return row | {"added": True}

    def list(
        self,
        *,
        scope: str | None = None,
        owner: str | None = None,
        kind: str | None = None,
        before: str | None = None,
        limit: int = 50,
    ) -> list[dict[str, Any]]:
        """Return memories, newest first; ``before`` is the id of the last one of the page before. Raises
        :class:`Invalid` for an unknown ``kind`` or ``scope``.
        """
        choices.check("kind", [kind], MEMORY_KINDS)
        choices.check("scope", [scope], MEMORY_SCOPES)
        statement = sa.select(memory).order_by(memory.c.id.desc()).limit(limit)
        for column, value in ((memory.c.scope, scope), (memory.c.owner, owner), (memory.c.kind, kind)):
            statement = statement if value is None else statement.where(column == value)
        if before is not None:
            statement = statement.where(memory.c.id < as_id(before, "memory"))
        with self._database.read() as tx:
            return tx.rows(statement.where(memory_search.alive(tx.now)))

    def get(self, id_: str) -> dict[str, Any]:
        """Return a memory. Raises :class:`NotFound`."""
        with self._database.read() as tx:
            return _load(tx, id_, None)

    def search(
        self,
        query: str,
        k: int = 5,
        *,
        scope: str | None = None,
        owner: str | None = None,
        places: Sequence[Place] | None = None,
        vector: tuple[str, bytes] | None = None,
    ) -> list[dict[str, Any]]:
        """Return the ``k`` memories that fit a query best, each with its ``score``: those of a scope and an owner, or
        of ``places``, or all.

        They are found by the words of the query, and with ``vector`` (of the query, with the name of its model) by its
        meaning too. Raises :class:`Invalid`.
        """
        query, k = memory_fields.checked_query(query, k)
        choices.check("scope", [scope], MEMORY_SCOPES)
        conditions = []
        if scope is not None:
            conditions.append(memory.c.scope == scope)
        if owner is not None:
            conditions.append(memory.c.owner == owner)
        if places is not None:
            conditions.append(memory_search.within(places))
        if vector is None and self._embed is not None:
            vector = self._embed("memory", query)
        with self._database.read() as tx:
            return memory_search.search(tx, query, k, conditions, vector)

    def forget(
        self,
        id_: str,
        *,
        author: str = "",
        places: Sequence[Place] | None = None,
        cause: Cause | None = None,
    ) -> dict[str, Any]:
        """Delete a memory, its text and its vectors. Returns its row. Raises :class:`NotFound`, also for one that is
        not in ``places``, and :class:`Refused` for code (``cause``) that deletes what a person has written.
        """
        with self._database.write() as tx:
            causation.check_fence(tx, cause)
            row = _load(tx, id_, places)
            if cause is not None and row["source_execution_id"] is None:
                raise Refused(
                    f"code may not forget the memory {row['id']}",
                    "a person has written it",
                    f"functory memory forget {row['id']}",
                )
            _forget(tx, [row], "asked", author, cause)
            return row

    def forget_source(
        self, *, execution: str | None = None, run_id: str | None = None, author: str = ""
    ) -> int:
        """Delete all that an execution, or all executions of a run, have written. Returns their number.

        It goes on in small transactions: a second call deletes the rest after an error.
        """
        if (execution is None) == (run_id is None):
            raise Invalid("wrong source of memories", "it is either an execution or a run")
        of_source = (
            memory.c.source_execution_id == as_id(execution, "execution")
            if execution is not None
            else memory.c.run_id == as_id(run_id or "", "run")
        )
        return self._forget_all(of_source, "source", author)

    def expire(self) -> int:
        """Delete memories whose time is over. Returns their number."""
        with self._database.read() as tx:
            now = tx.now
        return self._forget_all(memory.c.expires_at <= now, "expired", "")

    def expired(self) -> int:
        """Return how many memories :meth:`expire` would delete."""
        with self._database.read() as tx:
            over = sa.select(sa.func.count()).select_from(memory).where(memory.c.expires_at <= tx.now)
            return int(tx.scalar(over) or 0)

    def _forget_all(self, condition: sa.ColumnElement[bool], reason: str, author: str) -> int:
        statement = sa.select(memory).where(condition).order_by(memory.c.id).limit(PAGE)
        total = 0
        while True:
            with self._database.write() as tx:
                rows = tx.rows(statement.with_for_update(skip_locked=reason == "expired"))
                _forget(tx, rows, reason, author, None)
            total += len(rows)
            if len(rows) < PAGE:
                return total


def forget_runs(tx: Tx, ids: Sequence[str]) -> int:
    """Delete the memories that belong to runs, which are deleted themselves, without events. Returns their number."""
    owned = memory.c.scope == "run", memory.c.owner.in_(ids)
    found = list(tx.execute(sa.select(memory.c.id).where(*owned)).scalars())
    for start in range(0, len(found), PAGE):
        page = found[start : start + PAGE]
        embeddings.forget(tx, "memory", page)
        tx.execute(sa.delete(memory).where(memory.c.id.in_(page)))
    return len(found)


def _place(scope: str, owner: str) -> Place:
    if scope in ("run", "agent") and not owner:
        raise Invalid(
            f"the {scope} of the memory is not named",
            "only code of a run has one by itself",
            f"owner={'the id of the run' if scope == 'run' else 'the name of the agent'}, or scope=shared",
        )
    return Place(scope, as_id(owner, "run") if scope == "run" else owner)


def _check_owner(tx: Tx, place: Place) -> None:
    if place.scope == "agent":
        known = sa.select(agent.c.name).where(agent.c.name == place.owner, agent.c.state != "removed")
        if tx.scalar(known) is None:
            raise NotFound(f"agent {place.owner[:80]!r} not found", try_="functory agent list")
    if place.scope == "run" and tx.scalar(sa.select(run.c.id).where(run.c.id == place.owner)) is None:
        raise NotFound(f"run {place.owner} not found", try_="functory agent runs list")


def _new_row(
    tx: Tx, text: str, kind: str, place: Place, importance: float, days: float | None, origin: Origin
) -> dict[str, Any]:
    return {
        "id": tx.new_id(),
        "scope": place.scope,
        "owner": place.owner,
        "kind": kind,
        "text": text,
        "text_sha256": memory_fields.sha256(text),
        "importance": importance,
        "source_execution_id": origin.execution_id,
        "run_id": origin.run_id,
        "author": origin.author,
        "untrusted": origin.untrusted,
        "created_at": tx.now,
        "expires_at": memory_fields.expiry(tx.now, days),
    }


def _of(place: Place) -> sa.ColumnElement[bool]:
    return sa.and_(memory.c.scope == place.scope, memory.c.owner == place.owner)


def _same(tx: Tx, place: Place, sha256: str) -> dict[str, Any] | None:
    return tx.first(sa.select(memory).where(_of(place), memory.c.text_sha256 == sha256).with_for_update())


def _learn_again(tx: Tx, known: dict[str, Any] | None, row: Mapping[str, Any]) -> dict[str, Any]:
    assert known is not None
    source = row["source_execution_id"]
    if source is not None and known["source_execution_id"] == source:
        # Another attempt of the same execution: it has learnt it once.
        return known
    changes = memory_fields.learnt_again(known, row["importance"], row["expires_at"])
    tx.execute(sa.update(memory).where(memory.c.id == known["id"]).values(changes))
    return known | changes


def _make_room(tx: Tx, place: Place, cause: Cause | None) -> None:
    count = int(tx.scalar(sa.select(sa.func.count()).select_from(memory).where(_of(place))) or 0)
    if count > MAX_OWNED:
        by_code = sa.case((memory.c.source_execution_id.is_(None), 1), else_=0)
        least = sa.select(memory).where(_of(place)).order_by(by_code, memory.c.importance, memory.c.id)
        _forget(tx, tx.rows(least.limit(min(count - MAX_OWNED, PAGE))), "full", "", cause)


def _load(tx: Tx, id_: str, places: Sequence[Place] | None) -> dict[str, Any]:
    statement = sa.select(memory).where(memory.c.id == as_id(id_, "memory"))
    if places is not None:
        statement = statement.where(memory_search.within(places))
    found = tx.first(statement)
    if found is None:
        raise NotFound(f"memory {id_} not found", try_="functory memory list")
    return found


def _forget(tx: Tx, rows: Sequence[Mapping[str, Any]], reason: str, author: str, cause: Cause | None) -> None:
    if not rows:
        return
    ids = [row["id"] for row in rows]
    embeddings.forget(tx, "memory", ids)
    tx.execute(sa.delete(memory).where(memory.c.id.in_(ids)))
    _write_event(tx, "memory.forgotten", rows, {"reason": reason, "author": author}, cause)
    if author and cause is None:
        subject = ids[0] if len(ids) == 1 else f"{len(ids)} memories"
        audit.append(tx, author, "memory.forget", subject, {"reason": reason})


def _write_event(
    tx: Tx, type_: str, rows: Sequence[Mapping[str, Any]], data: Mapping[str, Any], cause: Cause | None
) -> None:
    # Without the text: what is forgotten must not stay in the events.
    event_store.append(
        tx,
        [
            event_store.record(
                tx, type_, row["owner"] or None, {**_facts(row), **data}, source=SOURCE, cause=cause
            )
            for row in rows
        ],
    )


def _facts(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return all about a memory but its text."""
    names = ("scope", "owner", "kind", "importance", "source_execution_id", "run_id", "author", "untrusted")
    return {"memory_id": row["id"], **{name: row[name] for name in names}}

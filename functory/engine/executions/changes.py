"""Changes of events and executions: what the live stream of the HTTP API reads.

Every change of an execution but its start has an event, which names the execution as its cause; a start is a new id.
Ids are made before the commit, so a row may appear behind others that have higher ids: a reader that follows the rows
reads the last seconds again, and leaves out what it has.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

import sqlalchemy as sa

from functory.engine.access import scopes
from functory.engine.access.scopes import Scope
from functory.engine.database.clock import lowest_id
from functory.engine.database.connection import Database
from functory.engine.database.id_lists import one_of
from functory.engine.database.schema import Id, event, execution, log
from functory.engine.database.transaction import Tx
from functory.engine.executions import event_listing, listing

_LINE_COLUMNS = ("fence", "seq", "stream", "level", "text", "offset_seconds")

_SINCE, _LIMIT = sa.bindparam("since", type_=Id), sa.bindparam("limit", type_=sa.Integer)
_ID, _FENCE, _SEQ = sa.bindparam("id", type_=Id), sa.bindparam("fence"), sa.bindparam("seq")
# Built once, because they run several times a second.
_EVENT_IDS = sa.select(event.c.id).where(event.c.id >= _SINCE).order_by(event.c.id.desc()).limit(_LIMIT)
_EXECUTION_IDS = (
    sa.select(execution.c.id).where(execution.c.id >= _SINCE).order_by(execution.c.id.desc()).limit(_LIMIT)
)
_HEADS = sa.select(event.c.id, event.c.type, event.c.state, event.c.cause_execution_id).where(
    one_of(event.c.id)
)
_SETTLED = sa.select(event.c.id).where(one_of(event.c.id), event.c.state != "pending")
_RELATED = sa.select(execution.c.event_id, execution.c.replay_of).where(one_of(execution.c.id))
_SEEN_EVENTS, _SEEN_EXECUTIONS = (
    sa.select(table.c.id).where(one_of(table.c.id)).order_by(table.c.id) for table in (event, execution)
)
_LINES = sa.select(*(log.c[name] for name in _LINE_COLUMNS)).where(log.c.execution_id == _ID)
_LINES_AFTER = (
    _LINES.where(sa.or_(log.c.fence > _FENCE, sa.and_(log.c.fence == _FENCE, log.c.seq > _SEQ)))
    .order_by(log.c.fence, log.c.seq)
    .limit(_LIMIT)
)
_LAST_LINES = _LINES.order_by(log.c.fence.desc(), log.c.seq.desc()).limit(_LIMIT)


@dataclass(frozen=True)
class Recent:
    """The ids of events and executions that were made since a time, the newest first. ``now`` is when they were read.

    ``complete`` is False when there were more than could be read.
    """

    now: datetime
    events: list[str]
    executions: list[str]
    complete: bool


@dataclass(frozen=True)
class Touched:
    """The ids of changed rows. ``pending`` are the events that no router has decided about yet."""

    events: list[str]
    executions: list[str]
    pending: list[str]


class Changes:
    """Reads changes, each call in one transaction."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def recent(self, seconds: float, limit: int, since: datetime | None = None) -> Recent:
        """Return the ids of the last ``seconds``, and from ``since`` on if that is earlier; at most ``limit`` of
        events and as many of executions.
        """
        with self._database.read() as tx:
            begin = tx.now - timedelta(seconds=seconds)
            return _since(tx, begin if since is None else min(begin, since), limit)

    def since(self, time: datetime, limit: int) -> Recent:
        """Return the ids that were made since ``time``, at most ``limit`` of each kind."""
        with self._database.read() as tx:
            return _since(tx, time, limit)

    def settled(self, ids: Collection[str]) -> list[str]:
        """Return those of pending events that are not pending any more."""
        if not ids:
            return []
        with self._database.read() as tx:
            return sorted(tx.execute(_SETTLED, {"ids": list(ids)}).scalars())

    def touched(self, event_ids: Sequence[str], execution_ids: Sequence[str]) -> Touched:
        """Return which rows the new events and executions have changed, themselves included."""
        events, executions = dict.fromkeys(event_ids), dict.fromkeys(execution_ids)
        pending: list[str] = []
        with self._database.read() as tx:
            for row in tx.rows(_HEADS, {"ids": list(event_ids)}) if event_ids else ():
                if row["state"] == "pending":
                    pending.append(row["id"])
                if row["type"].startswith("execution.") and row["cause_execution_id"] is not None:
                    executions[row["cause_execution_id"]] = None
            for row in tx.rows(_RELATED, {"ids": list(executions)}) if executions else ():
                if row["event_id"] is not None:
                    # Flow control may start it long after the event was routed.
                    events[row["event_id"]] = None
                if row["replay_of"] is not None:
                    # What failed is resolved when its replay succeeds.
                    executions[row["replay_of"]] = None
        return Touched(list(events), list(executions), pending)

    def events(self, ids: Sequence[str], scope: Scope = None) -> list[dict[str, Any]]:
        """Return the slim rows of events inside of ``scope``, in the order of their ids."""
        with self._database.read() as tx:
            seen = _SEEN_EVENTS.where(*scopes.events(scope))
            return event_listing.rows_of(tx, list(tx.execute(seen, {"ids": ids}).scalars()) if ids else [])

    def executions(self, ids: Sequence[str], scope: Scope = None) -> list[dict[str, Any]]:
        """Return the slim rows of executions inside of ``scope``, in the order of their ids."""
        with self._database.read() as tx:
            seen = _SEEN_EXECUTIONS.where(*scopes.executions(scope))
            return listing.rows_of(tx, list(tx.execute(seen, {"ids": ids}).scalars()) if ids else [], scope)

    def lines(self, id_: str, after: tuple[int, int], limit: int) -> list[dict[str, Any]]:
        """Return log lines of an execution behind ``after`` (fence and number), the first ones first."""
        with self._database.read() as tx:
            given = {"id": id_, "fence": after[0], "seq": after[1], "limit": limit}
            return tx.rows(_LINES_AFTER, given)

    def last_lines(self, id_: str, limit: int) -> list[dict[str, Any]]:
        """Return the last log lines of an execution, in their order."""
        with self._database.read() as tx:
            return tx.rows(_LAST_LINES, {"id": id_, "limit": limit})[::-1]


def _since(tx: Tx, time: datetime, limit: int) -> Recent:
    given = {"since": lowest_id(time), "limit": limit}
    events = list(tx.execute(_EVENT_IDS, given).scalars())
    executions = list(tx.execute(_EXECUTION_IDS, given).scalars())
    return Recent(tx.now, events, executions, complete=max(len(events), len(executions)) < limit)

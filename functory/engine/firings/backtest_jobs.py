"""Backtest jobs: rows of backtests that run in the background, under a lease.

A process that dies leaves its backtest to the next one, which begins it again: a backtest writes nothing else.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

import sqlalchemy as sa

from functory.engine.access.scopes import Scope
from functory.engine.database import audit, prune_watermarks
from functory.engine.database.connection import Database
from functory.engine.database.schema import backtest
from functory.engine.errors import Conflict
from functory.engine.events.store import as_id

# A process renews its lease while it works. When it dies, another one goes on after this time.
LEASE = timedelta(seconds=60)
OPEN = ("waiting", "running")


class BacktestJobs:
    """Makes, lists, runs and ends backtests."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def create(
        self,
        trigger: str,
        draft: Mapping[str, Any] | None,
        since: datetime,
        *,
        author: str,
        scope: Scope = None,
        idempotency_key: str | None = None,
    ) -> dict[str, Any]:
        """Store a backtest of a trigger, or of a draft of it. Returns its row; with a used key that of the first one.

        Raises :class:`Conflict` for a key that somebody else has used.
        """
        with self._database.write() as tx:
            row = {
                "id": tx.new_id(),
                "trigger": trigger,
                "draft": None if draft is None else dict(draft),
                "since": since,
                "scope": None if scope is None else list(scope),
                "author": author,
                "state": "waiting",
                "total": None,
                "done": 0,
                "partial": None,
                "result": None,
                "problem": None,
                "created_at": tx.now,
                "finished_at": None,
                "lease_until": None,
                "idempotency_key": idempotency_key,
            }
            if not tx.insert_missing(backtest, [row]):
                known = tx.first(sa.select(backtest).where(backtest.c.idempotency_key == idempotency_key))
                if known is None or known["author"] != author:
                    raise Conflict("this idempotency key was used before", "by somebody else")
                return known
            audit.append(tx, author, "backtest.create", row["id"], {"trigger": trigger})
            tx.wake("backtests")
        return row

    def list(
        self, *, before: str | None = None, limit: int = 50, author: str | None = None
    ) -> list[dict[str, Any]]:
        """Return backtests, newest first, without drafts and results; with ``author`` only those of this author."""
        slim = [column for column in backtest.c if column.name not in ("draft", "partial", "result")]
        statement = sa.select(*slim).order_by(backtest.c.id.desc()).limit(limit)
        if before is not None:
            statement = statement.where(backtest.c.id < as_id(before, "backtest"))
        if author is not None:
            statement = statement.where(backtest.c.author == author)
        with self._database.read() as tx:
            return tx.rows(statement)

    def get(self, id_: str, author: str | None = None) -> dict[str, Any]:
        """Return a backtest; with ``author`` only one of this author. Raises :class:`NotFound`."""
        with self._database.read() as tx:
            row = tx.first(sa.select(backtest).where(backtest.c.id == as_id(id_, "backtest")))
            if row is None or (author is not None and row["author"] != author):
                raise prune_watermarks.missing(tx, as_id(id_, "backtest"), f"backtest {id_} not found")
        return row

    def cancel(self, id_: str, *, author: str, own: bool = False) -> dict[str, Any]:
        """waiting, running → cancelled; a partial result stays. ``own``: only one of the author. Raises
        :class:`NotFound`, and :class:`Conflict` for one that is over.
        """
        row = self.get(id_, author if own else None)
        with self._database.write() as tx:
            ended = tx.execute(
                sa.update(backtest)
                .where(backtest.c.id == row["id"], backtest.c.state.in_(OPEN))
                .values(state="cancelled", finished_at=tx.now)
            )
            if not ended.rowcount:
                raise Conflict(f"backtest {id_} is over", "it cannot be cancelled any more")
            audit.append(tx, author, "backtest.cancel", row["id"], {"done": row["done"]})
        return self.get(id_)

    def claim(self) -> dict[str, Any] | None:
        """waiting → running: take the lease of the oldest backtest that no process works on; None without any."""
        with self._database.read() as tx:
            if tx.scalar(_FREE, {"now": tx.now}) is None:
                return None
        with self._database.write() as tx:
            id_ = tx.scalar(_FREE.with_for_update(skip_locked=True), {"now": tx.now})
            if id_ is None:
                return None
            values = {"state": "running", "lease_until": tx.now + LEASE, "done": 0, "partial": None}
            tx.execute(sa.update(backtest).where(backtest.c.id == id_).values(values))
            return tx.first(sa.select(backtest).where(backtest.c.id == id_))

    def advance(self, row: dict[str, Any], **values: Any) -> bool:
        """Store how far a claimed backtest is (``total``, ``done``, ``partial``) and renew its lease.

        Returns False when it was cancelled, or when another process has it: then this one stops.
        """
        with self._database.write() as tx:
            until = tx.now + LEASE
            stored = tx.execute(
                sa.update(backtest).where(*_mine(row)).values(values | {"lease_until": until})
            )
            if stored.rowcount:
                row["lease_until"] = until
        return bool(stored.rowcount)

    def finish(self, row: Mapping[str, Any], *, result: Any = None, problem: str | None = None) -> None:
        """running → done, or failed with a ``problem``; unless it was cancelled meanwhile."""
        with self._database.write() as tx:
            values = {
                "state": "done" if problem is None else "failed",
                "result": result,
                "problem": problem,
                "finished_at": tx.now,
                "lease_until": None,
            }
            if problem is None:
                values["partial"] = None
            tx.execute(sa.update(backtest).where(*_mine(row)).values(values))


def _mine(row: Mapping[str, Any]) -> tuple[sa.ColumnElement[bool], ...]:
    return (
        backtest.c.id == row["id"],
        backtest.c.state == "running",
        backtest.c.lease_until == row["lease_until"],
    )


_FREE = (
    sa.select(backtest.c.id)
    .where(
        sa.text("state IN ('waiting', 'running')"),
        sa.or_(
            backtest.c.lease_until.is_(None),
            backtest.c.lease_until < sa.bindparam("now", type_=backtest.c.lease_until.type),
        ),
    )
    .order_by(backtest.c.id)
    .limit(1)
)

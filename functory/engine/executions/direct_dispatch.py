"""Direct dispatch: which new executions their writer may send itself, right after its commit.

    room = direct.room(tx)
    ...
    sent = room.take(rows)
    start.write(tx, rows, sent=sent)
    ...
    direct.send_committed()

The engine decides, and sends nothing: ``direct`` comes from above (``functory.workers.sending``).

An execution that goes through the backlog waits for a wake-up and a second transaction, those of the dispatcher
(:mod:`functory.engine.executions.dispatch`). One that is sent at once needs neither. Nothing may be overtaken by it:
it is sent at once only while the dispatch window has room for the whole batch and nothing that is due waits in the
backlog. Otherwise the dispatcher decides, by priorities and fair shares.

After a crash between the commit and the sending they are in the same state as those of a dispatcher that crashed there:
a worker with a free slot claims them by polling, and they are sent again when their messages count as lost.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Any, Protocol

import sqlalchemy as sa

from functory.engine.database.schema import Instant, backlog, in_flight
from functory.engine.database.transaction import Tx
from functory.engine.executions.dispatch_window import DispatchWindow
from functory.engine.executions.queue_rows import READY, UNCLAIMED
from functory.engine.functions.limits import DEFAULT_PRIORITY

_QUESTION = sa.select(
    sa.select(sa.func.count()).select_from(in_flight).where(UNCLAIMED).scalar_subquery().label("unclaimed"),
    sa.exists().where(READY, backlog.c.run_at <= sa.bindparam("now", type_=Instant)).label("waiting"),
)
# The same for the driver of PostgreSQL, which sends it together with the next statement.
_QUESTION_TEXT = """
SELECT (SELECT count(*) FROM in_flight WHERE NOT in_flight.claimed),
       EXISTS (SELECT FROM backlog WHERE NOT backlog.waiting_for_slot AND backlog.run_at <= :now)"""


class OpensRoom(Protocol):
    """Sends new executions after their commit."""

    def room(self, tx: Tx) -> Room | None:
        """Ask for the room of a transaction, before its executions are written. None while nothing is sent so."""
        ...


class SendsCommitted(OpensRoom, Protocol):
    """Sends new executions when their writer says so. One thread uses it."""

    def send_committed(self) -> int:
        """Send what was committed since the last call. Returns the number sent. Call it outside of transactions."""
        ...

    def close(self) -> None:
        """Close the connection to the broker."""
        ...


def fits(rows: Sequence[Mapping[str, Any]], places: int, now: datetime) -> bool:
    """Return True when these new executions (rows of ``execution``) may all be sent at once to ``places`` free places.

    They must be due, of the usual priority, and without expiry, throttle and concurrency slots. When one is not, the
    others could overtake it, so all of them go to the backlog.
    """
    return len(rows) <= places and all(
        row["run_at"] <= now
        and row["priority"] == DEFAULT_PRIORITY
        and row["expires_at"] is None
        and row["throttle"] is None
        and not row["has_concurrency"]
        for row in rows
    )


class Room:
    """The free places of the dispatch window for the new executions of one transaction."""

    def __init__(self, tx: Tx, read: Callable[[], int], on_commit: Callable[[Sequence[str]], None]) -> None:
        self._tx = tx
        self._read = read
        self._on_commit = on_commit
        self._left: int | None = None

    def take(self, rows: Sequence[Mapping[str, Any]]) -> bool:
        """Return True when these new executions (rows of ``execution``) are to be written as sent: they are sent after
        the commit.
        """
        if self._left is None:
            self._left = self._read()
        if not rows or not fits(rows, self._left, self._tx.now):
            return False
        self._left -= len(rows)
        ids = [row["id"] for row in rows]
        self._tx.at_end(lambda committed: self._on_commit(ids) if committed else None)
        return True


def open_room(tx: Tx, window: DispatchWindow, on_commit: Callable[[Sequence[str]], None]) -> Room:
    """Ask for the room of a transaction. ``on_commit`` gets what it has written as sent, after its commit."""
    read = _ask(tx)

    def places() -> int:
        unclaimed, waiting = read()
        free = window.places(tx.now, unclaimed)
        return 0 if waiting else free

    return Room(tx, places, on_commit)


def _ask(tx: Tx) -> Callable[[], tuple[int, bool]]:
    """Ask how many unclaimed executions are on the broker, and whether one that is due waits in the backlog."""
    given = {"now": tx.now}
    if tx.dialect == "postgresql":
        answer = tx.later(_QUESTION_TEXT, given)

        def read() -> tuple[int, bool]:
            # Nothing, as long as no other statement has taken the question along.
            unclaimed, waiting = next(iter(answer()), (0, True))
            return unclaimed, waiting

        return read
    row = tx.execute(_QUESTION, given).one()
    return lambda: (row.unclaimed, bool(row.waiting))

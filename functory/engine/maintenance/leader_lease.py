"""A lease that one process holds at a time: for work whose result would be wrong if several processes showed it.

The lease is one row: the time at which it ends, in milliseconds. A process that changes it from
the value that it has read holds the lease, and renews it from the value that it has written itself. A lost lease has
another value, because the time goes on. A holder that cannot renew in time holds nothing any more, by its own clock,
before another process can take the lease.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable

import sqlalchemy as sa

from functory.engine.database.connection import Database
from functory.engine.database.schema import counter
from functory.engine.errors import Unavailable


class LeaderLease:
    """The lease ``name`` of a database, for ``seconds`` from each :meth:`hold`. Not shared between threads."""

    def __init__(
        self,
        database: Database,
        name: str,
        seconds: float,
        *,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._database = database
        self._name = name
        self._seconds = seconds
        self._monotonic = monotonic
        self._written: int | None = None
        self._held_until = 0.0

    @property
    def is_held(self) -> bool:
        """True while this process holds the lease. Asks nothing."""
        return self._written is not None and self._monotonic() < self._held_until

    @property
    def is_fresh(self) -> bool:
        """True while this process holds the lease for more than half of its length from now. Asks nothing."""
        return self._written is not None and self._monotonic() < self._held_until - self._seconds / 2

    def hold(self) -> bool:
        """Take the lease when it is free, or renew it. False when another process holds it. Raises
        :class:`Unavailable`.
        """
        began = self._monotonic()
        with self._database.read() as tx:
            found = tx.scalar(sa.select(counter.c.value).where(counter.c.name == self._name))
            now = round(tx.now.timestamp() * 1000)
        # An end further away than any lease can have: the clock was put back.
        free = found is None or found <= now or found > now + 2 * self._length
        if not free and found != self._written:
            self._written = None
            return False
        self._written = self._write(
            found, now + self._length if found is None else max(now + self._length, found + 1)
        )
        self._held_until = began + self._seconds
        return self._written is not None

    def release(self) -> None:
        """End the lease, so that another process can take it at once. Does nothing without a database."""
        written, self._written = self._written, None
        if written is not None:
            with contextlib.suppress(Unavailable):
                self._write(written, 0)

    @property
    def _length(self) -> int:
        return round(self._seconds * 1000)

    def _write(self, found: int | None, new: int) -> int | None:
        """Change the row from ``found`` to ``new``. None when another process was first."""
        with self._database.write() as tx:
            if found is None:
                return new if tx.insert_missing(counter, [{"name": self._name, "value": new}]) else None
            mine = counter.c.name == self._name, counter.c.value == found
            return new if tx.execute(sa.update(counter).where(*mine).values(value=new)).rowcount else None

"""Reads a deployment's rows beside it: progress of a round, results, open work."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from typing import Any

import sqlalchemy as sa
from sqlalchemy.pool import StaticPool

from functory.engine.database import clock, schema
from functory.engine.database.connection import Database
from functory.engine.executions.lineage import Lineage
from functory.engine.maintenance import invariants
from functory.engine.settings import Settings

execution, event = schema.execution, schema.event
# The most by which the clocks of two processes on this machine differ.
CLOCKS_DIFFER_SECONDS = 0.25


class Observer:
    """One connection that reads progress, and one for the checks."""

    def __init__(self, url: str, settings: Settings) -> None:
        """``url`` names a database user of its own, so that the server's statistics tell its statements apart."""
        self._engine = sa.create_engine(url, poolclass=StaticPool)
        self._connection = self._engine.connect().execution_options(isolation_level="AUTOCOMMIT")
        self.url = url
        self._database, self._settings = Database(url), settings

    def close(self) -> None:
        self._database.close()
        self._connection.close()
        self._engine.dispose()

    def backend(self) -> int:
        """The process id of its server process on PostgreSQL."""
        return self.one(sa.text("SELECT pg_backend_pid()"))

    def one(self, statement: Any) -> Any:
        """The first column of the first row."""
        return self._connection.execute(statement).scalar()

    def rows(self, statement: Any) -> list[Any]:
        """All rows."""
        return list(self._connection.execute(statement))

    def now(self) -> str:
        """An id above all that were made, and below all that are made from now on."""
        # Each process estimates the database server's clock, and begins its ids with it.
        time.sleep(CLOCKS_DIFFER_SECONDS)
        id_ = clock.lowest_id(datetime.now(UTC))
        time.sleep(CLOCKS_DIFFER_SECONDS)
        return id_

    def ended(self, since: str, function: str) -> int:
        """The number of executions with newer ids that have ended well, of functions whose names begin so."""
        return self.one(
            sa.select(sa.func.count())
            .select_from(execution)
            .where(
                execution.c.id > since,
                execution.c.function.startswith(function),
                execution.c.state == "succeeded",
            )
        )

    def wait(self, since: str, function: str, count: int, patience: float = 120.0) -> float:
        """Wait until ``count`` executions have ended; return the time.

        It looks rarely while much is left, and every few milliseconds at the end. Raises RuntimeError when nothing has
        ended for ``patience`` seconds.
        """
        began = changed = time.time()
        before = 0
        while True:
            done = self.ended(since, function)
            now = time.time()
            if done >= count:
                return now
            if done > before:
                before, changed = done, now
            elif now - changed > patience:
                raise RuntimeError(
                    f"{done} of {count} executions have ended, and none for {patience:g} s\n"
                    f"open: {self.open_work()}\nevents and decisions: {self._decisions(since)}"
                )
            left = (now - began) * (count - done) / done if done else 0.1
            time.sleep(min(max(left / 2, 0.004), 0.25))

    def _decisions(self, since: str) -> list[Any]:
        """Newer events by type and state, and firings by decision, reason and number."""
        firing, count = schema.firing, sa.func.count()
        events = sa.select(event.c.type, event.c.state, count).where(event.c.id > since)
        firings = sa.select(firing.c.decision, firing.c.reason, count).where(firing.c.event_id > since)
        return [
            *self.rows(events.group_by(event.c.type, event.c.state)),
            *self.rows(firings.group_by(firing.c.decision, firing.c.reason)),
        ]

    def results(self, since: str, function: str) -> dict[str, Any]:
        """Results of a function's newer executions, by the id of the event."""
        statement = sa.select(execution.c.event_id, execution.c.result).where(
            execution.c.id > since, execution.c.function == function
        )
        return {str(row[0]): row[1] for row in self.rows(statement)}

    def open_work(self) -> dict[str, int]:
        """What is not finished, by name."""
        return {name: count for name, count in Lineage(self._database).open_work().items() if count}

    def broken_invariants(self, since: str | None = None, patience: float | None = 0) -> list[str]:
        """The sentences of the invariants that do not hold in the rows since an id, when all work should be finished
        (or within ``patience`` seconds)."""
        found = invariants.verify(
            self._database,
            self._settings,
            since=None if since is None else clock.time_of_id(since),
            patience=patience,
        )
        return [
            f"{one.code} {one.title}: {one.count} times, {one.examples[:1]}" for one in found if one.count
        ]

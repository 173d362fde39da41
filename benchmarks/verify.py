"""The invariants over a database with history: seconds of each query, on SQLite and on PostgreSQL.

Every root is an event from outside and a chain of four executions, each started by the success of the one before; every
tenth needed a second attempt. The rows are made by one statement a table, as the engine would have written them, and
nothing is broken: what is measured is a look that finds nothing.
"""

from __future__ import annotations

import contextlib
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

import sqlalchemy as sa

from functory.engine.database import migrations, schema
from functory.engine.database.connection import Database
from functory.engine.firings.trigger_store import Triggers
from functory.engine.functions.registry import Functions
from functory.engine.maintenance import invariants
from functory.engine.settings import Settings, load_settings
from functory.triggers import definition
from tests.services.installation import Missing, find

EXECUTIONS = 100_000
CHAIN = 4
_DATA = (
    """'{"execution_id": "01998c5e-0000-7000-8000-000000000000", "function": "step", "state": "succeeded"}'"""
)
_SANDBOX = """'{"sha256": "", "tier": "A", "environment": null, "grants": {}, "limits": {"timeout": 30}}'"""
# Milliseconds between the beginnings of two executions of the history.
INTERVAL_MS = 10


def run(*, quiet: bool = False, executions: int = EXECUTIONS) -> dict[str, Any]:
    """Measure; prints the figures unless ``quiet``. PostgreSQL is left out where it is not installed."""
    figures: dict[str, Any] = {"executions": executions}
    for name, url in _databases():
        figures[name] = measure(url, executions)
        if not quiet:
            show(name, executions, figures[name])
    return figures


def measure(url: str, executions: int) -> dict[str, Any]:
    """One database: filled, asked as a whole, and asked for its last hour."""
    settings = load_settings(home=Path("/nowhere"))
    database = Database(url)
    migrations.upgrade(database)
    try:
        start = time.perf_counter()
        fill(database, settings, executions)
        filled = time.perf_counter() - start
        whole = _verify_seconds(database, settings)
        hour = _verify_seconds(database, settings, since=database.clock.now() - timedelta(hours=1))
    finally:
        database.close()
    return {
        "filled_seconds": round(filled, 1),
        "seconds": whole,
        "sum": round(sum(whole.values()), 2),
        "last_hour": round(sum(hour.values()), 2),
    }


def fill(database: Database, settings: Settings, executions: int) -> None:
    """Write the history."""
    functions, triggers = Functions(database, settings=settings), Triggers(database)
    version = functions.save("def step(event=None):\n    return 1\n")
    made = [
        triggers.save(f"step{n}", definition.define(on={"type": [f"bench.{n}"]}, function="step"))["id"]
        for n in range(CHAIN)
    ]
    with database.write() as tx:
        tx.execute(sa.update(schema.event).values(state="routed", routed_at=tx.now))
        tx.execute(sa.delete(schema.outbox))
    first = int(database.clock.now().timestamp() * 1000) - (executions + 1) * INTERVAL_MS - 60_000
    history = _History(database.dialect, first, executions, version, made)
    with database.connection(write=True) as connection:
        if database.dialect == "postgresql":
            # The rows fit together: that they are all there need not be asked a million times.
            connection.execute(sa.text("SET session_replication_role = replica"))
        for statement in history.statements():
            connection.execute(sa.text(statement))
        connection.commit()
        if database.dialect == "postgresql":
            connection.execution_options(isolation_level="AUTOCOMMIT").execute(sa.text("VACUUM (ANALYZE)"))
        else:
            connection.execute(sa.text("ANALYZE"))


@dataclass(frozen=True)
class _History:
    """The statements that make it. Number n is the n-th execution; a root's executions follow one another."""

    dialect: str
    first: int
    count: int
    version: Any
    triggers: list[str]

    def statements(self) -> Iterator[str]:
        """In the order of their references."""
        root = self._id(f"n - n % {CHAIN}", 0)
        mine, came = self._id("n", 1), self._id("n", 0)
        came = f"CASE WHEN n % {CHAIN} = 0 THEN {came} ELSE {self._id('n - 1', 4)} END"
        trigger = " ".join(f"WHEN {k} THEN {self._literal(id_)}" for k, id_ in enumerate(self.triggers))
        trigger = f"CASE n % {CHAIN} {trigger} END"
        began, again, tries = f"n % {CHAIN} = 0", "n % 10 = 0", "CASE WHEN n % 10 = 0 THEN 2 ELSE 1 END"
        no, json = self._false, "'[]'"

        def event_sql(place: int, type_: str, after: int, where: str, **values: str) -> str:
            given = {
                "id": self._id("n", place), "type": f"'{type_}'", "source": "'/bench'", "subject": "'step'",
                "time": self._at(after), "data": _DATA, "root_id": root, "cause_execution_id": mine,
                "depth": f"n % {CHAIN} + 1", "chain": json, "state": "'routed'", "route_attempts": "0",
                "routed_at": self._at(after),
            }  # fmt: skip
            return self._insert("event", where, **{**given, **values})

        def tried(number: int, start: int, end: int, outcome: str, where: str) -> str:
            return self._insert(
                "attempt", where, execution_id=mine, fence=f"{number}", number=f"{number}", worker_id="'worker:1'",
                isolation="'A'", sandbox=_SANDBOX, started_at=self._at(start), ended_at=self._at(end),
                outcome=f"'{outcome}'",
            )  # fmt: skip

        yield event_sql(0, "bench.0", 0, began, cause_execution_id=self._null, depth="0")
        yield event_sql(2, "execution.started", 1, "1 = 1")
        yield event_sql(3, "execution.attempt_failed", 2, again)
        yield event_sql(5, "execution.started", 3, again)
        yield event_sql(4, "execution.succeeded", 4, "1 = 1")
        yield self._insert(
            "execution", id=mine, function="'step'", version="1", version_id=self._literal(self.version["id"]),
            cause="'trigger'", trigger_id=trigger, event_id=came, root_id=root, depth=f"n % {CHAIN} + 1", chain=json,
            input="'{}'", state="'succeeded'", attempt=tries, failures="0", released="0", max_attempts="3", retries="2",
            fence=tries, priority="0", run_at=self._at(0), has_concurrency=no,
            worker_id="'worker:1'", result="'1'", result_kind="'json'", created_at=self._at(0), started_at=self._at(1),
            finished_at=self._at(4),
        )  # fmt: skip
        yield self._insert(
            "firing", trigger_id=trigger, event_id=came, trigger_version="1", decision="'fired'", execution_id=mine,
            joint=no, chain=json, root_id=root, time=self._at(0),
        )  # fmt: skip
        yield tried(1, 1, 2, "failed", again)
        yield tried(2, 3, 4, "succeeded", again)
        yield tried(1, 1, 4, "succeeded", f"NOT {again}")
        yield self._insert(
            "budget", began, root_id=root, used=f"{CHAIN}", maximum="1000", created_at=self._at(0)
        )

    def _insert(self, table: str, where: str = "1 = 1", **columns: str) -> str:
        values = ", ".join(columns.values())
        return (
            f"INSERT INTO {table} ({', '.join(columns)}) SELECT {values} FROM {self._numbers} WHERE {where}"
        )

    @property
    def _numbers(self) -> str:
        if self.dialect == "postgresql":
            return f"generate_series(0::bigint, {self.count - 1}) AS numbers(n)"
        below = f"SELECT 0 AS n UNION ALL SELECT n + 1 FROM numbers WHERE n < {self.count - 1}"
        return f"(WITH RECURSIVE numbers AS ({below}) SELECT n FROM numbers)"

    @property
    def _false(self) -> str:
        return "false" if self.dialect == "postgresql" else "0"

    @property
    def _null(self) -> str:
        return "NULL::uuid" if self.dialect == "postgresql" else "NULL"

    def _literal(self, id_: str) -> str:
        return f"'{id_}'::uuid" if self.dialect == "postgresql" else f"'{id_.replace('-', '')}'"

    def _id(self, n: str, place: int) -> str:
        """The UUIDv7 of something of the execution number ``n``."""
        at, rest = f"({self.first} + ({n}) * {INTERVAL_MS} + {place})", f"(({n}) * 8 + {place})"
        if self.dialect == "postgresql":
            return f"(lpad(to_hex({at}), 12, '0') || '70008000' || lpad(to_hex({rest}), 12, '0'))::uuid"
        return f"printf('%012x70008000%012x', {at}, {rest})"

    def _at(self, after: int) -> str:
        at = f"({self.first} + n * {INTERVAL_MS} + {after})"
        if self.dialect == "postgresql":
            return f"to_timestamp({at} / 1000.0)"
        return f"strftime('%Y-%m-%d %H:%M:%f000', {at} / 1000.0, 'unixepoch')"


def _verify_seconds(database: Database, settings: Settings, **options: Any) -> dict[str, float]:
    found = invariants.verify(database, settings, **options)
    broken = [one for one in found if one.count]
    if broken:
        raise AssertionError(f"the history is wrong: {broken}")
    return {one.code: round(one.seconds, 3) for one in found}


@contextlib.contextmanager
def _sqlite() -> Iterator[str]:
    with tempfile.TemporaryDirectory() as folder:
        yield f"sqlite:///{folder}/functory.db"


@contextlib.contextmanager
def _postgres() -> Iterator[str | None]:
    found = find("postgres")
    if isinstance(found, Missing):
        yield None
        return
    from tests.services.postgres import Postgres

    with Postgres(found.programs) as server, server.database() as url:
        yield url


def _databases() -> Iterator[tuple[str, str]]:
    for name, opened in (("sqlite", _sqlite()), ("postgresql", _postgres())):
        with opened as url:
            if url is not None:
                yield name, url


def show(name: str, executions: int, figures: dict[str, Any]) -> None:
    """Print the figures of one database."""
    print(f"\n{name}: {executions:,} executions (filled in {figures['filled_seconds']:g} s)")
    for code, seconds in figures["seconds"].items():
        print(f"  {code:<12} {seconds:>9.3f} s")
    print(f"  {'all':<12} {figures['sum']:>9.3f} s")
    print(f"  {'last hour':<12} {figures['last_hour']:>9.3f} s")

"""A history of copied rows is one that the engine could have written."""

from __future__ import annotations

import contextlib
from pathlib import Path

import pytest
import sqlalchemy as sa

from benchmarks.speed import history
from benchmarks.speed.observer import Observer
from functory.client.functory import Functory
from functory.engine.database import clock, schema
from functory.engine.settings import load_settings

LOAD, COPIES = 4, 3


@pytest.mark.parametrize("database", ["sqlite", pytest.param("postgresql", marks=pytest.mark.postgres)])
def test_copies_are_whole_and_in_the_past(
    database: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    where = {"database_url": request.getfixturevalue("postgres_url")} if database == "postgresql" else {}
    settings = load_settings(home=tmp_path, **where)
    with Functory(settings) as engine, contextlib.closing(Observer(settings.database, settings)) as observer:
        engine.functions.save("def noop(event=None):\n    return 1\n")
        engine.register_trigger("noop", on={"type": ["bench.noop"]}, function="noop")
        engine.settle()
        since = observer.now()
        engine.emit_many([{"type": "bench.noop", "data": {"n": n}} for n in range(LOAD)])
        engine.settle()
        load = history.Load(since, observer.now(), clock.time_of_id(since))

        def count(table: sa.Table) -> int:
            return observer.one(sa.select(sa.func.count()).select_from(table))

        tables = (schema.event, schema.firing, schema.execution, schema.attempt, schema.budget)
        before = {table.name: count(table) for table in tables}
        made = history.extend(settings.database, load, 1, COPIES)
        # Later copies continue before the first ones.
        more = history.extend(settings.database, load, COPIES + 1, 1)
        assert made["execution"] == LOAD * COPIES
        assert made["event"] == 3 * LOAD * COPIES
        assert {name: count // COPIES for name, count in made.items()} == more
        for table in tables:
            assert count(table) == before[table.name] + made[table.name] + more[table.name]
        assert observer.broken_invariants() == []
        begun = sa.select(sa.func.count()).where(schema.execution.c.created_at < load.began)
        assert observer.one(begun) == LOAD * (COPIES + 1)
        # A copy keeps together what belongs together, as the engine's own reading shows.
        oldest = observer.rows(sa.select(schema.execution.c.id).order_by(schema.execution.c.id).limit(1))[0][
            0
        ]
        row = engine.executions.get(oldest)
        assert row["state"] == "succeeded"
        assert engine.events.get(row["event_id"])["type"] == "bench.noop"

"""Plans of statements: PostgreSQL's kept plan may be of an empty table, unless the process only makes plans that use
indexes; SQLite reads a whole table where no index fits.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from sqlalchemy import event as hooks

from functory.engine.database import schema
from functory.engine.database.connection import Database
from functory.engine.database.id_lists import one_of
from functory.engine.executions.attempts import Attempts
from functory.engine.executions.retry_or_dead import AttemptResult
from functory.engine.firings import trigger_listing
from tests.support.patience import patient
from tests.support.waiting import wait_for
from tests.support.world import LEASE, World, embedded, lines, on_postgresql

pytest_plugins = ["tests.support.world"]

OF_IDS = sa.select(sa.func.count()).select_from(schema.execution).where(one_of(schema.execution.c.id))
PREPARED = sa.text("SELECT count(*) FROM pg_prepared_statements WHERE statement LIKE '%ANY(CAST(%'")


@pytest.mark.postgres
@pytest.mark.parametrize(("ids", "kept"), [(1, 1), (200, 0)])
def test_only_plans_for_a_few_rows_are_kept(emptied_postgres: str, ids: int, kept: int) -> None:
    database = Database(emptied_postgres)
    given = [f"00000000-0000-0000-0000-{number:012}" for number in range(ids)]
    with database.read() as tx:
        for _ in range(20):
            assert tx.scalar(OF_IDS, {"ids": given}) == 0
        assert tx.scalar(PREPARED) == kept
    database.close()


@pytest.mark.postgres
def test_a_process_that_finds_rows_by_keys_keeps_all_plans(emptied_postgres: str) -> None:
    database = Database(emptied_postgres, by_keys=True)
    given = [f"00000000-0000-0000-0000-{number:012}" for number in range(200)]
    with database.read() as tx:
        for _ in range(20):
            assert tx.scalar(OF_IDS, {"ids": given}) == 0
        assert tx.scalar(PREPARED) == 1
    database.close()


@on_postgresql
@pytest.mark.parametrize("together", [1, 50])
def test_claims_and_results_read_no_table_as_a_whole(make_world: Callable[..., World], together: int) -> None:
    world = make_world()
    database = Database(world.url, clock=world.clock, by_keys=True, pool_size=1)
    attempts = Attempts(database, "worker", lease_seconds=LEASE)
    world.function()

    def run() -> None:
        claims = attempts.claim([world.start()["id"] for _ in range(together)])
        attempts.finish_many([(claim, AttemptResult("succeeded", result=1)) for claim in claims])

    def whole_reads() -> int:
        with database.write() as tx:
            tx.execute(sa.text("SELECT pg_stat_force_next_flush()"))
        with world.database.read() as tx:
            read = "SELECT sum(seq_scan) FROM pg_stat_user_tables WHERE relname IN ('execution', 'attempt')"
            return tx.scalar(sa.text(read))

    # The tables are empty at first, and nothing has counted their rows.
    run()
    before = whole_reads()
    for _ in range(8):
        run()
    assert whole_reads() == before
    assert len(world.rows(schema.attempt)) == 9 * together
    database.close()


# Firings of these triggers by turns, and of no other, in the order of their events.
FIRED = sa.text(
    "INSERT INTO firing (trigger_id, event_id, trigger_version, decision, joint, root_id, time)"
    " SELECT CAST(busy.id AS uuid), event.id, 1, 'fired', false, event.id, now()"
    " FROM unnest(CAST(:ids AS text[])) WITH ORDINALITY AS busy(id, turn)"
    " CROSS JOIN generate_series(0, 19999, 5) AS round"
    " CROSS JOIN LATERAL (SELECT CAST(lpad(to_hex(round + turn), 32, '0') AS uuid) AS id) AS event"
    " ORDER BY event.id"
)


@on_postgresql
def test_a_trigger_that_never_fired_is_shown_without_reading_the_firings_of_others(
    make_world: Callable[..., World],
) -> None:
    world = make_world()
    world.function()
    ids = {
        name: world.trigger(name, "work", {"type": ["a"]})["id"]
        for name in ("busy1", "busy2", "busy3", "busy4", "busy5", "idle1", "idle2", "idle3")
    }
    with world.database.write() as tx:
        tx.execute(FIRED, {"ids": [id_ for name, id_ in ids.items() if name.startswith("busy")]})
    with sa.create_engine(world.url, isolation_level="AUTOCOMMIT").connect() as connection:
        connection.execute(sa.text("VACUUM (ANALYZE) firing"))

    def entries_read() -> int:
        # The reader's own counts: another session may not have sent its to the server yet.
        with database.read() as tx:
            tx.execute(sa.text("SELECT pg_stat_force_next_flush()"))
        with database.read() as tx:
            read = "SELECT sum(idx_tup_read) FROM pg_stat_user_indexes WHERE relname = 'firing'"
            return tx.scalar(sa.text(read))

    database = Database(world.url, pool_size=1)
    before = entries_read()
    # More often than PostgreSQL plans a statement for the values that it is given.
    for _ in range(20):
        rows = trigger_listing.list_triggers(database)
        assert {row["name"] for row in rows if row["last_at"] is None} == {"idle1", "idle2", "idle3"}
        for name in ("idle1", "busy1"):
            page = trigger_listing.list_firings(database, ids[name], limit=5)
            assert len(page.rows) == (5 if name == "busy1" else 0)
    # A row for each trigger of the list and for each row of a page, not the 20,000.
    assert entries_read() - before < 20 * 50
    database.close()


# What grows with the history.
GROWING = ("attempt", "event", "execution", "firing", "log", "span", "suppression")
WHOLE = re.compile(rf"SCAN ({'|'.join(GROWING)})\b")


def test_an_embedded_engine_reads_no_growing_table_as_a_whole(tmp_path: Path) -> None:
    plans: dict[str, list[str]] = {}

    def note_plan(connection: sa.Connection, _cursor: Any, statement: str, given: Any, *_: Any) -> None:
        if statement in plans or not re.match("(SELECT|INSERT|UPDATE|DELETE|WITH)", statement):
            return
        plans[statement] = []
        one = given[0] if given and isinstance(given[0], tuple) else given
        driver: Any = connection.connection.driver_connection
        plans[statement] = [row[3] for row in driver.execute(f"EXPLAIN QUERY PLAN {statement}", one)]

    with embedded(tmp_path, worker_slots=4, heartbeat_seconds=0.2) as engine:
        engine.functions.save("def greet(name: str) -> str:\n    return name\n")
        engine.functions.save(
            lines(
                "import time",
                "def talk(number: int):",
                "    for _ in range(20):",
                "        print(number, flush=True)",
                "        time.sleep(0.1)",
            )
        )
        engine.functions.save("def fail():\n    raise ValueError\n", limits={"max_attempts": 2})
        engine.register_trigger(
            "greet", on={"type": ["user.created"]}, function="greet", input={"name": "{{ event.data.name }}"}
        )
        hooks.listen(sa.Engine, "before_cursor_execute", note_plan)
        try:
            engine.start()
            # Two of each kind at once: a list of one key may have another plan.
            started = [
                engine.executions.start(name, input_)["id"]
                for name, input_ in (
                    ("talk", {"number": 1}),
                    ("talk", {"number": 2}),
                    ("fail", {}),
                    ("fail", {}),
                )
            ]
            for name in ("ada", "bob"):
                engine.events.emit("user.created", {"name": name})
            engine.executions.wait(started, timeout=patient(60))
            engine.executions.cancel(engine.executions.start("talk", {"number": 3})["id"])
            wait_for(lambda: not any(engine.lineage.open_work().values()))
        finally:
            hooks.remove(sa.Engine, "before_cursor_execute", note_plan)
    # A page of a list reads the table in its order, until it is full.
    whole = {
        statement: plan
        for statement, plan in plans.items()
        if "LIMIT" not in statement and any(WHOLE.match(step) for step in plan)
    }
    assert len(plans) > 50
    assert whole == {}

"""A deployment of schema 0006, filled by the code of that time, works on after the upgrade with all its rows."""

from __future__ import annotations

import lzma
import tarfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest
import sqlalchemy as sa

from functory.client.functory import Functory
from functory.engine.database import migrations, schema
from functory.engine.database.connection import Database
from functory.engine.database.former_tables import FORMER_TABLES
from functory.engine.maintenance import invariants
from functory.engine.maintenance.backup import create
from functory.engine.maintenance.backup.restore import restore
from functory.engine.settings import Settings

DATA = Path(__file__).parents[3] / "data" / "schema_0006"
# Recovery of what the killed engine ran is no fault of the upgrade.
LONG = 36_500 * 86_400.0


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The `.functory` folder of an embedded engine that was killed at work."""
    with tarfile.open(DATA / "functory_folder.tar.xz") as archive:
        archive.extractall(tmp_path, filter="data")
    return tmp_path / ".functory"


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=pytest.mark.postgres)])
def database(request: pytest.FixtureRequest) -> Iterator[Database]:
    """The database before the upgrade."""
    if request.param == "sqlite":
        url = f"sqlite:///{request.getfixturevalue('folder') / 'functory.db'}"
    else:
        url = request.getfixturevalue("postgres_url")
        with psycopg.connect(url.replace("+psycopg", ""), autocommit=True) as connection:
            connection.execute(lzma.decompress((DATA / "postgresql.sql.xz").read_bytes()))  # type: ignore[arg-type]
    opened = Database(url)
    yield opened
    opened.close()


def counts(database: Database) -> Counter[str]:
    """The number of rows of each table."""
    with database.read() as tx:
        return Counter(create.row_counts(tx))


def test_every_row_is_there_after_the_upgrade(database: Database) -> None:
    before = counts(database)
    assert before["lane"] == before["bucket"] == before["receipt"] == 2, "former tables are counted"
    assert migrations.upgrade(database) == migrations.HEAD
    after = counts(database)
    for old, new in FORMER_TABLES.items():
        after[new] -= before.pop(old)
    queues = {name: after.pop(name, 0) for name in ("backlog", "in_flight", "durable_call")}
    assert queues["backlog"] + queues["in_flight"] > 0, "open executions stand in the queues"
    assert after.pop("activation") > before["function"], "each function has an active version, one had two"
    assert after.pop("bad_end") == 1, "an execution had failed"
    assert +after == +before
    assert not [one for one in invariants.verify(database, Settings(), patience=LONG) if one.count]
    with database.read() as tx:
        assert tx.pairs(sa.select(schema.rate_limit.c.control, sa.func.count()).group_by("control")) == {
            "rate_guard": 3,
            "rate_limit": 1,
            "throttle": 1,
            "webhook": 1,
        }
        rows = tx.rows(sa.select(schema.execution).where(schema.execution.c.has_concurrency))
        waiting = set(
            tx.execute(
                sa.select(schema.backlog.c.execution_id).where(schema.backlog.c.waiting_for_slot)
            ).scalars()
        )
        assert sorted((row["function"], row["state"], row["id"] in waiting) for row in rows) == [
            *[("count", "succeeded", False)] * 3,
            ("slow", "queued", True),
            ("slow", "running", False),
        ]


def test_a_backup_made_before_the_upgrade_has_every_row(database: Database, tmp_path: Path) -> None:
    before = counts(database)
    made = create.backup(database, tmp_path / "backup", version="0.1.0")
    assert (made.schema, made.rows) == ("0006", dict(before))
    restore(database, Settings(home=tmp_path / "home"), tmp_path / "backup", replace=True)
    assert migrations.current(database) == migrations.HEAD
    after = counts(database)
    assert sum(after[new] for new in set(FORMER_TABLES.values())) == sum(before[old] for old in FORMER_TABLES)


@pytest.mark.timeout(180)
def test_an_embedded_engine_goes_on_where_the_old_one_was_killed(folder: Path) -> None:
    with Functory(Settings(home=folder)) as engine:
        assert [row["number"] for row in engine.functions.versions("add")] == [2, 1]
        assert {row["name"] for row in engine.triggers.list()} >= {"on-order", "on-quiet", "one-at-a-time"}
        old = engine.executions.list(limit=100)
        assert len(old) == 11 and Counter(row["function"] for row in old)["count"] == 5
        (total,) = [row for row in old if row["function"] == "total"]
        assert [row["function"] for row in engine.executions.spans(total["id"])] == ["add", "add"]
        assert engine.executions.logs(total["id"])
        assert len(engine.events.list(limit=100)) == 45
        assert engine.lineage.cause(total["id"])["execution"]["result"] == 14

        engine.start()
        assert engine.call("token_length") == len("open sesame"), "the secret is opened by the old key"
        assert engine.call("count") == 6, "its state goes on"
        assert engine.call("total", 1) == 14
        lost = [row["id"] for row in old if row["function"] == "slow"]
        rows = engine.executions.wait(lost, 90)
        assert [row["state"] for row in rows] == ["succeeded"] * 2
        with engine.database.read() as tx:
            waiting = tx.rows(sa.select(schema.buffered_match))
            fired = tx.rows(
                sa.select(schema.firing)
                .join(schema.trigger, schema.trigger.c.id == schema.firing.c.trigger_id)
                .where(schema.trigger.c.name == "on-quiet")
            )
        assert len(waiting) + len(fired) == 3, "each match waits still, or its time has come"

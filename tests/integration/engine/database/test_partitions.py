"""Spans and log lines by the week on PostgreSQL: no row is lost or refused, whatever its week, and SQLite has none."""

import threading
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
import sqlalchemy as sa
from sqlalchemy.exc import IntegrityError

from functory.engine.database import clock, migrations, partitions, schema
from functory.engine.database.clock import ManualClock
from functory.engine.database.connection import Database
from tests.support.world import World

pytest_plugins = ["tests.support.world"]

WEDNESDAY = datetime(2026, 3, 4, 12, tzinfo=UTC)
LINE = {"stream": "stdout", "level": "info", "text": "hello", "offset_seconds": 0.0}


def test_the_lowest_id_of_a_moment_divides_the_ids_made_before_from_those_made_after():
    before = clock.new_id()
    border = clock.lowest_id(datetime.now(UTC) + timedelta(milliseconds=2))
    while clock.lowest_id(datetime.now(UTC)) <= border:
        pass
    assert before < border < clock.new_id()


@pytest.mark.parametrize(
    ("at", "begins"),
    [
        (WEDNESDAY, datetime(2026, 3, 2, tzinfo=UTC)),
        (datetime(2026, 3, 2, tzinfo=UTC), datetime(2026, 3, 2, tzinfo=UTC)),
        (datetime(2026, 3, 1, 23, 59, 59, tzinfo=UTC), datetime(2026, 2, 23, tzinfo=UTC)),
        (datetime(2026, 1, 1, tzinfo=UTC), datetime(2025, 12, 29, tzinfo=UTC)),
    ],
)
def test_a_week_begins_on_monday(at: datetime, begins: datetime):
    assert partitions.week(at) == begins


on_postgresql = pytest.mark.parametrize(
    "empty_url", [pytest.param("postgresql", marks=pytest.mark.postgres)], indirect=True
)


def lines_of(world: World, at: datetime, count: int = 1) -> list[str]:
    """Executions made at this time, each with a log line; their ids."""
    ids = []
    for number in range(count):
        row = world.start()
        id_ = clock.lowest_id(at)[:-6] + f"{number:06x}"
        with world.database.write() as tx:
            tx.execute(
                sa.update(schema.execution)
                .where(schema.execution.c.id == row["id"])
                .values(id=id_, root_id=id_, state="cancelled")
            )
            tx.insert(schema.log, [{"execution_id": id_, "fence": 1, "seq": 1, **LINE}])
        ids.append(id_)
    return ids


def part_of(world: World, id_: str) -> str:
    with world.database.read() as tx:
        return tx.scalar(
            sa.text("SELECT tableoid::regclass::text FROM log WHERE execution_id = :id"), {"id": id_}
        )


def names(world: World) -> list[str]:
    with world.database.read() as tx:
        return [part.name for part in partitions.list_partitions(tx) if part.table == "log"]


@pytest.fixture
def dated(empty_url: str, tmp_path: Path) -> Iterator[World]:
    """A world of its own whose clock stands on a Wednesday of 2026."""
    world = World(empty_url, tmp_path, clock=ManualClock(WEDNESDAY))
    migrations.upgrade(world.database)
    world.function()
    yield world
    world.close()


@pytest.mark.parametrize("empty_url", ["sqlite"], indirect=True)
def test_sqlite_has_no_partitions_and_needs_none(dated: World):
    assert partitions.create_missing(dated.database) == []
    assert names(dated) == []


@on_postgresql
def test_the_coming_weeks_are_made_ahead_once(dated: World):
    fresh = names(dated)
    assert fresh[0] == "log_before"
    assert fresh[-1] == "log_rest"
    assert len(fresh) == 7
    # The migration went by the server's clock; this world has got to a year later.
    dated.clock = dated.database.clock = ManualClock(datetime.now(UTC) + timedelta(days=365))
    made = partitions.create_missing(dated.database)
    assert len(made) == 2 * (partitions.AHEAD + 1)
    assert partitions.create_missing(dated.database) == []
    assert set(names(dated)) == set(fresh) | {name for name in made if name.startswith("log")}


@on_postgresql
def test_a_row_of_any_week_is_taken_and_moves_into_its_week_once_that_is_made(dated: World):
    later = datetime.now(UTC) + timedelta(days=365)
    (old,), late = lines_of(dated, WEDNESDAY), lines_of(dated, later, 3)
    assert part_of(dated, old) == "log_before"
    assert {part_of(dated, id_) for id_ in late} == {"log_rest"}
    dated.database.clock = ManualClock(later)
    partitions.create_missing(dated.database)
    assert {part_of(dated, id_) for id_ in late} == {f"log_{partitions.week(later):%Y%m%d}"}
    assert len(dated.rows(schema.log)) == 4


@on_postgresql
def test_schedulers_that_make_them_at_the_same_time_do_not_disturb_each_other(dated: World):
    later = ManualClock(datetime.now(UTC) + timedelta(days=365))
    others = [Database(dated.url, clock=later) for _ in range(3)]
    made: list[str] = []
    threads = [
        threading.Thread(target=lambda one=one: made.extend(partitions.create_missing(one))) for one in others
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for one in others:
        one.close()
    assert len(made) == len(set(made)) == 2 * (partitions.AHEAD + 1)


@on_postgresql
@pytest.mark.parametrize("age", [timedelta(0), timedelta(days=-700)])
def test_rows_before_and_after_all_weeks_have_the_keys_of_the_whole(dated: World, age: timedelta):
    at = WEDNESDAY - age
    (known,) = lines_of(dated, at)
    assert part_of(dated, known) == ("log_rest" if age else "log_before")
    for id_ in (known, clock.lowest_id(at + partitions.WEEK)):
        with pytest.raises(IntegrityError), dated.database.write() as tx:
            tx.insert(schema.log, [{"execution_id": id_, "fence": 1, "seq": 1, **LINE}])

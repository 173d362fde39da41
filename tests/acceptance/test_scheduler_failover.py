"""Schedulers as processes: several at once, killed at any time, and each tick of every schedule is one event."""

import random
import time
from datetime import datetime, timedelta
from pathlib import Path

import pytest
import sqlalchemy as sa

from functory.engine.database import schema
from functory.engine.database.connection import Database
from tests.support.processes import Role, Roles
from tests.support.waiting import wait_for

SCHEDULES = 20
SECONDS = 120.0


@pytest.mark.timeout(240)
def test_three_schedulers_that_are_killed_write_each_time_once(
    tmp_path: Path, postgres_url: str, redis_url: str
) -> None:
    rng = random.Random(7)
    with Roles(tmp_path, database_url=postgres_url, broker_url=redis_url, poll_seconds=0.2) as roles:
        roles.migrate()
        with roles.client() as client:
            for number in range(SCHEDULES):
                client.schedules.save(f"s{number}", every="1s", jitter="900ms", catch_up="all")
        running = [start(roles) for _ in range(3)]
        database = Database(postgres_url)
        try:
            # Four are killed, each after some more ticks, at a random time.
            for killed in range(1, 5):
                wait_for_ticks(database, killed * SCHEDULES)
                time.sleep(rng.random() * 0.5)
                running.pop(rng.randrange(len(running))).kill()
                running.append(start(roles))
            for role in running:
                role.wait_ready()
            enough = count(database) + 2 * SCHEDULES
            wait_for_ticks(database, enough)
            assert [role.stop() for role in running] == [0, 0, 0]
            check(database)
        finally:
            database.close()


def start(roles: Roles) -> Role:
    return roles.start("scheduler", wait=False)


def count(database: Database) -> int:
    with database.read() as tx:
        return tx.scalar(sa.select(sa.func.count()).select_from(schema.schedule_tick))


def wait_for_ticks(database: Database, least: int) -> None:
    wait_for(lambda: count(database) >= least, f"{least} ticks", seconds=SECONDS)


def check(database: Database) -> None:
    """No time twice, none left out, an event each, and nothing but these."""
    with database.read() as tx:
        ticks = tx.rows(sa.select(schema.schedule_tick).order_by(schema.schedule_tick.c.fire_time_utc))
        events = tx.rows(sa.select(schema.event).where(schema.event.c.type == "schedule.due"))
        missed = tx.scalar(sa.select(sa.func.sum(schema.schedule.c.missed)))
    assert missed == 0
    assert sorted(tick["event_id"] for tick in ticks) == sorted(event["id"] for event in events)
    fired: dict[str, list[datetime]] = {}
    for tick in ticks:
        fired.setdefault(tick["schedule_id"], []).append(tick["fire_time_utc"])
    assert len(fired) == SCHEDULES
    for times in fired.values():
        assert times == [times[0] + timedelta(seconds=n) for n in range(len(times))]
    reported = {(event["subject"], event["data"]["fire_time"]) for event in events}
    assert len(reported) == len(events)

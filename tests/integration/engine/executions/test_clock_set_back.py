"""The clock of the database server is set back by an hour: nothing waits for an hour, nothing is taken for lost."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta
from pathlib import Path

import pytest
import sqlalchemy as sa

from functory.engine.database import migrations, schema
from functory.engine.database.clock import ServerClock
from functory.engine.database.clock_offset import StoredOffset
from functory.engine.database.server_time import measure_server_time
from functory.engine.maintenance import lost_workers
from functory.engine.maintenance.reaper import Reaper
from tests.support.world import World

pytestmark = pytest.mark.postgres
HOUR = timedelta(hours=1)


class Server:
    """A database server whose clock can be wrong, and processes that use it."""

    def __init__(self, url: str, folder: Path) -> None:
        self.wrong = timedelta(0)
        self._url, self._folder = url, folder
        self.worlds: list[World] = []

    def process(self) -> World:
        """A process that asks for the clock each time."""
        world = World(self._url, self._folder)

        offset = StoredOffset(world.database._connect_engine)

        def ask() -> tuple[float, datetime]:
            monotonic, server = measure_server_time(world.database._connect_engine, offset.read)
            return monotonic, server + self.wrong

        world.database.clock = ServerClock(ask, refresh=0, offset=offset)
        self.worlds.append(world)
        return world


@pytest.fixture
def server(postgres_url: str, tmp_path: Path) -> Iterator[Server]:
    found = Server(postgres_url, tmp_path)
    migrations.upgrade(found.process().database)
    yield found
    for world in found.worlds:
        world.close()


def test_what_is_queued_is_claimed_by_old_and_new_processes(server: Server) -> None:
    world = server.process()
    world.function()
    rows = [world.start() for _ in range(2)]
    ids = [row["id"] for row in rows]
    server.wrong = -HOUR
    assert [claim.id for claim in world.worker.claim(ids[:1])] == ids[:1]
    assert [claim.id for claim in server.process().worker.claim(ids[1:])] == ids[1:]
    # Ids are times too: those made later are higher.
    assert world.start()["id"] > max(ids)


def test_a_look_at_the_clock_waits_for_no_other_process(server: Server) -> None:
    first, second = server.process(), server.process()
    first.database.clock.now()
    server.wrong = -HOUR
    first.database.clock.now()
    with first.database.write() as tx:
        assert tx.execute(sa.update(schema.clock).values(ahead=0)).rowcount == 1
        # It has something to write, and does not get the row.
        second.database.clock.now()
        server.wrong = -2 * HOUR
        second.database.clock.now()


def test_a_lease_that_ended_before_has_ended(server: Server) -> None:
    world = server.process()
    world.function()
    row = world.start()
    world.claim(row)
    with world.database.write() as tx:
        tx.execute(sa.update(schema.execution).values(lease_until=tx.now))
    server.wrong = -HOUR
    assert lost_workers.reap(world.database, cancel_grace=60)["lost"] == 1
    assert lost_workers.reap(server.process().database, cancel_grace=60)["lost"] == 0


def test_a_server_that_is_younger_than_its_clock_says_is_no_reason_to_wait(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = server.process()
    world.function()
    row = world.start()
    world.claim(row)
    monkeypatch.setattr(lost_workers, "server_uptime", lambda database: -HOUR.total_seconds())
    world.settings = world.settings.model_copy(update={"lease_seconds": 0.2})
    reaper = Reaper(world.database, world.settings, trust_at_once=True)
    reaper.reap()
    assert reaper._trusted_from < world.database.clock.monotonic() + 60

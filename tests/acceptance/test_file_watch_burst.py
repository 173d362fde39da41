"""Thousands of files at once, and a watcher that is killed meanwhile: each makes one event."""

import os
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
import sqlalchemy as sa

from functory.engine.database import schema
from functory.engine.database.clock import SystemClock
from tests.support.patience import patient
from tests.support.waiting import wait_for
from tests.support.world import World

pytest_plugins = ["tests.support.world"]

FILES = 3000
# Short: what a killed watcher leaves is taken over soon.
LEASE = 2.0

# The role as `functory watcher` runs it, with the settings of the test.
WATCHER = """
import sys, threading
from functory.engine.database.connection import Database
from functory.engine.settings import Settings
from functory.triggers.sources.supervisor import SourceSupervisor
database = Database(sys.argv[1])
settings = Settings(home=sys.argv[2], lease_seconds=float(sys.argv[3]), heartbeat_seconds=0.5)
supervisor = SourceSupervisor(database, settings)
while True:
    supervisor.run_once()
    threading.Event().wait(0.05)
"""


class Watchers:
    """Processes that watch, which a test may kill."""

    def __init__(self, world: World) -> None:
        self._world = world
        self.all: list[subprocess.Popen[bytes]] = []

    def start(self) -> subprocess.Popen[bytes]:
        arguments = [self._world.url, str(self._world.home), str(LEASE)]
        process = subprocess.Popen([sys.executable, "-c", WATCHER, *arguments], cwd=Path(__file__).parents[2])
        self.all.append(process)
        return process

    def kill(self, process: subprocess.Popen[bytes]) -> None:
        os.kill(process.pid, signal.SIGKILL)
        process.wait(patient(20))


@pytest.fixture
def watchers(make_world) -> Iterator[tuple[World, Watchers]]:
    world = make_world(clock=SystemClock())
    watchers = Watchers(world)
    yield world, watchers
    for process in watchers.all:
        if process.poll() is None:
            watchers.kill(process)


def reported(world: World) -> Counter[str]:
    with world.database.read() as tx:
        rows = tx.rows(sa.select(schema.event.c.subject).where(schema.event.c.type == "file.created"))
    return Counter(Path(row["subject"]).name for row in rows)


def test_a_watcher_that_is_killed_among_thousands_of_files_loses_none_and_doubles_none(watchers, tmp_path):
    world, processes = watchers
    folder = tmp_path / "inbox"
    folder.mkdir()
    world.sources.save("file", "inbox", {"path": str(folder), "settle": 0.05})
    watcher = processes.start()
    wait_for(
        lambda: (world.sources.get("file", "inbox")["cursor"] or {}).get("look"), "the first scan", seconds=60
    )
    for number in range(FILES):
        (folder / f"{number:05}").write_text(f"{number}")
        if number == FILES // 2:
            wait_for(lambda: reported(world).total() > 0, "the first events", seconds=60)
            # In mid burst: some have events, some are noticed, some are yet to come.
            processes.kill(watcher)
            watcher = processes.start()
    wait_for(lambda: reported(world).total() > FILES // 2, "the second watcher", seconds=60)
    processes.kill(watcher)
    processes.start()
    wait_for(lambda: reported(world).total() >= FILES, "all of them", seconds=90)
    (folder / "last").write_text("a duplicate would have been seen by now")
    wait_for(lambda: reported(world)["last"], "the last one", seconds=60)
    assert reported(world) == Counter([f"{number:05}" for number in range(FILES)] + ["last"])

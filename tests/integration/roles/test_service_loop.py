"""A service that makes no progress ends its role; one that waits for work does not."""

from __future__ import annotations

import shutil
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from functory.engine.database.wakeups import Wakeup
from functory.engine.service import Service
from functory.roles import process
from functory.roles.service_loop import ServiceLoop
from tests.support.patience import patient
from tests.support.processes import Roles
from tests.support.waiting import wait_for

pytest_plugins = ["tests.support.world"]

# A router whose rounds do not end; what counts as too long is shorter than in truth.
STUCK = """
import sys, threading
from functory.cli.main import main
from functory.engine.service import Service
from functory.triggers.routing.router import Router

Service.stall_seconds = 1.0
Router.run_once = lambda self: threading.Event().wait()
sys.exit(main(["router"]))
"""


def test_a_role_whose_service_hangs_ends_with_its_stacks_to_be_started_again(
    tmp_path: Path, migrated_file: Path
) -> None:
    file = Path(shutil.copy(migrated_file, tmp_path / "functory.db"))
    script = tmp_path / "stuck.py"
    script.write_text(STUCK)
    settings = {"database_url": f"sqlite:///{file}", "broker_url": "none://", "grace_seconds": 1}
    with Roles(tmp_path, **settings) as roles:
        role = roles.spawn([sys.executable, str(script)], name="router")
        assert role.wait(60) == 75
        assert "the service router makes no progress" in role.output
        assert "functory-router" in role.output or "most recent call first" in role.output


class Sleeper(Service):
    """A service whose round waits for the test."""

    name, topic, poll_seconds = "sleeper", None, 1000.0
    stall_seconds = 0.05

    def __init__(self) -> None:
        self.begun, self.free = threading.Event(), threading.Event()
        self.error: BaseException | None = None

    def run_once(self) -> bool:
        self.begun.set()
        self.free.wait(patient(60))
        if self.error is not None:
            raise self.error
        return False


@pytest.fixture
def loop() -> Iterator[ServiceLoop]:
    found = ServiceLoop(Sleeper(), Wakeup())
    yield found
    found.service.free.set()  # type: ignore[attr-defined]
    found.stop()
    if found.ident is not None:
        found.join(patient(60))


def test_a_round_that_does_not_end_is_a_stall_until_it_ends(
    loop: ServiceLoop, monkeypatch: pytest.MonkeyPatch
) -> None:
    sleeper = loop.service
    assert isinstance(sleeper, Sleeper) and loop.stall() is None
    loop.start()
    assert sleeper.begun.wait(patient(60))
    assert wait_for(loop.stall).code == 75 and not loop.healthy
    monkeypatch.setattr(process, "WATCH_SECONDS", 0.01)
    shutdown = process.RoleShutdown()
    process.wait_while_progressing(shutdown, [loop])
    assert process.exit_status(shutdown, ended=False) == 75
    sleeper.free.set()
    # Between two rounds it may wait as long as it wants.
    wait_for(lambda: loop.healthy)
    assert loop.stall() is None


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_a_loop_whose_thread_has_ended_is_a_stall(loop: ServiceLoop) -> None:
    sleeper = loop.service
    assert isinstance(sleeper, Sleeper)
    sleeper.error = SystemExit(1)
    sleeper.free.set()
    loop.start()
    loop.join(patient(60))
    stall = loop.stall()
    assert stall is not None and "its thread has ended" in stall.why

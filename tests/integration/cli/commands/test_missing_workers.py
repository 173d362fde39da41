"""A deployment without a living worker: commands that wait say so. A worker whose process has ended is not alive."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from functory.engine.executions import worker_registry
from tests.support.cli_shell import Shell
from tests.support.world import World, on_sqlite

pytest_plugins = ["tests.support.world"]


@pytest.fixture
def shell(tmp_path: Path, migrated_file: Path) -> Shell:
    """A client of a deployment whose workers claim from the database, with one function."""
    shell = Shell(tmp_path, database=migrated_file)
    shell.environment |= {"FUNCTORY_BROKER_URL": "none://"}
    (tmp_path / "greet.py").write_text("def greet():\n    return 1\n")
    shell.run("function", "add", "greet.py")
    return shell


def test_a_run_without_a_worker_says_so_and_goes_on_waiting(shell: Shell) -> None:
    said = shell.run("run", "greet", "--timeout", "2.2", status=124).stderr
    assert "no worker is alive: execution " in said and "try: functory worker" in said
    assert "waited 2.2 s" in said


def test_an_event_that_is_waited_for_without_a_worker_says_so(shell: Shell) -> None:
    said = shell.run("event", "emit", "a.b", "--wait", "--timeout", "0.1", status=124).stderr
    assert "no worker is alive" in said


@on_sqlite
def test_a_worker_whose_process_has_ended_is_not_alive(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    mine = worker_registry.new_id("a")
    dead = mine.replace(f":{os.getpid()}:", f":{ended.pid}:")
    elsewhere = f"another-machine:{ended.pid}:a"
    # In another container, which shares the name of its host and not its processes.
    beside = f"{socket.gethostname()}:{ended.pid}:00000000a"
    for id_ in (mine, dead, elsewhere, beside, "unknown"):
        worker_registry.record_heartbeat(world.database, id_, 1, "none")
    found = {row["id"] for row in worker_registry.alive(world.database, 30)}
    assert found == {mine, elsewhere, beside, "unknown"}

"""A deployment without a living worker: commands that wait say so. A worker whose process has ended is not alive."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from functory import Functory
from functory.engine.database.connection import Database
from functory.engine.errors import Conflict
from functory.engine.executions import worker_registry
from functory.engine.settings import load_settings
from tests.support.cli_shell import Shell
from tests.support.world import World, on_postgresql, on_sqlite

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


@dataclass(frozen=True)
class Deployment:
    """A client of a deployment that does not say which broker its worker has; this process is the worker."""

    shell: Shell
    database: Database
    file: Path


@pytest.fixture
def deployed(tmp_path: Path, migrated_file: Path) -> Iterator[Deployment]:
    shell = Shell(tmp_path, database=migrated_file)
    file = tmp_path / "home" / "functory.db"
    (tmp_path / "greet.py").write_text("def greet():\n    return 1\n")
    shell.run("function", "add", "greet.py")
    database = Database(f"sqlite:///{file}")
    worker_registry.record_heartbeat(database, worker_registry.new_id("a"), 1, "none")
    yield Deployment(shell, database, file)
    database.close()


@pytest.mark.parametrize("command", [("run", "greet"), ("event", "emit", "a.b", "--wait")])
def test_a_command_never_runs_the_work_of_a_deployment(
    deployed: Deployment, command: tuple[str, ...]
) -> None:
    said = deployed.shell.run(*command, status=5).stderr
    assert "this process would run the work of a deployment itself" in said
    assert "set FUNCTORY_BROKER_URL" in said
    assert deployed.shell.json("execution", "list") == [], "what is refused is not queued either"
    assert deployed.shell.json("event", "list", "--type", "a.b") == []


def test_a_command_that_does_not_wait_leaves_its_work_to_the_workers(deployed: Deployment) -> None:
    deployed.shell.run("run", "greet", "--no-wait")
    deployed.shell.run("event", "emit", "a.b")
    assert [row["state"] for row in deployed.shell.json("execution", "list")] == ["queued"]
    assert "work of a deployment" in deployed.shell.run("execution", "wait", "@last", status=5).stderr


def test_a_program_never_runs_the_work_of_a_deployment(deployed: Deployment) -> None:
    settings = load_settings(database_url=f"sqlite:///{deployed.file}", home=deployed.file.parent)
    with Functory(settings) as engine:
        for act in (lambda: engine.submit("greet"), lambda: engine.emit("a.b"), engine.start):
            with pytest.raises(Conflict, match="work of a deployment"):
                act()
        assert engine.executions.list() == [] and engine.events.list(type_="a.b") == []


@on_postgresql
def test_a_command_that_runs_the_work_of_a_server_says_so(
    tmp_path: Path, world: World, database_url: str
) -> None:
    shell = Shell(tmp_path)
    shell.environment["FUNCTORY_DATABASE_URL"] = database_url
    (tmp_path / "greet.py").write_text("def greet():\n    return 1\n")
    shell.run("function", "add", "greet.py")
    done = shell.run("run", "greet")
    assert done.stdout == "1\n"
    assert "no broker is set: this command runs all that waits in " in done.stderr
    assert "no broker is set" not in shell.run("run", "greet", "--no-wait").stderr


def test_the_worker_of_another_embedded_engine_is_no_deployment(deployed: Deployment) -> None:
    mine = worker_registry.new_id("a")
    worker_registry.deregister(deployed.database, mine)
    worker_registry.record_heartbeat(deployed.database, worker_registry.EMBEDDED + mine, 1, "none")
    assert deployed.shell.out("run", "greet") == "1"


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

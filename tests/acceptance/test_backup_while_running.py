"""A backup that is made under load by the command, restored by the command, and worked off to its end."""

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from functory.engine.maintenance.invariants import verify
from tests.support.console_script import run
from tests.support.patience import patient
from tests.support.processes import Roles

pytest_plugins = ["tests.support.world"]

SOURCE = """
def count(event):
    print("counted", event["data"]["n"])
    return event["data"]["n"]
"""


# A busy machine takes its time to try the sandbox.
READY = 120.0


def wait(seen: Callable[[], bool]) -> None:
    """Until it is so; fails after two minutes."""
    deadline = time.monotonic() + patient(READY)
    while not seen():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def command(roles: Roles, *arguments: str, **environment: str) -> Any:
    """The JSON that a command prints."""
    done = run(*arguments, "--json", cwd=roles.folder, env=roles.environment | environment)
    assert done.returncode == 0, done.stdout + done.stderr
    return json.loads(done.stdout)


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=pytest.mark.postgres)])
def urls(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    """The URLs of two databases without tables."""
    if request.param == "sqlite":
        yield f"sqlite:///{tmp_path / 'first.db'}", f"sqlite:///{tmp_path / 'second.db'}"
        return
    server = request.getfixturevalue("postgres_server")
    with server.database() as first, server.database() as second:
        yield tuple(url.replace("+psycopg", "") for url in (first, second))


@pytest.mark.timeout(600)
def test_what_ended_before_a_backup_is_there_and_what_was_queued_runs_to_its_end(urls: Any, tmp_path: Path):
    first, second = urls
    given: dict[str, Any] = {
        "unsafe_no_sandbox": "i-understand",
        "sandbox_tier": "C",
        "poll_seconds": 0.05,
        "port": 0,
    }
    with Roles(tmp_path, database_url=first, **given) as roles:
        roles.migrate()
        dev = roles.start("dev", wait=False).wait_ready(READY)
        with roles.client() as functory:
            functory.functions.save(SOURCE)
            functory.register_trigger("count", on={"type": ["thing"]}, function="count")
            for number in range(12):
                functory.events.emit("thing", {"n": number})
            wait(lambda: len(functory.executions.list(state="succeeded", limit=1000)) >= 3)
            ended = functory.executions.list(state="succeeded", limit=100, payloads=True)
            manifest = command(roles, "db", "backup", "b.backup")
            dev.kill()
    assert manifest["rows"]["event"] > 12
    with Roles(tmp_path, database_url=second, **given) as roles:
        restored = command(roles, "db", "restore", "b.backup")
        assert [one for one in restored["invariants"] if one["count"]] == []
        with roles.client() as functory:
            there = {row["id"]: row for row in functory.executions.list(limit=100, payloads=True)}
            for row in ended:
                assert there[row["id"]]["result"] == row["result"]
        roles.start("dev", wait=False).wait_ready(READY)
        with roles.client() as functory:
            wait(lambda: not any(functory.lineage.open_work().values()))
            rows = functory.executions.list(limit=100, payloads=True)
            assert sorted(row["result"] for row in rows) == list(range(12))
            settings = roles.settings
            assert [
                one.examples for one in verify(functory.database, settings, patience=0) if one.count
            ] == []

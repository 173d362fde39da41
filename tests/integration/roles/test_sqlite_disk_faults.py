"""``functory dev`` and commands on a SQLite file that is deleted, read-only, or on a full disk."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import httpx
import pytest

from tests.support.mounts import fill, read_only, require_mounts, seen_by, small_disk
from tests.support.patience import patient
from tests.support.processes import PROGRAM, Role, Roles
from tests.support.waiting import wait_for

pytest_plugins = ["tests.support.world"]

EVENT = {"specversion": "1.0", "type": "order.placed", "source": "/shop", "data": {"order": 1}}
FULL = "no space left on device at"


def output(roles: Roles, command: list[str]) -> tuple[int, str]:
    """Run a command with the settings of the roles to its end."""
    done = subprocess.run(
        command,
        cwd=roles.folder,
        env=roles.environment,
        capture_output=True,
        text=True,
        timeout=patient(100),
        check=False,
    )
    return done.returncode, done.stdout + done.stderr


@pytest.mark.timeout(200)
@pytest.mark.parametrize(
    ("role", "settings"),
    [
        ("dev", {}),
        ("router", {"broker_url": "none://"}),
        ("worker", {"broker_url": "none://"}),
        ("server", {"broker_url": "none://", "port": 0}),
    ],
)
def test_a_role_whose_file_is_deleted_says_so_and_ends(
    tmp_path: Path, migrated_file: Path, role: str, settings: dict[str, object]
) -> None:
    file = tmp_path / "functory.db"
    shutil.copy(migrated_file, file)
    with Roles(tmp_path, database_url=f"sqlite:///{file}", **settings) as roles:
        started = roles.start(role, *(("--port", "0") if role == "dev" else ()))
        file.unlink()
        assert started.wait(60) == 6
        assert f"{file} was deleted or moved" in started.output and "Traceback" not in started.output
        assert not file.exists()
        if role == "dev":
            # The others have written nothing that is only in the log.
            assert "was deleted or moved: its write-ahead log" in output(roles, [str(PROGRAM), "doctor"])[1]


@pytest.mark.timeout(200)
def test_a_read_only_file_system_is_named(tmp_path: Path, migrated_file: Path) -> None:
    require_mounts()
    home = tmp_path / ".functory"
    home.mkdir()
    file = Path(shutil.copy(migrated_file, home / "functory.db"))
    with Roles(tmp_path) as roles:
        for command in (["event", "emit", "a.b"], ["status"], ["dev", "--port", "0"], ["doctor"]):
            status, said = output(roles, read_only(home, [PROGRAM, *command]))
            assert status in (1, 6) and f"the file system of {file} is read-only" in said, said
            assert "FUNCTORY_DATABASE_URL is right" not in said and "Traceback" not in said


@pytest.mark.timeout(300)
def test_a_full_disk_is_named_and_work_goes_on_when_there_is_space(tmp_path: Path) -> None:
    require_mounts()
    disk = tmp_path / "disk"
    disk.mkdir()
    (tmp_path / "greet.py").write_text("def greet():\n    return 1\n")
    add = (
        f"{PROGRAM} function add ../greet.py"
        f""" && {PROGRAM} trigger add greet --on '{{"type": ["order.placed"]}}' --function greet"""
        f" && exec {PROGRAM} dev --port 0"
    )
    with Roles(tmp_path, home=disk / ".functory") as roles:
        dev: Role = roles.spawn(small_disk(disk, 8 << 20, ["sh", "-c", add]), name="dev")
        dev.wait_ready(120)
        outside = seen_by(dev.pid, disk)

        def send(number: int) -> httpx.Response:
            headers = {"content-type": "application/cloudevents+json"}
            return httpx.post(
                f"{dev.url}/events", json=EVENT | {"id": f"{number}"}, headers=headers, timeout=patient(60)
            )

        ballast = fill(outside)
        sent = iter(range(1_000_000))
        # Some pages of the log may still have room.
        refused = wait_for(lambda: (answer := send(next(sent))).status_code != 202 and answer, seconds=60)
        assert refused.status_code == 503, refused.text
        # The answer names nothing of this machine; the log does.
        dev.wait_for(f"answered 503 .* {FULL} {disk}")
        enter = ["nsenter", "--user", "--mount", "--preserve-credentials", "-t", str(dev.pid), "--wd"]
        for command in (["event", "emit", "a.b"], ["doctor"]):
            status, said = output(roles, [*enter, str(PROGRAM), *command])
            assert status in (1, 6) and f"{FULL} {disk}" in said, said
        ballast.unlink()
        before = dev.output.count("execution.succeeded")
        assert send(next(sent)).status_code == 202
        wait_for(lambda: dev.output.count("execution.succeeded") > before, seconds=60)
        assert dev.stop(60) == 0 and "Traceback" not in dev.output

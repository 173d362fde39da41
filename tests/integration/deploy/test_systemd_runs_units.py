"""A systemd starts the units with all of their hardening: functions have tier B, and a role that hangs starts again."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from functory.cli.command_index import SECTIONS
from tests.services.missing_servers import require
from tests.support.systemd_namespace import PROGRAM, Systemd
from tests.support.waiting import wait_for

ROLES = [entry.name for entry in SECTIONS["Roles"]]
# Runs as the unit of a role does, and prints what it finds.
COMMAND = "[Service]\nType=oneshot\nRestart=no\nExecStart=\nExecStart="
FUNCTION = """
def hello(name: str) -> str:
    return "Hello " + name
"""


@pytest.fixture(scope="module")
def systemd(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Systemd]:
    require("systemd")
    if os.geteuid() != 0 or not Path(PROGRAM).exists():
        pytest.skip("a systemd in namespaces needs root, and systemd")
    started = Systemd(tmp_path_factory.mktemp("systemd"))
    try:
        started.__enter__()
    except OSError as error:
        pytest.skip(str(error))
    yield started
    started.__exit__(None, None, None)


def log(systemd: Systemd, role: str) -> str:
    return systemd.run("cat", f"/run/functory-{role}.log")


def write(systemd: Systemd, path: str, text: str) -> None:
    systemd.run("sh", "-c", 'mkdir -p "$(dirname "$0")"; printf %s "$1" > "$0"', path, text)


def test_a_systemd_runs_every_role(systemd: Systemd) -> None:
    # A watchdog that a test can wait for; the other roles have the usual one.
    drop_in = "/etc/systemd/system/functory@scheduler.service.d/50-short.conf"
    write(systemd, drop_in, "[Service]\nWatchdogSec=6\nTimeoutAbortSec=2\n")
    systemd.run("systemctl", "daemon-reload")
    systemd.run("systemctl", "enable", *(f"functory@{role}" for role in ROLES))
    systemd.run("systemctl", "start", "functory.target")
    for role in ROLES:
        systemd.run("systemctl", "start", f"functory@{role}")
        assert systemd.show(f"functory@{role}", "StatusText") == "ready"
        assert f"functory {role} ready" in log(systemd, role)
    assert "sandbox=B" in log(systemd, "worker")
    assert systemd.show("functory-schema", "Result") == "success"

    # A command with the settings, the rights and the credential of a role.
    write(systemd, "/run/hello.py", FUNCTION)
    for name, words in (
        ("key", '/bin/sh -c "wc -c < $FUNCTORY_SECRET_KEY_FILE"'),
        ("add", "/opt/functory/bin/functory function add /run/hello.py"),
        ("call", "/opt/functory/bin/functory function run hello --input name=Ada"),
        ("doctor", "/opt/functory/bin/functory doctor sandbox"),
    ):
        write(
            systemd, f"/etc/systemd/system/functory@{name}.service.d/50-command.conf", COMMAND + words + "\n"
        )
        systemd.run("systemctl", "daemon-reload")
        systemd.run("systemctl", "start", f"functory@{name}")
    assert log(systemd, "key").strip() == "45"
    assert '"Hello Ada"' in log(systemd, "call")
    assert "tier B; it stopped all" in log(systemd, "doctor")

    # A process that is stopped pings no more.
    pid = systemd.show("functory@scheduler", "MainPID")
    systemd.run("kill", "-STOP", pid)
    wait_for(lambda: systemd.show("functory@scheduler", "NRestarts") != "0", "the watchdog", seconds=60)
    wait_for(lambda: systemd.show("functory@scheduler", "StatusText") == "ready", seconds=60)
    assert systemd.show("functory@scheduler", "MainPID") != pid
    assert re.search(r"functory-watchdog|most recent call first", log(systemd, "scheduler"))

    systemd.run("systemctl", "stop", "functory.target")
    for role in ROLES:
        wait_for(lambda role=role: systemd.show(f"functory@{role}", "ActiveState") == "inactive")
        assert systemd.show(f"functory@{role}", "Result") == "success"

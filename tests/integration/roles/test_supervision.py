"""What process supervisors see of a role: systemd's messages, and the probes on the metrics port."""

from __future__ import annotations

import contextlib
import os
import secrets
import shutil
import signal
import socket
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from fastapi import FastAPI

from functory.api import server
from functory.engine import systemd_notify
from tests.services.port import free_port
from tests.services.tcp_proxy import Door
from tests.support.patience import patient
from tests.support.processes import PROGRAM, Roles
from tests.support.waiting import wait_for

pytest_plugins = ["tests.support.world"]

# A role in which one call hangs from when a file is there. What counts as too long is shorter than in truth, and a role
# does not notice it by itself, so that systemd has to.
HANGING = """
import sys, threading
from pathlib import Path
from functory.cli.main import main
from functory.engine.service import Service
from functory.roles import process
from functory.workers.execution import executor
{imports}

Service.stall_seconds = executor.STALL_SECONDS = 2.0
process.WATCH_SECONDS = 1000.0
as_usual = {call}

def hang(self, *given):
    if Path("hang").exists():
        threading.Event().wait()
    return as_usual(self, *given)

{call} = hang
sys.exit(main(["{role}"]))
"""
ROUTER = ("router", "from functory.triggers.routing.router import Router", "Router.run_once")
WORKER = ("worker", "from functory.workers.execution.poller import Poller", "Poller._poll_once")
LEASES = ("worker", "from functory.workers.execution.held_claims import HeldClaims", "HeldClaims._renew")


class Systemd:
    """The socket of systemd, with what came. ``environment`` is what systemd gives to a unit."""

    def __init__(self, address: str, watchdog_seconds: float = 1.0) -> None:
        self.messages: list[tuple[float, list[str]]] = []
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._socket.bind("\0" + address[1:] if address.startswith("@") else address)
        self._thread = threading.Thread(target=self._receive, daemon=True)
        self._thread.start()
        self.environment = {"NOTIFY_SOCKET": address, "WATCHDOG_USEC": str(int(watchdog_seconds * 1e6))}

    def got(self, line: str) -> list[float]:
        """When messages with this line came."""
        return [at for at, lines in self.messages if any(one.startswith(line) for one in lines)]

    def close(self) -> None:
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()

    def _receive(self) -> None:
        with contextlib.suppress(OSError):
            while data := self._socket.recv(4096):
                self.messages.append((time.monotonic(), data.decode().splitlines()))


@pytest.fixture(params=["file", "abstract"])
def address(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return str(tmp_path / "notify") if request.param == "file" else f"@functory-{secrets.token_hex(8)}"


@pytest.fixture
def systemd(tmp_path: Path) -> Iterator[Systemd]:
    found = Systemd(str(tmp_path / "notify"))
    yield found
    found.close()


@pytest.fixture
def rows(tmp_path: Path, migrated_file: Path) -> dict[str, Any]:
    """The settings of a deployment with a migrated file."""
    file = Path(shutil.copy(migrated_file, tmp_path / "functory.db"))
    return {"database_url": f"sqlite:///{file}", "broker_url": "none://", "grace_seconds": 1}


def status(url: str) -> int:
    try:
        with urllib.request.urlopen(url, timeout=patient(10)) as answer:
            return answer.status
    except urllib.error.HTTPError as error:
        return error.code


def test_each_role_reports_ready_alive_and_stopping(
    tmp_path: Path, rows: dict[str, Any], address: str
) -> None:
    systemd = Systemd(address)
    try:
        with Roles(tmp_path, **rows, port=0, api="off") as roles:
            for name in ("router", "scheduler", "watcher", "gateway", "worker", "server"):
                systemd.messages.clear()
                role = roles.spawn(
                    [str(PROGRAM), name],
                    name=name,
                    wait=True,
                    environment=systemd.environment,
                )
                wait_for(lambda: len(systemd.got("WATCHDOG=1")) > 1, f"pings of the {name}")
                assert systemd.messages[0][1] == ["READY=1", "STATUS=ready"], name
                assert not systemd.got("STOPPING=1")
                assert role.stop() == 0
                wait_for(lambda: systemd.got("STOPPING=1"), f"the end of the {name}")
                assert len(systemd.got("READY=1")) == 1
    finally:
        systemd.close()


@pytest.mark.parametrize("pool", ["threads", "prefork"])
def test_a_celery_worker_reports_the_same(
    tmp_path: Path, rows: dict[str, Any], redis_url: str, systemd: Systemd, pool: str
) -> None:
    rows["broker_url"] = redis_url
    with Roles(tmp_path, **rows) as roles:
        worker = roles.spawn(
            [str(PROGRAM), "worker", "--pool", pool, "--slots", "1"],
            name="worker",
            wait=True,
            environment=systemd.environment,
        )
        wait_for(lambda: len(systemd.got("WATCHDOG=1")) > 1)
        assert worker.stop() == 0
        wait_for(lambda: systemd.got("STOPPING=1"))
        assert len(systemd.got("READY=1")) == 1


def test_a_role_that_waits_for_its_database_is_alive_and_not_ready(
    tmp_path: Path, postgres_url: str, systemd: Systemd
) -> None:
    with Roles(tmp_path, database_url=postgres_url) as migrated:
        migrated.migrate()
    port = free_port()
    with (
        Door(postgres_url) as database,
        Roles(tmp_path, database_url=database.url, broker_url="none://", metrics_port=port) as roles,
    ):
        router = roles.spawn(
            [str(PROGRAM), "router"],
            name="router",
            environment=systemd.environment,
        )
        router.wait_for("database unavailable")
        wait_for(lambda: systemd.got("STATUS=waits for the database: "))
        url = f"http://127.0.0.1:{port}"
        assert (status(f"{url}/healthz"), status(f"{url}/readyz")) == (200, 503)
        assert not systemd.got("READY=1")
        database.open()
        router.wait_ready()
        wait_for(lambda: systemd.got("READY=1"))
        assert (status(f"{url}/healthz"), status(f"{url}/readyz")) == (200, 200)
        assert status(f"{url}/metrics") == 200
        assert router.stop() == 0


@pytest.mark.parametrize(("role", "imports", "call"), [ROUTER, WORKER, LEASES], ids=lambda one: one[-12:])
def test_a_role_that_hangs_pings_no_more(
    tmp_path: Path, rows: dict[str, Any], systemd: Systemd, role: str, imports: str, call: str
) -> None:
    script = tmp_path / "hanging.py"
    script.write_text(HANGING.format(role=role, imports=imports, call=call))
    port = free_port()
    with Roles(tmp_path, **rows, metrics_port=port, poll_seconds=0.05, heartbeat_seconds=0.5) as roles:
        process = roles.spawn(
            [sys.executable, str(script)], name=role, wait=True, environment=systemd.environment
        )
        wait_for(lambda: len(systemd.got("WATCHDOG=1")) > 5)
        assert status(f"http://127.0.0.1:{port}/healthz") == 200
        (tmp_path / "hang").touch()
        wait_for(lambda: status(f"http://127.0.0.1:{port}/healthz") == 503)
        assert status(f"http://127.0.0.1:{port}/readyz") == 503
        wait_for(lambda: time.monotonic() - systemd.got("WATCHDOG=1")[-1] > 2)
        # systemd ends such a process by its own signal.
        assert process.process.poll() is None
        process.signal(signal.SIGABRT)
        assert process.wait() == -signal.SIGABRT


def test_a_server_whose_event_loop_hangs_makes_no_progress(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "STALL_SECONDS", 0.5)
    app, free = FastAPI(), threading.Event()

    @app.get("/hang")
    async def hang() -> None:
        free.wait(patient(60))

    http = server.Server(app, "127.0.0.1", 0)
    http.start()
    asking = threading.Thread(target=lambda: status(f"{http.url}/hang"), daemon=True)
    try:
        wait_for(lambda: http.progressing)
        asking.start()
        wait_for(lambda: not http.progressing)
        free.set()
        wait_for(lambda: http.progressing)
    finally:
        free.set()
        asking.join(patient(30))
        http.stop(5)


def test_without_a_socket_a_role_works_as_usual(tmp_path: Path, rows: dict[str, Any]) -> None:
    with Roles(tmp_path, **rows) as roles:
        for address in ("", str(tmp_path / "gone"), "@", "vsock:2:1"):
            role = roles.spawn(
                [str(PROGRAM), "scheduler"],
                name="scheduler",
                wait=True,
                environment={"NOTIFY_SOCKET": address, "WATCHDOG_USEC": "200000"},
            )
            if address:
                role.wait_for("systemd not notified")
            assert role.stop() == 0
            assert role.output.count("systemd not notified") == bool(address)


def test_a_watchdog_that_is_meant_for_another_process_gets_no_pings(
    monkeypatch: pytest.MonkeyPatch, systemd: Systemd
) -> None:
    for name, value in (systemd.environment | {"WATCHDOG_PID": str(os.getpid() + 1)}).items():
        monkeypatch.setenv(name, value)
    systemd_notify.ready()
    wait_for(lambda: systemd.got("READY=1"))
    assert "functory-watchdog" not in {thread.name for thread in threading.enumerate()}

"""``functory doctor``: what each check finds, and that the command which it advises repairs it."""

from __future__ import annotations

import importlib.util
import os
import re
import shlex
import shutil
import socket
import subprocess
import threading
from collections import namedtuple
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, HTTPServer
from importlib.metadata import metadata
from pathlib import Path
from typing import Any

import msgspec
import pytest

from functory.cli.checks import machine, stored_data
from functory.cli.checks.finding import Finding
from functory.cli.commands import doctor
from functory.client.functory import Functory
from functory.dashboard import serving
from functory.engine import extras
from functory.engine.database import clock, migrations, schema
from functory.engine.database.connection import Database
from functory.engine.settings import Settings
from functory.workers.sandbox.checks import tiers
from tests.support.cli_shell import Shell
from tests.support.patience import patient
from tests.support.trace_receiver import receiving
from tests.support.waiting import wait_for

pytest_plugins = ["tests.support.world"]

PASSWORD = "a long pass phrase of ada\n"


@pytest.fixture
def shell(tmp_path: Path, migrated_file: Path) -> Shell:
    """A command line with a database in a file."""
    return Shell(tmp_path, database=migrated_file)


@pytest.fixture
def anywhere(tmp_path: Path, database_url: str) -> Shell:
    """A command line with a database of each kind, in a new home."""
    found = Shell(tmp_path)
    (tmp_path / "home").mkdir(mode=0o700)
    found.environment["FUNCTORY_DATABASE_URL"] = database_url
    return found


def findings(shell: Shell, *checks: str) -> list[dict[str, Any]]:
    return shell.json("doctor", *checks, status=None)


def verdicts(shell: Shell, *checks: str) -> list[str]:
    return [found["verdict"] for found in findings(shell, *checks)]


def typed(advice: str) -> list[str]:
    """The first command of an advice, without ``functory``."""
    command = advice.split(";")[0]
    assert command.startswith("functory "), advice
    return shlex.split(command)[1:]


@contextmanager
def running(shell: Shell, *arguments: str) -> Iterator[None]:
    """A command that runs until the end of the block."""
    process = shell.start(*arguments)
    try:
        yield
    finally:
        process.terminate()
        process.communicate(timeout=patient(60))


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


def test_a_new_installation_has_no_fault(anywhere: Shell) -> None:
    quick = [name for name in doctor.CHECKS if name not in ("sandbox", "dashboard")]
    found = findings(anywhere, *quick)
    # The server of the tests does not wait for its disk.
    durable = [one for one in found if "A crash of the server's machine".lower() not in one["found"].lower()]
    assert [one for one in durable if one["verdict"] != "ok"] == []
    assert {one["check"] for one in found} >= {
        "versions", "extras", "files", "database", "schema", "clock", "queues", "invariants", "workers", "broker",
        "secrets", "disk", "metrics", "traces", "access",
    }  # fmt: skip
    (versions,) = findings(anywhere, "versions")
    assert re.search(r"Functory \d.*(SQLite|PostgreSQL) \d.*Celery \d", versions["found"])


def test_a_check_that_there_is_not_is_refused_with_those_that_there_are(shell: Shell) -> None:
    said = shell.run("doctor", "disks", status=2).stderr
    assert "no check 'disks'" in said and "sandbox" in said and "queues" in said
    assert "try: did you mean disk?" in said
    assert "did you mean" not in shell.run("doctor", "xyzzy", status=2).stderr


def test_every_name_that_is_printed_names_a_check(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    gaps = [tiers.Gap(name, "it lacks", "add it") for name in ("proc", "landlock", "cgroup")]
    survey = tiers.survey()
    lacking = msgspec.structs.replace(survey, gaps=[tiers.Gap("A", "it lacks", "add it")], notes=gaps)
    monkeypatch.setattr(tiers, "survey", lambda: lacking)
    printed = {one["check"] for one in findings(shell)}
    assert printed >= {"python", "settings", "schema", "no tier A", "landlock"}
    monkeypatch.setitem(doctor.CHECKS, "sandbox", lambda _: [Finding("sandbox", "ok", "again")])
    for name in sorted(printed):
        assert findings(shell, name), name
    assert [one["check"] for one in findings(shell, "python", "settings")] == ["python", "settings"]
    assert [one["check"] for one in findings(shell, "schema", "database")] == ["database", "schema"]


def test_python_is_checked_with_settings_that_cannot_be_read(shell: Shell) -> None:
    shell.environment["FUNCTORY_ROOT_BUDGET"] = "many"
    assert [one["check"] for one in findings(shell, "python")] == ["python", "settings"]
    assert [one["check"] for one in findings(shell, "disk")] == ["settings"]


def test_a_database_that_does_not_answer_is_one_fault(tmp_path: Path) -> None:
    shell = Shell(tmp_path)
    shell.environment["FUNCTORY_DATABASE_URL"] = "postgresql://ada@127.0.0.1:1/shop"
    found = findings(shell, "versions", "database", "clock", "queues", "invariants", "sources", "webhooks")
    assert [one["check"] for one in found if one["verdict"] == "fail"] == ["database"]


def test_limits_of_the_process_are_named(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    few = {machine.resource.RLIMIT_NOFILE: (64, 4096), machine.resource.RLIMIT_AS: (1 << 30, 1 << 30)}
    monkeypatch.setattr(machine.resource, "getrlimit", few.__getitem__)
    found = findings(shell, "limits")
    assert [one["verdict"] for one in found] == ["warn", "warn"]
    assert "ulimit -n 4096" in found[0]["advice"] and "ulimit -v unlimited" in found[1]["advice"]


def test_a_missing_schema_is_made_by_the_advised_command(tmp_path: Path, postgres_url: str) -> None:
    for number, url in enumerate((f"sqlite:///{tmp_path / 'old.db'}", postgres_url)):
        shell = Shell(tmp_path / str(number))
        shell.folder.mkdir()
        shell.environment["FUNCTORY_DATABASE_URL"] = url
        database = Database(url)
        migrations.upgrade(database)
        migrations.downgrade(database, "base")
        database.close()
        fault = findings(shell, "database")[-1]
        assert (fault["check"], fault["verdict"]) == ("schema", "fail")
        shell.run(*typed(fault["advice"]))
        assert [one["verdict"] for one in findings(shell, "database") if "fsync" not in one["found"]][
            -1
        ] == "ok"


def test_work_that_no_role_takes_is_taken_once_the_advised_command_runs(
    anywhere: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stored_data, "LONG_WAIT_SECONDS", 0.01)
    port = free_port()
    anywhere.environment |= {"FUNCTORY_METRICS_PORT": str(port), "FUNCTORY_GRACE_SECONDS": "2"}
    (anywhere.folder / "work.py").write_text("def work():\n    return 1\n")
    anywhere.run("function", "add", "work.py")
    anywhere.run("run", "work", "--no-wait")
    anywhere.run("event", "emit", "order.created")
    waits = wait_for(lambda: len(found := findings(anywhere, "queues")) == 2 and found)
    assert {one["verdict"] for one in waits} == {"warn"}
    assert [re.split(r" for ", one["found"])[0] for one in waits] == [
        "the oldest execution is due",
        "the oldest event is not routed",
    ]
    (away,) = findings(anywhere, "metrics")
    assert away["verdict"] == "warn" and f":{port}/metrics" in away["found"]
    assert away["advice"].endswith(f"FUNCTORY_METRICS_PORT={port} functory dev")
    with running(anywhere, *typed(waits[0]["advice"]), "--port", "0"):
        wait_for(lambda: verdicts(anywhere, "queues", "metrics", "workers") == ["ok", "ok", "ok"])
        assert "1 alive" in findings(anywhere, "workers")[0]["found"]


def test_without_a_living_worker_the_advised_command_starts_one(anywhere: Shell) -> None:
    if anywhere.environment["FUNCTORY_DATABASE_URL"].startswith("sqlite"):
        return
    anywhere.environment["FUNCTORY_BROKER_URL"] = "none://"
    (fault,) = findings(anywhere, "workers")
    assert (fault["verdict"], fault["found"]) == ("warn", "none alive: nothing will run")
    with running(anywhere, *typed(fault["advice"])):
        wait_for(lambda: verdicts(anywhere, "workers") == ["ok"])


def test_the_kill_switch_is_named_and_released_by_the_advised_command(anywhere: Shell) -> None:
    anywhere.run("trigger", "halt")
    (fault,) = findings(anywhere, "queues")
    assert fault["verdict"] == "warn" and "kill switch" in fault["found"]
    anywhere.run(*typed(fault["advice"]))
    assert verdicts(anywhere, "queues") == ["ok"]


def test_a_violated_invariant_fails_until_the_advised_command_finds_it_mended(
    anywhere: Shell, database_url: str
) -> None:
    database = Database(database_url)
    with database.write() as tx:
        row = {"code": "I1", "count": 2, "examples": [], "time": tx.now}
        tx.upsert(schema.verification, [row], lambda new: {"count": new["count"]})
    database.close()
    (fault,) = findings(anywhere, "invariants")
    assert (fault["verdict"], fault["found"]) == ("fail", "do not hold: I1 2 times")
    anywhere.run("doctor", "invariants", status=1)
    anywhere.run(*typed(fault["advice"]))
    (found,) = findings(anywhere, "invariants")
    assert found["verdict"] == "ok" and re.fullmatch(r"all hold, checked .+ ago", found["found"])


def test_a_clock_that_differs_from_the_servers_is_named(
    anywhere: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    on_server = not anywhere.environment["FUNCTORY_DATABASE_URL"].startswith("sqlite")
    for seconds, words in ((12, "ahead of"), (-12, "behind")):

        class Moved(datetime):
            @classmethod
            def now(cls, tz: Any = None, by: int = seconds) -> Any:
                return datetime.now(UTC) + timedelta(seconds=by)

        monkeypatch.setattr(stored_data, "datetime", Moved)
        (found,) = findings(anywhere, "clock")
        if on_server:
            assert found["verdict"] == "warn" and f"12 s {words}" in found["found"]
            assert "timedatectl set-ntp true" in found["advice"]
        else:
            assert found["verdict"] == "ok"


def test_a_clock_that_was_never_set_is_a_fault(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clock.SystemClock, "now", lambda _: datetime(1970, 1, 1, 0, 5, tzinfo=UTC))
    (found,) = findings(shell, "clock")
    assert (found["verdict"], found["advice"][:11]) == ("fail", "timedatectl")
    assert "1970-01-01 00:05 UTC" in found["found"]


def test_files_of_others_are_made_private_by_the_advised_commands(shell: Shell) -> None:
    (shell.folder / "home").chmod(0o755)
    (shell.folder / "home" / "functory.db").chmod(0o644)
    faults = findings(shell, "files")
    assert [one["verdict"] for one in faults] == ["warn", "warn"]
    for one in faults:
        subprocess.run(one["advice"], shell=True, check=True)
    assert verdicts(shell, "files") == ["ok"]


def test_a_home_that_this_user_cannot_write_is_a_fault(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    (shell.folder / "home").chmod(0o700)
    (shell.folder / "home" / "functory.db").chmod(0o600)
    allowed = os.access
    monkeypatch.setattr(
        os, "access", lambda place, mode: Path(place).name != "functory.db" and allowed(place, mode)
    )
    (fault,) = findings(shell, "files")
    place = shell.folder / "home" / "functory.db"
    assert fault["verdict"] == "fail" and f"cannot write {place}" in fault["found"]
    assert fault["advice"].startswith("sudo chown -R ") and str(place) in fault["advice"]


@pytest.mark.parametrize(("free", "verdict"), [(5_000_000_000, "ok"), (500_000_000, "warn"), (1000, "fail")])
def test_a_disk_that_fills_is_named(
    shell: Shell, monkeypatch: pytest.MonkeyPatch, free: int, verdict: str
) -> None:
    usage = namedtuple("usage", "total used free")
    monkeypatch.setattr(shutil, "disk_usage", lambda place: usage(10**12, 0, free))
    (found,) = findings(shell, "disk")
    assert found["verdict"] == verdict
    if verdict != "ok":
        assert "FUNCTORY_HOME" in found["advice"]


@pytest.mark.parametrize(
    ("extra", "module", "variable", "value"),
    [
        ("otel", "opentelemetry.sdk", "FUNCTORY_TRACES", "on"),
        ("redis", "redis", "FUNCTORY_BROKER_URL", "redis://127.0.0.1:1/0"),
        ("oidc", "authlib", "FUNCTORY_OIDC_ISSUER", "https://id.example.com"),
        ("postgres", "psycopg", "FUNCTORY_DATABASE_URL", "postgresql://ada@127.0.0.1:1/shop"),
    ],
)
def test_an_extra_that_the_settings_need_is_named_with_its_command(
    shell: Shell, monkeypatch: pytest.MonkeyPatch, extra: str, module: str, variable: str, value: str
) -> None:
    find = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util,
        "find_spec",
        lambda name, package=None: None if name == module else find(name, package),
    )
    # Nothing needs it yet.
    (found,) = findings(shell, "extras")
    assert found["verdict"] == "ok" and extra in found["found"].partition("not installed: ")[2]
    shell.environment[variable] = value
    found, fault = findings(shell, "extras")
    assert found["verdict"] == "ok"
    assert fault["verdict"] == "fail" and f"no module {module}" in fault["found"]
    assert fault["advice"] == extras.install_command(extra)


def test_every_extra_that_can_be_installed_is_checked() -> None:
    assert set(machine.EXTRAS) == set(metadata("functory").get_all("Provides-Extra") or ())


def test_another_program_on_the_metrics_port_is_no_role(shell: Shell) -> None:
    class Other(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.end_headers()
            self.wfile.write(b"hello\n")

        def log_message(self, *args: Any) -> None:
            pass

    with HTTPServer(("127.0.0.1", 0), Other) as other:
        threading.Thread(target=other.serve_forever, daemon=True).start()
        shell.environment["FUNCTORY_METRICS_PORT"] = str(other.server_port)
        (fault,) = findings(shell, "metrics")
        other.shutdown()
    assert fault["verdict"] == "warn" and "another program" in fault["found"]
    shell.environment["FUNCTORY_METRICS_PORT"] = "0"
    assert verdicts(shell, "metrics") == ["ok"]


def test_a_receiver_of_traces_that_takes_none_is_named_with_its_address(shell: Shell) -> None:
    (off,) = findings(shell, "traces")
    assert off["verdict"] == "ok" and "off" in off["found"]
    with receiving() as receiver:
        shell.environment |= {"FUNCTORY_TRACES": "on", "OTEL_EXPORTER_OTLP_ENDPOINT": receiver.endpoint}
        (works,) = findings(shell, "traces")
        assert (works["verdict"], receiver.spans) == ("ok", [])
        assert receiver.requests == 1
        receiver.status = 401
        (refused,) = findings(shell, "traces")
    (away,) = findings(shell, "traces")
    for fault in (refused, away):
        assert fault["verdict"] == "warn" and f"{receiver.endpoint}/v1/traces" in fault["found"]
        assert "OTEL_EXPORTER_OTLP_ENDPOINT" in fault["advice"]


def test_pages_that_are_not_built_are_built_by_the_advised_command(
    shell: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(serving, "is_built", lambda: False)
    (fault,) = findings(shell, "dashboard")
    assert fault["verdict"] == "warn" and "not built" in fault["found"]
    # What it would run: the build takes a minute.
    planned = subprocess.run(
        [*shlex.split(fault["advice"]), "--dry-run"], capture_output=True, text=True, check=True
    )
    assert "dashboard/build.sh" in planned.stdout
    shell.environment["FUNCTORY_API"] = "off"
    assert verdicts(shell, "dashboard") == ["ok"]
    del shell.environment["FUNCTORY_API"]
    monkeypatch.setattr(serving, "is_built", lambda: True)
    assert verdicts(shell, "dashboard") == ["ok"]


def test_a_server_for_others_needs_an_admin_whom_the_advised_command_makes(anywhere: Shell) -> None:
    anywhere.environment["FUNCTORY_HOST"] = "0.0.0.0"
    (fault,) = findings(anywhere, "access")
    assert fault["verdict"] == "fail" and "no admin" in fault["found"]
    command = ["ada" if word == "NAME" else word for word in typed(fault["advice"])]
    anywhere.run(*command, "--password-stdin", stdin=PASSWORD)
    assert verdicts(anywhere, "access") == ["ok"]
    anywhere.environment["FUNCTORY_API"] = "off"
    assert verdicts(anywhere, "access") == ["ok"]


def test_a_server_for_others_without_any_database_needs_an_admin_too(tmp_path: Path) -> None:
    shell = Shell(tmp_path)
    shell.environment["FUNCTORY_HOST"] = "::"
    assert verdicts(shell, "access") == ["fail"]
    shell.environment["FUNCTORY_HOST"] = "localhost"
    assert verdicts(shell, "access") == ["ok"]
    assert not (tmp_path / "home").exists()


def test_a_missing_key_and_a_secret_of_a_webhook_are_set_by_the_advised_commands(shell: Shell) -> None:
    with Functory(Settings(home=shell.folder / "home")) as engine:
        engine.sources.save("webhook", "hook", {"auth": {"type": "token", "secret": ["HOOK"]}})
    (fault,) = findings(shell, "webhooks")
    assert fault["verdict"] == "warn" and "HOOK" in fault["found"]
    shell.run(*typed(fault["advice"]), stdin="a secret value\n")
    assert verdicts(shell, "webhooks", "secrets") == ["ok", "ok"]

"""Starts role processes for tests as a user starts them, and ends all of them.

    with Roles(tmp_path, database_url=postgres_url, broker_url=rabbitmq_url) as roles:
        roles.migrate()
        roles.start("router")
        worker = roles.start("worker", "--slots", "2")
        with roles.client() as functory:
            functory.call("parse", "1 2")
        assert worker.stop() == 0

Each process is the console script ``functory`` with the settings in its environment and a session of its
own; a start is a quick one (``tests/support/console_script.py``) unless ``by_exec`` asks for the real one. ``start``
returns when the role has printed its ready line; leaving the block kills whatever is left. Limits are longer on a busy
machine (``tests/support/patience.py``).
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import shlex
import signal
import subprocess
import threading
import time
import uuid
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

import psutil

from functory.client.functory import Functory
from functory.engine.settings import Settings, load_settings
from tests.support.console_script import PROGRAM, ConsoleScript
from tests.support.patience import patient

READY_SECONDS = 30.0
STOP_SECONDS = 30.0

SCRIPTS = PROGRAM.parent
_READY = re.compile(r"^functory (?P<role>\w+) ready\b(?P<fields>.*)|^\s*Ready in ")


class Role:
    """One process of a role. ``lines`` are its lines so far, of stdout and stderr together."""

    def __init__(
        self,
        name: str,
        command: Sequence[str],
        environment: Mapping[str, str],
        folder: Path,
        *,
        by_exec: bool = False,
    ) -> None:
        self.name = name
        self.lines: list[str] = []
        self.ready: dict[str, str] = {}
        self._seen = threading.Condition()
        self._ended = False
        self.process = (subprocess.Popen if by_exec else ConsoleScript)(
            list(command),
            cwd=folder,
            env=dict(environment),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            start_new_session=True,
        )
        self._reader = threading.Thread(target=self._read, name=f"output of {name}", daemon=True)
        self._reader.start()

    @property
    def pid(self) -> int:
        return self.process.pid

    @property
    def output(self) -> str:
        """The output so far, as one text."""
        return "\n".join(self.lines)

    @property
    def url(self) -> str:
        """The URL at which the role serves HTTP (server, dev), from its ready line."""
        return self.ready["url"]

    @property
    def metrics(self) -> str:
        """The address of its /metrics, from its ready line."""
        return self.ready["metrics"]

    def wait_ready(self, timeout: float = READY_SECONDS) -> Role:
        """Wait for the ready line. Fails with the output when the process ends first."""
        self._wait(lambda: any(_ready(line) for line in self.lines), timeout, "its ready line")
        self.ready = next(_fields(line, self.output) for line in self.lines if _ready(line))
        return self

    def wait_for(self, pattern: str, timeout: float = READY_SECONDS) -> str:
        """Wait for a line that matches the regular expression ``pattern``, and return it."""
        self._wait(
            lambda: any(re.search(pattern, line) for line in self.lines), timeout, f"a line with {pattern!r}"
        )
        return next(line for line in self.lines if re.search(pattern, line))

    def signal(self, number: int) -> None:
        """Send a signal to the role's main process."""
        self.process.send_signal(number)

    def wait(self, timeout: float = STOP_SECONDS) -> int:
        """Wait for the end. Returns the exit code; fails with the output when the process does not end."""
        limit = patient(timeout)
        try:
            code = self.process.wait(limit)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"{self.name} did not end within {limit:g} s:\n{self.output}") from None
        self._reader.join(timeout=patient(5))
        return code

    def stop(self, timeout: float = STOP_SECONDS) -> int:
        """End it softly (SIGTERM); returns the exit code."""
        if self.process.poll() is None:
            self.signal(signal.SIGTERM)
        return self.wait(timeout)

    def kill(self) -> None:
        """Kill the main process as the kernel would when memory is short: no other process is notified."""
        if self.process.poll() is None:
            self.process.kill()
        self.wait()

    def destroy(self) -> None:
        """Kill the process and everything under it."""
        with contextlib.suppress(psutil.NoSuchProcess):
            for child in psutil.Process(self.pid).children(recursive=True):
                with contextlib.suppress(psutil.NoSuchProcess):
                    child.kill()
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.pid, signal.SIGKILL)
        self.process.wait(patient(10))
        self._reader.join(timeout=patient(5))
        if self.process.stdout is not None and not self._reader.is_alive():
            self.process.stdout.close()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            with self._seen:
                self.lines.append(line.rstrip("\n"))
                self._seen.notify_all()
        with self._seen:
            self._ended = True
            self._seen.notify_all()

    def _wait(self, seen: Any, timeout: float, what: str) -> None:
        limit = patient(timeout)
        deadline = time.monotonic() + limit
        with self._seen:
            while not seen():
                left = deadline - time.monotonic()
                if self._ended:
                    raise AssertionError(
                        f"{self.name} ended ({self.process.poll()}) without {what}:\n{self.output}"
                    )
                if left <= 0:
                    raise AssertionError(f"{self.name} did not print {what} in {limit:g} s:\n{self.output}")
                self._seen.wait(left)


class Roles:
    """The role processes of one deployment, and its settings.

    ``settings`` are fields of ``functory.engine.settings.Settings``. Without settings the deployment is embedded,
    with its SQLite file under ``folder``. ``by_exec`` starts every process by the console script itself, for what
    measures them.
    """

    def __init__(self, folder: Path, *, by_exec: bool = False, **settings: Any) -> None:
        self.folder = folder
        self._by_exec = by_exec
        self._settings: dict[str, Any] = {
            "home": folder / ".functory",
            "namespace": f"t{uuid.uuid4().hex[:12]}",
            "log_level": "info",
        } | settings
        self.started: list[Role] = []

    def __enter__(self) -> Roles:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for role in self.started:
            role.destroy()
        if error is not None:
            for role in self.started:
                error.add_note(f"---- output of {role.name} ({role.pid}):\n{role.output}")

    @property
    def settings(self) -> Settings:
        """The settings of the processes."""
        return load_settings(**self._settings)

    @property
    def environment(self) -> dict[str, str]:
        """The environment of the processes: this one's without its ``FUNCTORY_*`` variables, and with the
        settings."""
        environment = {
            name: value for name, value in os.environ.items() if not name.startswith(("FUNCTORY_", "PYTEST_"))
        }
        environment |= {f"FUNCTORY_{name.upper()}": _text(value) for name, value in self._settings.items()}
        # The checkout's packages, for scripts in other folders. Output is not buffered.
        return environment | {"PYTHONUNBUFFERED": "1", "NO_COLOR": "1"}

    def client(self) -> Functory:
        """A client of the deployment in this process; for an embedded deployment, a second engine."""
        return Functory(self.settings)

    def migrate(self) -> None:
        """Bring the deployment's database to the current schema."""
        from functory.engine.database import migrations
        from functory.engine.database.connection import Database

        database = Database(self.settings.database)
        try:
            migrations.upgrade(database)
        finally:
            database.close()

    def start(
        self, role: str, *arguments: str, wait: bool = True, by_exec: bool = False, **settings: Any
    ) -> Role:
        """Start ``functory ROLE ARGUMENTS``; further ``settings`` are for this process only.

        ``by_exec`` starts the console script itself. ``test_every_role_ends_softly_while_the_broker_is_away`` does it
        for each role, ``test_dev_runs_what_another_process_wrote`` for ``functory dev``.
        """
        return self.spawn([str(PROGRAM), role, *arguments], name=role, wait=wait, by_exec=by_exec, **settings)

    def spawn(
        self,
        command: Sequence[str],
        *,
        name: str = "",
        wait: bool = False,
        by_exec: bool = False,
        environment: Mapping[str, str] = {},
        **settings: Any,
    ) -> Role:
        """Start any command in the deployment's environment and its own."""
        own = {f"FUNCTORY_{key.upper()}": _text(value) for key, value in settings.items()}
        role = Role(
            name or shlex.join(command),
            command,
            {**self.environment, **own, **environment},
            self.folder,
            by_exec=by_exec or self._by_exec,
        )
        self.started.append(role)
        return role.wait_ready() if wait else role


def _text(value: Any) -> str:
    return {True: "true", False: "false"}.get(value, str(value)) if isinstance(value, bool) else str(value)


def _ready(line: str) -> bool:
    return bool(_READY.match(line)) or (
        # A worker also logs an event of this name.
        line.startswith("{") and _json(line).get("event") == "ready" and "role" in _json(line)
    )


def _json(line: str) -> dict[str, Any]:
    try:
        return json.loads(line)
    except ValueError:
        return {}


def _fields(line: str, output: str) -> dict[str, str]:
    """The ``name=value`` pairs of a ready line, or the same values from the aligned lines of ``functory dev``."""
    if line.startswith("{"):
        return {name: str(value) for name, value in _json(line).items()}
    match = _READY.match(line)
    if match is not None and match["fields"] is not None:
        return dict(re.findall(r"(\w+)=(\S+)", match["fields"]))
    labels = {"API": "url", "Metrics": "metrics", "Data": "data"}
    return {
        labels[label]: value
        for label, value in re.findall(r"^\s*(API|Metrics|Data)\s+(\S+)", output, re.MULTILINE)
    }

"""The two compared systems with the same tasks: plain Celery with a prefork worker, and a Functory deployment.

Each task writes a line at its start and one at its end into a file. Both sides count from these lines.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import psutil
from celery import Celery

from functory.client.functory import Functory
from tests.support.patience import patient
from tests.support.processes import Role, Roles

TASKS = 12
SECONDS = 2.0

# A task that runs longer than the visibility timeout begins again for ever. This number of starts shows it.
LONGEST = 180.0
SLOTS = 2

SOURCE = """
def work(number, seconds, file):
    import os, time

    def note(line):
        handle = os.open(file, os.O_WRONLY | os.O_APPEND)
        os.write(handle, f"{line}\\n".encode())
        os.close(handle)

    note(f"start {number} {os.getpid()}")
    time.sleep(seconds)
    note(f"end {number}")
"""


class Side(ABC):
    """One compared system: tasks 0 to ``TASKS`` - 1, a worker to kill, and the file with the tasks' lines."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.file = folder / "effects.txt"
        self.file.touch()
        self.file.chmod(0o666)

    @abstractmethod
    def send(self) -> None:
        """Send all tasks."""

    @abstractmethod
    def worker_processes(self) -> tuple[psutil.Process, list[psutil.Process]]:
        """The worker's main process, and the processes that run tasks now."""

    @abstractmethod
    def new_worker(self) -> None:
        """Start the worker again, as a supervisor does after its end."""

    def begun(self) -> Counter[str]:
        """The number of starts of each task."""
        return self._lines("start")

    def ended(self) -> Counter[str]:
        """The number of ends of each task."""
        return self._lines("end")

    def wait(self, patience: float) -> float:
        """Wait until every task has ended, or nothing has happened for ``patience`` seconds, or tasks begin again and
        again. Returns the seconds that it took."""
        began = time.monotonic()
        seen, since = -1, began
        while len(self.ended()) < TASKS:
            lines = len(self.file.read_text().splitlines())
            now = time.monotonic()
            if lines != seen:
                seen, since = lines, now
            if now - since > patience or now - began > LONGEST:
                break
            time.sleep(0.1)
        return time.monotonic() - began

    def wait_for_begun(self, count: int) -> None:
        """Wait until this number of tasks has begun. Raises :class:`RuntimeError` after too long a wait."""
        _until(lambda: len(self.begun()) >= count, f"{count} tasks to begin")

    def _lines(self, word: str) -> Counter[str]:
        return Counter(
            line.split()[1] for line in self.file.read_text().splitlines() if line.startswith(f"{word} ")
        )


class PlainCelery(Side):
    """A Celery worker of two prefork children, as its documentation starts it."""

    def __init__(self, folder: Path, broker: str, options: Mapping[str, Any], seconds: float) -> None:
        super().__init__(folder)
        self._seconds = seconds
        self._broker = broker
        self._options = dict(options)
        self._environment = os.environ | {
            "PEER_BROKER": broker,
            "PEER_FILE": str(self.file),
            "PEER_OPTIONS": json.dumps(self._options),
            "C_FORCE_ROOT": "1",
        }
        self._worker: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> PlainCelery:
        self.new_worker()
        return self

    def __exit__(self, *_: object) -> None:
        assert self._worker is not None
        with contextlib.suppress(psutil.NoSuchProcess):
            for child in psutil.Process(self._worker.pid).children(recursive=True):
                with contextlib.suppress(psutil.NoSuchProcess):
                    child.kill()
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._worker.pid, signal.SIGKILL)
        self._worker.wait(patient(20))

    def send(self) -> None:
        app = Celery("peer", broker=self._broker, set_as_current=False)
        app.conf.update(task_default_queue="peer", broker_transport_options={"confirm_publish": True})
        if "broker_transport_options" in self._options:
            app.conf.broker_transport_options = self._options["broker_transport_options"]
        for number in range(TASKS):
            app.send_task("peer.work", args=[number, self._seconds])
        app.close()

    def worker_processes(self) -> tuple[psutil.Process, list[psutil.Process]]:
        assert self._worker is not None
        main = psutil.Process(self._worker.pid)
        busy = {int(line.split()[2]) for line in self.file.read_text().splitlines() if line[:5] == "start"}
        return main, [child for child in main.children() if child.pid in busy]

    def new_worker(self) -> None:
        if self._worker is not None and self._worker.poll() is None:
            return
        words = [
            "-A",
            "tests.chaos.peer.tasks",
            "worker",
            "--pool",
            "prefork",
            "-c",
            str(SLOTS),
            "-l",
            "ERROR",
        ]
        with (self.folder / "celery.log").open("ab") as log:
            self._worker = subprocess.Popen(
                [sys.executable, "-m", "celery", *words],
                env=self._environment,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )


class Ours(Side):
    """Router, scheduler and one worker of two slots; recovery within seconds."""

    def __init__(self, folder: Path, broker: str, database: str) -> None:
        super().__init__(folder)
        self._roles = Roles(
            folder,
            by_exec=True,
            database_url=database,
            broker_url=broker,
            lease_seconds=4,
            heartbeat_seconds=1,
            redispatch_seconds=6,
            log_level="warning",
        )
        self._worker: Role | None = None
        self._client: Functory | None = None

    def __enter__(self) -> Ours:
        self._roles.__enter__()
        self._roles.migrate()
        self._roles.start("router")
        self._roles.start("scheduler")
        self.new_worker()
        self._client = self._roles.client()
        self._client.functions.save(SOURCE, files={"write": [str(self.file)]})
        return self

    def __exit__(self, *given: Any) -> None:
        if self._client is not None:
            self._client.close()
        self._roles.__exit__(*given)

    def send(self) -> None:
        assert self._client is not None
        for number in range(TASKS):
            self._client.submit("work", number, SECONDS, str(self.file))

    def worker_processes(self) -> tuple[psutil.Process, list[psutil.Process]]:
        assert self._worker is not None
        main = psutil.Process(self._worker.pid)
        family = main.children(recursive=True)
        parents = {child.ppid() for child in family}
        # The children of zygotes run executions. A spare child does nothing yet, and is killed as well.
        return main, [child for child in family if child.pid not in parents and child.ppid() != main.pid]

    def new_worker(self) -> None:
        if self._worker is None or self._worker.process.poll() is not None:
            # The worker decides which declared grants take effect.
            self._worker = self._roles.start(
                "worker", "--slots", str(SLOTS), wait=self._worker is None, author_grants='["write"]'
            )


def _until(seen: Callable[[], bool], what: str, timeout: float = 90.0) -> None:
    deadline = time.monotonic() + timeout
    while not seen():
        if time.monotonic() > deadline:
            raise RuntimeError(f"waited {timeout:g} s for {what}")
        time.sleep(0.02)

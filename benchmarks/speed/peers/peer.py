"""What the other systems have in common: a worker, a client that is asked by lines, and marks of the starts."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import time
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.speed import cpu
from benchmarks.speed.deployments import Deployment
from benchmarks.speed.line_process import ROOT, LineProcess
from benchmarks.speed.loads import AFTERWARDS_SECONDS, Stream, quantiles
from benchmarks.speed.marks import Marks

READY_SECONDS = 60.0


@dataclass(frozen=True)
class Round:
    """One burst of a peer; ``cpu`` is in milliseconds by process."""

    count: int
    seconds: float
    cpu: dict[str, float]

    @property
    def rate(self) -> float:
        """Tasks a second."""
        return self.count / self.seconds


class Peer(ABC):
    """One other system. As a context manager it starts and ends its processes."""

    name: str
    # A slow system gets fewer tasks: this share of the events of a burst.
    share = 1.0
    # The module of its client, and the Python that runs it.
    client: str
    python = sys.executable
    has_stream = False

    def __init__(self, deployment: Deployment) -> None:
        self.options = deployment.options
        self._deployment = deployment
        self._folder = deployment.folder
        path = self._folder / f"{self.name}.marks"
        self._marks = Marks(path, max(self.options.events, 20_000))
        self._environment: dict[str, str] = {
            **os.environ,
            "PYTHONPATH": str(ROOT),
            "PEER_MARKS": str(path),
            "PEER_SLOTS": str(self.options.slots),
            "C_FORCE_ROOT": "1",
        }
        self._stack = contextlib.ExitStack()
        self._workers: list[subprocess.Popen[bytes]] = []

    @abstractmethod
    def environment(self, stack: contextlib.ExitStack) -> Mapping[str, str]:
        """Make what it needs on the servers; return the variables of its processes. Raises LookupError where the system
        is not installed."""

    @abstractmethod
    def command(self) -> Sequence[str]:
        """The command of a worker, after ``python -m``; nothing for a system without workers."""

    def is_ready(self) -> bool:
        """True when tasks may be sent; the system may have to make its tables first."""
        return True

    def stored(self) -> int | None:
        """The number of tasks whose end is stored so far; None when the system stores none."""
        return None

    def __enter__(self) -> Peer:
        with contextlib.ExitStack() as stack:
            self._environment |= self.environment(stack)
            self._client = stack.enter_context(
                LineProcess(self.client, self._folder, self._environment, self.python)
            )
            stack.callback(self._end_workers)
            for number in range(self.options.workers if self.command() else 0):
                log = stack.enter_context((self._folder / f"{self.name}.{number}.log").open("wb"))
                self._workers.append(
                    subprocess.Popen(
                        [sys.executable, "-m", *self.command()],
                        cwd=self._folder,
                        env=self._environment,
                        stdin=subprocess.DEVNULL,
                        stdout=log,
                        stderr=log,
                    )
                )
            deadline = time.monotonic() + READY_SECONDS
            while not self.is_ready():
                if time.monotonic() > deadline:
                    raise RuntimeError(f"{self.name} is not ready after {READY_SECONDS:g} s")
                time.sleep(0.1)
            self.burst(50)
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def burst(self, count: int | None = None) -> Round:
        """Send ``count`` tasks (its share of a burst) and wait for their ends."""
        count = count or int(self.options.events * self.share)
        self._marks.clear()
        stored, before = self.stored(), self._cpu()
        began = self._client.ask("send", count=count)
        ended = self._wait(count)
        if stored is not None:
            ended = self._wait_stored(stored + count)
        time.sleep(AFTERWARDS_SECONDS)
        spent = {name: value - before[name] for name, value in self._cpu().items()}
        return Round(count, ended - began, spent)

    def stream(self, rate: float, count: int) -> Stream:
        """Send tasks one by one; from before the send to the first line of the body."""
        self._marks.clear()
        sent = self._client.ask("stream", rate=rate, count=count)
        self._wait(count)
        return Stream(
            rate, *quantiles([self._marks.times[number] - time_ for number, time_ in enumerate(sent)])
        )

    def _wait(self, count: int) -> float:
        try:
            return self._marks.wait(count)
        except RuntimeError as error:
            for log in sorted(self._folder.glob(f"{self.name}.*.log")):
                error.add_note("\n".join(log.read_text(errors="replace").splitlines()[-30:]))
            raise

    def _wait_stored(self, count: int, patience: float = 60.0) -> float:
        deadline = time.monotonic() + patience
        while (self.stored() or 0) < count:
            if time.monotonic() > deadline:
                raise RuntimeError(f"{self.name} has not stored {count} ends after {patience:g} s")
            time.sleep(0.02)
        return time.time()

    def _cpu(self) -> dict[str, float]:
        found = {
            "client": cpu.tree_ms(self._client.pid),
            "worker": sum(cpu.tree_ms(one.pid) for one in self._workers),
        }
        servers: dict[str, Any] = {
            "postgresql": self._deployment.postgres,
            "broker": self._deployment.broker,
        }
        return found | {name: cpu.tree_ms(one.pid) for name, one in servers.items() if one is not None}

    def _end_workers(self) -> None:
        for one in self._workers:
            one.terminate()
        for one in self._workers:
            try:
                one.wait(10)
            except subprocess.TimeoutExpired:
                one.kill()
                one.wait()


def installed(module: str) -> None:
    """Raise LookupError when a package is not installed."""
    import importlib.util

    if importlib.util.find_spec(module) is None:
        raise LookupError(f"{module} is not installed (make bench installs it)")


def marks() -> Marks:
    """The marks of the peer that this process belongs to."""
    return Marks(Path(os.environ["PEER_MARKS"]))


def stream_of(send: Any, rate: float, count: int) -> list[float]:
    """Call ``send(number)`` ``rate`` times a second; return the time before each."""
    sent = []
    began = time.time()
    for number in range(count):
        time.sleep(max(0.0, began + number / rate - time.time()))
        sent.append(time.time())
        send(number)
    return sent

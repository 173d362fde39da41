"""How long after its ``print`` a line is seen: in the live stream, and on terminals that follow the log."""

from __future__ import annotations

import contextlib
import json
import os
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx

LINES = 100
WAIT_SECONDS = 120.0
# A line every 80 ms on average, at no fixed place between two stores of the worker.
SOURCE = """
import random
import time

def print_times() -> None:
    for number in range(1000):
        print(number, time.time(), flush=True)
        time.sleep(random.uniform(0.03, 0.13))
"""


@dataclass(frozen=True)
class Lateness:
    """Milliseconds from the print of a line until a reader has it."""

    name: str
    median: float
    p95: float
    largest: float


class _Reader:
    """Collects the lines that one reader shows, with the time at which each came."""

    def __init__(self, name: str, texts: Callable[[], Iterator[str]]) -> None:
        self.name = name
        # By the number of a line.
        self.late: dict[int, float] = {}
        self._texts = texts
        threading.Thread(target=self._read, name=name, daemon=True).start()

    def _read(self) -> None:
        for text in self._texts():
            number, printed_at = text.split()
            self.late[int(number)] = 1000 * (time.time() - float(printed_at))


def measure(client: httpx.Client, environment: Mapping[str, str]) -> list[Lateness]:
    """Follow one execution by the stream, by the command line beside the database, and by the one over the server.

    ``environment`` is that of the server; the client's token is used for all.
    """
    saved = client.put("/functions/print_times", json={"source": SOURCE})
    saved.raise_for_status()
    started = client.post("/executions", json={"function": "print_times", "input": {}})
    id_ = started.raise_for_status().json()["id"]
    token = client.headers["authorization"].removeprefix("Bearer ")
    server = {"FUNCTORY_URL": str(client.base_url).split("/api/v1")[0], "FUNCTORY_TOKEN": token}
    # The command does not run roles of its own: the server's worker has the execution.
    beside = {**environment, "FUNCTORY_BROKER_URL": "none://"}
    with contextlib.ExitStack() as stack:
        follow = ("execution", "logs", id_, "--follow", "--json")
        local = stack.enter_context(_command(follow, beside))
        remote = stack.enter_context(_command(follow, server))
        # It starts an execution of its own: the same numbers.
        run = stack.enter_context(_command(("run", "print_times"), beside))
        readers = [
            _Reader("stream", lambda: _streamed(client, id_)),
            _Reader("execution logs --follow", lambda: _shown(local)),
            _Reader("execution logs --follow, over the server", lambda: _shown(remote)),
            _Reader("run", lambda: _said(run)),
        ]
        try:
            numbers = _last_lines(readers)
        finally:
            open_ = client.get("/executions", params={"function": "print_times", "state": "running"})
            for row in open_.raise_for_status().json()["items"]:
                client.post(f"/executions/{row['id']}:cancel", json={}).raise_for_status()
        return [_lateness(reader, numbers) for reader in readers]


def _last_lines(readers: Sequence[_Reader]) -> list[int]:
    """Wait until all readers are there, and for the lines that are printed then. Returns their numbers."""
    end = time.monotonic() + WAIT_SECONDS
    first: int | None = None
    while True:
        if first is None and all(reader.late for reader in readers):
            first = 1 + max(max(reader.late) for reader in readers)
        if first is not None and all(max(reader.late) >= first + LINES for reader in readers):
            return [*range(first, first + LINES)]
        if time.monotonic() > end:
            found = {reader.name: len(reader.late) for reader in readers}
            raise RuntimeError(f"lines did not come: {found}")
        time.sleep(0.05)


def _lateness(reader: _Reader, numbers: Sequence[int]) -> Lateness:
    late = [reader.late[number] for number in numbers]
    return Lateness(reader.name, statistics.median(late), statistics.quantiles(late, n=20)[18], max(late))


def _streamed(client: httpx.Client, id_: str) -> Iterator[str]:
    with (
        contextlib.suppress(httpx.HTTPError),
        client.stream("GET", "/stream", params={"topics": f"logs:{id_}"}) as response,
    ):
        response.raise_for_status()
        event = ""
        for line in response.iter_lines():
            kind, _, value = line.partition(": ")
            if kind == "event":
                event = value
            elif kind == "data" and event == "log":
                yield from (row["text"] for row in json.loads(value)["lines"])


@contextlib.contextmanager
def _command(arguments: Sequence[str], environment: Mapping[str, str]) -> Iterator[subprocess.Popen[str]]:
    program = Path(sys.executable).with_name("functory")
    with subprocess.Popen(
        [program, *arguments],
        env=os.environ | dict(environment),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE if arguments[0] == "run" else None,
        text=True,
    ) as process:
        try:
            yield process
        finally:
            process.terminate()


def _shown(process: subprocess.Popen[str]) -> Iterator[str]:
    assert process.stdout is not None
    for line in process.stdout:
        row: dict[str, Any] = json.loads(line)
        yield row["text"]


def _said(process: subprocess.Popen[str]) -> Iterator[str]:
    """What `functory run` shows of an execution that goes on."""
    assert process.stderr is not None
    for line in process.stderr:
        _, found, text = line.partition("stdout: ")
        if found:
            yield text

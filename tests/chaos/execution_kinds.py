"""The sorts of executions that run under kills, and the allowed outcomes of each.

A sort makes the job for a number, and knows its one right result. So the test finds an answer that belongs to another
execution.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any, NamedTuple

from functory.workers.sandbox.protocol.job import ChildGrants, ChildLimits, Job, Outcome
from tests.support.runner_world import job

_QUICK = ChildLimits(wall_seconds=60.0, total_seconds=90.0, cpu_seconds=30.0)
_BIG = 200_000

_PLAIN = "def f(n):\n    return n * 2"
_FAIL = "def f(n):\n    raise ValueError(n)"
_SLEEP = "import time\ndef f(n):\n    time.sleep(600)"
_SPIN = "def f(n):\n    while True: pass"
_PRINT = "def f(n):\n    for line in range(300): print(line, 'x' * 80)\n    return n"
_CALL = "from functory import call\ndef f(n):\n    return [call('g', n) for _ in range(3)][-1]"
_WAIT = "from functory import call\ndef f(n):\n    call('wait', n)\n    return n"
_BIG_RESULT = f"def f(n, text):\n    return text + str(n) + 'x' * {_BIG}"
_FILES = """
import pathlib, tempfile
def f(n):
    folder = pathlib.Path(tempfile.mkdtemp())
    for number in range(20):
        (folder / str(number)).write_bytes(b"x" * 5000)
    return sum(len(path.read_bytes()) for path in folder.iterdir()) + n
"""
_THREADS = """
import threading, time
def f(n):
    for _ in range(3):
        threading.Thread(target=time.sleep, args=(600,)).start()
    return n
"""
_CLOSE = "import os\ndef f(n):\n    os.close(3)\n    return n"
_EXIT = "import os\ndef f(n):\n    os._exit(n % 5)"
# The function leaves a daemon in a session of its own behind. Its argument has the mark that identifies it.
_PROGRAM = """
import subprocess
def f(n, seconds):
    subprocess.Popen(["/bin/sleep", seconds], start_new_session=True)
    return int(subprocess.run(["/bin/echo", str(n)], capture_output=True, check=True).stdout)
"""
_CONNECT = """
import socket
def f(n):
    try:
        socket.create_connection(("127.0.0.1", 9), 5)
    except OSError:
        return n
"""


class Task(NamedTuple):
    """One execution. ``statuses`` are its allowed statuses when nothing is killed; ``result`` is its right result."""

    sort: str
    job: Job
    statuses: tuple[str, ...]
    result: Any

    def problem(self, outcome: Outcome) -> str:
        """The problem with an outcome; empty without one."""
        if outcome.status not in self.statuses and not lost(outcome):
            return f"{self.sort}: {outcome.status}: {outcome.error}"
        if outcome.status == "succeeded" and outcome.result != self.result:
            return f"{self.sort}: {str(outcome.result)[:200]!r} is not its result"
        return ""


def lost(outcome: Outcome) -> bool:
    """True when the outcome reports the loss of a process that the execution needed."""
    kind = (outcome.error or {}).get("type")
    return (outcome.status, kind) in {
        ("crashed", "Crashed"),
        ("crashed", "ZygoteLost"),
        ("sandbox_error", "Unavailable"),
    }


def _made(number: int, source: str, **fields: Any) -> Job:
    given = {"n": number, **fields.pop("input", {})}
    return job(source, input=given, execution_id=f"e-{number}", limits=fields.pop("limits", _QUICK), **fields)


def _plain(n: int) -> Task:
    return Task("plain", _made(n, _PLAIN), ("succeeded",), n * 2)


def _short(source: str, seconds: float, *statuses: str) -> Callable[[int], Task]:
    limits = ChildLimits(wall_seconds=seconds, total_seconds=90.0, cpu_seconds=30.0)
    return lambda n: Task("short", _made(n, source, limits=limits), (*statuses, "timed_out"), n)


def _simple(sort: str, source: str, *statuses: str, **fields: Any) -> Callable[[int], Task]:
    return lambda n: Task(sort, _made(n, source, **fields), statuses or ("succeeded",), n)


def _big(n: int) -> Task:
    text = "y" * _BIG
    return Task(
        "big", _made(n, _BIG_RESULT, input={"text": text}), ("succeeded",), text + str(n) + "x" * _BIG
    )


def _files(n: int) -> Task:
    return Task("files", _made(n, _FILES), ("succeeded",), 100_000 + n)


def _domain(n: int) -> Task:
    return Task("domain", _made(n, _PLAIN, trust_domain=f"domain-{n % 3}"), ("succeeded",), n * 2)


class Sorts:
    """Draws tasks. ``mark`` are decimal digits that identify the programs that functions start."""

    def __init__(self, tier: str, mark: str) -> None:
        def program(n: int) -> Task:
            made = _made(
                n,
                _PROGRAM,
                input={"seconds": f"3600.{mark}"},
                grants=ChildGrants(subprocess=True),
                limits=ChildLimits(wall_seconds=60.0, processes=4),
            )
            return Task("program", made, ("succeeded",), n)

        hosts = ChildGrants(hosts=("127.0.0.1:9",))
        self._weights: dict[Callable[[int], Task], int] = {
            _plain: 20,
            _simple("failing", _FAIL, "failed"): 6,
            _short(_SLEEP, 0.05): 8,
            _short(_SPIN, 0.05): 4,
            _short(_WAIT, 0.5, "succeeded"): 4,
            _simple("printing", _PRINT): 8,
            _simple("calling", _CALL): 10,
            _big: 6,
            _files: 6,
            _simple("threads", _THREADS): 4,
            _simple("closing", _CLOSE, "crashed"): 2,
            _simple("exiting", _EXIT, "crashed"): 3,
            _simple("hosts", _CONNECT, grants=hosts): 5,
            _domain: 5,
        }
        if tier in ("A", "B"):
            self._weights[program] = 6
        self._reused: dict[Callable[[int], Task], int] = {
            _simple("warm", "def f(n):\n    return n", reuse=True): 20,
            _simple("warm calling", _CALL, reuse=True): 8,
            _simple("warm failing", _FAIL, "failed", reuse=True): 2,
        }

    def draw(self, number: int, seed: int, reuse: bool) -> Task:
        """The task for a number; it is the same for the same seed."""
        weights = self._weights | (self._reused if reuse else {})
        (make,) = Random(f"{seed}/{number}").choices(list(weights), list(weights.values()))
        return make(number)

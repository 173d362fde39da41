"""Runs a piece of work in a child process with the kernel's limits, and reports what it took.

A work without a bound ends the child and not the test run. CPU time is counted and not the time on the clock, so that
the result does not depend on what else the machine does.
"""

from __future__ import annotations

import json
import os
import resource
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple


class Used(NamedTuple):
    """``cpu_seconds`` of the work; ``megabytes``: the most memory that the child had beyond what it began with."""

    cpu_seconds: float
    megabytes: float
    answer: Any


def run_bounded(work: Callable[[], Any], *, cpu_seconds: int, megabytes: int) -> Used:
    """Run ``work``, which returns JSON. An exception of the work is its answer: its type's name and its text.

    Raises AssertionError when the child needs more than ``cpu_seconds`` or ``megabytes`` of address space, or dies.
    """
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        os.close(reading)
        try:
            os.write(writing, json.dumps(_run(work, cpu_seconds, megabytes)).encode())
        finally:
            os._exit(0)
    os.close(writing)
    with os.fdopen(reading, "rb") as pipe:
        told = pipe.read()
    _, status = os.waitpid(child, 0)
    ended = signal.Signals(os.WTERMSIG(status)).name if os.WIFSIGNALED(status) else "no answer"
    assert told, f"the work needs more than {cpu_seconds} s of CPU or {megabytes} MB: {ended}"
    return Used(*json.loads(told))


def _run(work: Callable[[], Any], cpu_seconds: int, megabytes: int) -> tuple[float, float, Any]:
    before = resource.getrusage(resource.RUSAGE_SELF)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    began = before.ru_utime + before.ru_stime
    resource.setrlimit(resource.RLIMIT_CPU, (int(began) + cpu_seconds, int(began) + cpu_seconds))
    size = _address_space() + (megabytes << 20)
    resource.setrlimit(resource.RLIMIT_AS, (size, size))
    try:
        answer: Any = work()
    except MemoryError:
        os._exit(1)
    except Exception as error:
        answer = [type(error).__name__, str(error)[:2000]]
    after = resource.getrusage(resource.RUSAGE_SELF)
    return (
        after.ru_utime + after.ru_stime - began,
        (after.ru_maxrss - before.ru_maxrss) / 1024,
        answer,
    )


def _address_space() -> int:
    return int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()

"""Attacks by code that never ends, or takes more time, output or depth than is granted."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterable

from tests.attacks.case import STOPPED, Report, attack
from tests.attacks.prelude import Any, Tries


def by_cpu(report: Report) -> Iterable[str]:
    if report.outcome["kill_reason"] != "cpu":
        yield f"ended for {report.outcome['kill_reason']}, not for its CPU time"


def by_wall(report: Report) -> Iterable[str]:
    if report.outcome["kill_reason"] != "wall":
        yield f"ended for {report.outcome['kill_reason']}, not for its wall time"


@attack("A01", "An endless loop", without=STOPPED, ends="timed_out", check=by_cpu, cpu_seconds=1.0)
def endless_loop(d: dict[str, Any]) -> Any:
    while True:
        pass


@attack(
    "A02",
    "An endless loop in C that ignores and blocks all signals",
    without="the kernel's SIGKILL ends it, and without a sandbox it looks like a lack of memory",
    ends="timed_out",
    check=by_cpu,
    cpu_seconds=1.0,
)
def endless_loop_in_c(d: dict[str, Any]) -> Any:
    import collections
    import itertools

    for number in set(signal.valid_signals()) - {signal.SIGKILL, signal.SIGSTOP}:
        signal.signal(number, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
    collections.deque(itertools.repeat(0), maxlen=0)


@attack(
    "A03",
    "Sleeping while ignoring SIGTERM and SIGXCPU",
    without=STOPPED,
    ends="timed_out",
    check=by_wall,
    wall_seconds=0.5,
)
def deaf_sleep(d: dict[str, Any]) -> Any:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    signal.signal(signal.SIGXCPU, signal.SIG_IGN)
    while True:
        time.sleep(60)


@attack(
    "A03b",
    "Stopping itself, so that it can neither run nor obey a request to end",
    without=STOPPED,
    ends="timed_out",
    check=by_wall,
    wall_seconds=0.5,
)
def stopped_by_itself(d: dict[str, Any]) -> Any:
    while True:
        os.kill(os.getpid(), signal.SIGSTOP)
        time.sleep(60)


def output_was_cut(report: Report) -> Iterable[str]:
    if report.outcome["kill_reason"] != "log_kill_bytes":
        yield f"ended for {report.outcome['kill_reason']}"


@attack(
    "A31",
    "A flood of output",
    without=STOPPED,
    ends="output_too_large",
    check=output_was_cut,
    log_kill_bytes=4 * 2**20,
)
def flood_of_output(d: dict[str, Any]) -> Any:
    while True:
        os.write(1, b"x" * 65536)


@attack("A32", "A result of 40 MiB", without=STOPPED, ends="output_too_large")
def large_result(d: dict[str, Any]) -> Any:
    return "x" * (40 * 2**20)


DEPTH_ERRORS = (
    "RecursionError",
    "MemoryError",
    "SystemError",
)  # the last where no memory is left for another


def fails_for_depth(report: Report) -> Iterable[str]:
    if report.status == "failed" and report.outcome["error"]["type"] not in DEPTH_ERRORS:
        yield f"failed with {report.outcome['error']}"


@attack(
    "A35",
    "Recursion without a limit",
    without=STOPPED,
    ends=("failed", "crashed", "out_of_memory"),
    check=fails_for_depth,
    memory_bytes=96 * 2**20,
)
def endless_recursion(d: dict[str, Any]) -> Any:
    import sys

    sys.setrecursionlimit(10**9)

    def deeper(n: int) -> int:
        return deeper(n + 1) + 1

    return deeper(0)


def segfault_without_core(report: Report) -> Iterable[str]:
    if report.status == "crashed" and report.outcome["signal"] != 11:
        yield f"signal {report.outcome['signal']}, not 11"


@attack(
    "A36",
    "The C stack overflows",
    without=STOPPED,
    ends=("crashed", "out_of_memory"),
    check=segfault_without_core,
)
def overflow_of_the_c_stack(d: dict[str, Any]) -> Any:
    import sys

    sys.setrecursionlimit(10**9)

    def deeper(n: int) -> int:
        return max([n], key=deeper)

    return deeper(0)


@attack("A37", "A segmentation fault", without=STOPPED, ends="crashed", check=segfault_without_core)
def segmentation_fault(d: dict[str, Any]) -> Any:
    import ctypes

    return ctypes.string_at(0)


def no_result(report: Report) -> Iterable[str]:
    if report.outcome["error"]["type"] != "NoResult":
        yield f"its error is {report.outcome['error']}"


@attack("A38", "Leaving with code 0 and no result", without=STOPPED, ends="crashed", check=no_result)
def exit_without_result(d: dict[str, Any]) -> Any:
    os._exit(0)


def exit_is_an_error(report: Report) -> Iterable[str]:
    if report.outcome["error"]["type"] != "SystemExit":
        yield f"its error is {report.outcome['error']}"


@attack("A39", "sys.exit(3)", without=STOPPED, ends="failed", check=exit_is_an_error)
def system_exit(d: dict[str, Any]) -> Any:
    raise SystemExit(3)


def aborted(report: Report) -> Iterable[str]:
    # The first process of a PID namespace cannot send itself a signal that ends it: abort(3) then faults.
    if report.outcome["signal"] not in (6, 11):
        yield f"signal {report.outcome['signal']}, neither 6 nor 11"
    yield from (line for line in report.outcome["log"] if line.startswith("raised"))


@attack("A47", "A core dump, its limit raised first", without=STOPPED, ends="crashed", check=aborted)
def core_dump(d: dict[str, Any]) -> Any:
    import resource

    try:
        resource.setrlimit(resource.RLIMIT_CORE, (2**20, 2**20))
        print("raised its limit of core dumps", flush=True)
    except (OSError, ValueError):
        pass
    signal.signal(signal.SIGABRT, signal.SIG_DFL)
    os.abort()


@attack("A48", "Raising its own limits", without=STOPPED)
def raise_own_limits(d: dict[str, Any]) -> Any:
    import resource

    tries = Tries()

    def more(kind: int) -> None:
        hard = resource.getrlimit(kind)[1]
        if kind == resource.RLIMIT_CPU and hard == resource.RLIM_INFINITY:
            raise PermissionError(1, "the worker counts the time of a process that it may keep")
        assert hard != resource.RLIM_INFINITY
        try:
            resource.setrlimit(kind, (hard + 1, hard + 1))
        except ValueError as error:
            # CPython reports this where the kernel answered EPERM.
            raise PermissionError(1, str(error)) from None

    for name in ("AS", "CPU", "FSIZE", "NOFILE", "CORE"):
        tries.attempt(name, more, getattr(resource, f"RLIMIT_{name}"))
    return tries.verdict()


def quick(report: Report) -> Iterable[str]:
    if report.outcome["result"] != "kept":
        yield f"its result is {report.outcome['result']!r}"
    if report.outcome["kill_reason"] is not None:
        yield f"it was killed: {report.outcome['kill_reason']}"


@attack("A58", "atexit and a thread that want to stay", without=STOPPED, check=quick)
def lingering_thread(d: dict[str, Any]) -> Any:
    import atexit
    import threading

    atexit.register(time.sleep, 60)
    threading.Thread(target=time.sleep, args=(60,)).start()
    return "kept"


@attack(
    "A60",
    "An exception whose text never ends",
    without=STOPPED,
    ends="timed_out",
    check=by_wall,
    wall_seconds=0.5,
)
def endless_exception_text(d: dict[str, Any]) -> Any:
    class Endless(Exception):
        def __str__(self) -> str:
            while self is not None:
                pass
            return ""

    raise Endless


def syntax_or_memory(report: Report) -> Iterable[str]:
    if report.outcome["error"]["type"] not in ("SyntaxError", "MemoryError", "RecursionError"):
        yield f"its error is {report.outcome['error']}"


@attack(
    "A62",
    "A source text that breaks the compiler",
    without=STOPPED,
    ends="failed",
    check=syntax_or_memory,
    raw="(" * 200_000,
)
def compile_bomb() -> Any: ...


@attack(
    "A62b",
    "A source text that makes the compiler compute without end",
    without=STOPPED,
    ends=("failed", "timed_out", "out_of_memory", "crashed", "succeeded"),
    wall_seconds=1.0,
    cpu_seconds=1.0,
    raw="def constant_bomb():\n    return len(str(" + "-" * 50_000 + "1))\n",
)
def constant_bomb() -> Any: ...


@attack(
    "A63",
    "A regular expression that backtracks without end",
    without=STOPPED,
    ends="timed_out",
    check=by_wall,
    wall_seconds=0.5,
)
def endless_regex(d: dict[str, Any]) -> Any:
    import re

    return bool(re.match(r"(a+)+$", "a" * 60 + "b"))


@attack(
    "A64",
    "A power that takes hours",
    without=STOPPED,
    ends=("timed_out", "failed", "out_of_memory"),
    wall_seconds=0.5,
)
def huge_power(d: dict[str, Any]) -> Any:
    return (7**10**9) & 1


@attack("A67", "Real-time priority and a negative nice value", without=STOPPED)
def real_time_priority(d: dict[str, Any]) -> Any:
    tries = Tries()
    for name, policy in (("FIFO", os.SCHED_FIFO), ("RR", os.SCHED_RR)):
        tries.attempt(name, os.sched_setscheduler, 0, policy, os.sched_param(1))
    tries.attempt("nice", os.setpriority, os.PRIO_PROCESS, 0, -20)
    return tries.verdict()


@attack(
    "A101",
    "Sixteen threads that burn CPU at once",
    without=STOPPED,
    ends="timed_out",
    check=by_cpu,
    cpu_seconds=1.0,
)
def burning_threads(d: dict[str, Any]) -> Any:
    import hashlib
    import threading

    def burn() -> None:
        while True:
            hashlib.sha256(bytes(2**20)).digest()  # runs without the interpreter's lock

    for _ in range(8):
        threading.Thread(target=burn, daemon=True).start()
    burn()

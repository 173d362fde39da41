"""Decides how a run ended when the child did not report it: by its limits, the kernel or the zygote."""

from __future__ import annotations

import math
import os
import signal
from typing import Any, NamedTuple

from functory.workers.sandbox.pool.child import Child
from functory.workers.sandbox.protocol.job import ChildLimits, Status


class Verdict(NamedTuple):
    """The end of the run, in the terms of ``Outcome``."""

    status: Status
    message: str = ""
    kill_reason: str | None = None
    signal: int | None = None
    type: str = ""


def death_verdict(child: Child, limits: ChildLimits) -> Verdict:
    """Judge a child that ended without a last frame, by its wait status and its control group."""
    if child.wait_status is None:
        return Verdict(
            "crashed",
            "the process that starts executions ended or stopped; this one was lost with it",
            "zygote_lost",
            child.zygote.death_signal(),
            type="ZygoteLost",
        )
    if child.group is not None and child.group.oom_kills():
        return Verdict(
            "out_of_memory",
            f"it used more than {limits.memory_bytes} bytes of memory\n"
            "try: work on smaller pieces, or raise memory_bytes",
            "memory",
            signal.SIGKILL,
            "OutOfMemory",
        )
    if os.WIFSIGNALED(child.wait_status):
        number = os.WTERMSIG(child.wait_status)
        # The first process of a PID namespace gets no SIGXCPU: it is killed at the hard limit, a second later.
        if number == signal.SIGXCPU or (
            number == signal.SIGKILL and child.cpu_seconds >= math.ceil(limits.cpu_seconds)
        ):
            return out_of_cpu(limits, number)
        hint = ", most often because memory ran out" if number == signal.SIGKILL else ""
        return Verdict(
            "crashed", f"it was ended by signal {number} ({_name(number)}){hint}", None, number, "Crashed"
        )
    code = os.waitstatus_to_exitcode(child.wait_status)
    return Verdict(
        "crashed",
        f"it exited with code {code} and no result\ntry: return instead of exiting",
        type="NoResult",
    )


def out_of_cpu(limits: ChildLimits, number: int | None) -> Verdict:
    limit = math.ceil(limits.cpu_seconds)
    return Verdict("timed_out", f"it used more than {limit} s of CPU", "cpu", number, "TimedOut")


def _name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return "unknown"


def outcome_error(verdict: Verdict) -> dict[str, Any]:
    """Build the error of an outcome whose child could not report one itself."""
    return {"type": verdict.type, "message": verdict.message, "traceback": "", "frames": []}

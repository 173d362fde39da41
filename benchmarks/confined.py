"""The runner of one tier, measured in a process of its own, which may have another user than the benchmark.

    python -m benchmarks.confined TIER

Lines of JSON: ``{"what": name, "count": n}`` in, ``{"ms": [of each call], "cpu_ms": of all}`` out; the first
line out is empty, or says why this machine has not the tier. CPU time is that of worker, zygote and children.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable
from typing import Any

import structlog

from functory.workers.sandbox.pool.pool import Options
from functory.workers.sandbox.protocol.host import UnfilteredOutput
from functory.workers.sandbox.protocol.job import ChildLimits, Code, Job
from functory.workers.sandbox.protocol.plan import Tier
from functory.workers.sandbox.runner import Runner

INCREMENT = "def f(n):\n    return n + 1"
MEASURE = "def f(text):\n    return len(text)"
MAKE = "def f(size):\n    return 'x' * size"
TOTAL = "def f(numbers):\n    return len(numbers)"
MEGABYTE = 1_000_000
FLOATS = [number / 7 for number in range(60_000)]
# Between two calls, in all that measure a latency: the process before has been buried by then.
PAUSE_SECONDS = 0.005
# What a spare takes to be forked and confined, several times.
SPARE_SECONDS = 0.04
_LIMITS = ChildLimits(wall_seconds=60.0, result_bytes=2 * MEGABYTE)


def jobs() -> dict[str, Job]:
    """What is run, by the name of the measurement."""
    return {
        "forked": _job(INCREMENT, {"n": 1}),
        "spare": _job(INCREMENT, {"n": 1}),
        "reuse": _job(INCREMENT, {"n": 1}, reuse=True),
        "1 MB in": _job(MEASURE, {"text": "x" * MEGABYTE}),
        "1 MB out": _job(MAKE, {"size": MEGABYTE}),
        "60k floats in": _job(TOTAL, {"numbers": FLOATS}),
    }


def _job(source: str, given: dict[str, Any], reuse: bool = False) -> Job:
    code = Code(name="f", version=1, source=source)
    return Job(
        execution_id="e-1",
        root_id="r-1",
        function="f",
        version=1,
        entry=code.key,
        codes={code.key: code},
        input=given,
        limits=_LIMITS,
        reuse=reuse,
    )


class TierRunners:
    """Runners of one tier, each started at its first measurement."""

    def __init__(self, tier: Tier) -> None:
        self._tier: Tier = tier
        self._cores = os.sched_getaffinity(0)
        self._jobs = jobs()
        self._runners: dict[str, Runner] = {}
        self.start()

    def start(self) -> None:
        """Start a zygote, and end it."""
        with Runner(tier=self._tier) as runner:
            runner.start()

    def measure(self, what: str, count: int) -> dict[str, Any]:
        """Milliseconds of each of ``count`` calls, and of CPU for all of them."""
        if what == "start":
            return {"ms": [_timed(self.start) for _ in range(count)], "cpu_ms": None}
        if what == "reuse":
            # All processes that take part inherit it: one core does all the work.
            os.sched_setaffinity(0, {min(self._cores)})
        try:
            runner = self._runner(what)
            task = self._jobs[what]
            pause = {"reuse": 0.0, "spare": SPARE_SECONDS}.get(what, PAUSE_SECONDS)
            warm = self._run(runner, task)
            pids = [pid for pid in (runner.zygote_pid, warm if what == "reuse" else None) if pid]
            before = time.process_time() + sum(map(cpu_seconds, pids))
            times = []
            for _ in range(count):
                if pause:
                    time.sleep(pause)
                times.append(_timed(lambda: self._run(runner, task)))
            used = time.process_time() + sum(map(cpu_seconds, pids)) - before
            return {"ms": times, "cpu_ms": used * 1000}
        finally:
            os.sched_setaffinity(0, self._cores)

    def _runner(self, what: str) -> Runner:
        name = what if what in ("reuse", "spare") else "forked"
        if name not in self._runners:
            # Replacing a zygote or a warm runner is rare and has its own figure.
            options = Options(spares=int(name == "spare"), zygote_executions=1_000_000, reuse_calls=1_000_000)
            self._runners[name] = runner = Runner(tier=self._tier, options=options)
            for _ in range(5):
                self._run(runner, self._jobs[what])
        return self._runners[name]

    def _run(self, runner: Runner, task: Job) -> int | None:
        outcome = runner.run(task, _HOST)
        if outcome.status != "succeeded":
            raise RuntimeError(f"{outcome.status}: {outcome.error}")
        return outcome.pid

    def close(self) -> None:
        for runner in self._runners.values():
            runner.close()


class _Host:
    """These functions ask the engine for nothing."""

    def output_filter(self) -> UnfilteredOutput:
        return UnfilteredOutput()


_HOST: Any = _Host()


def _timed(call: Callable[[], Any]) -> float:
    start = time.perf_counter()
    call()
    return (time.perf_counter() - start) * 1000


def cpu_seconds(pid: int) -> float:
    """CPU time of a process and of the children that it has waited for (proc_pid_stat(5)); 0 if it is gone."""
    try:
        with open(f"/proc/{pid}/stat") as file:  # noqa: PTH123
            fields = file.read().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")


def main(tier: Any) -> None:
    out = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    structlog.configure(logger_factory=structlog.PrintLoggerFactory(sys.stderr))
    try:
        confined = TierRunners(tier)
    except Exception as error:
        print(" ".join(str(error).split()), file=out, flush=True)
        return
    try:
        print(file=out, flush=True)
        for line in sys.stdin:
            print(json.dumps(confined.measure(**json.loads(line))), file=out, flush=True)
    finally:
        confined.close()


if __name__ == "__main__":
    main(sys.argv[1])

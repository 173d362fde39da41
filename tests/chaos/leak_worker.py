"""The worker that ``tests.chaos.leaks`` kills: it runs jobs on four threads, and prints a line at each start and end.

    CHAOS_MARK=digits python -m tests.chaos.leak_worker TIER SEED

Lines of JSON in: ``{"run": [numbers], "kept": bool}`` and ``{"close": true}``; ``kept`` lets children wait (spares,
warm ones). Out: ``begun`` and ``ended`` for each number, ``ran`` when none is left, ``closed`` with counts of the
resources of this process after its runner was closed.
"""

from __future__ import annotations

import faulthandler
import gc
import json
import os
import signal
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import structlog

from functory.workers.sandbox.pool.pool import Options
from functory.workers.sandbox.runner import Runner
from tests.chaos import leftover_resources
from tests.chaos.execution_kinds import Sorts, lost
from tests.support.runner_world import FakeHost

_THREADS = 4
_PATIENCE_SECONDS = 20.0
# Small limits, so that zygotes are often evicted and replaced, and warm children often reach their last run.
_KEPT = Options(zygotes=3, spares=1, zygote_executions=40, reuse_calls=15)
_NOTHING_KEPT = Options(zygotes=3, spares=0, zygote_executions=40)


class Worker:
    def __init__(self, tier: Any, seed: int, mark: str) -> None:
        self._tier = tier
        self._seed = seed
        self._sorts = Sorts(tier, mark)
        self._lock = threading.Lock()
        self._out = os.fdopen(os.dup(1), "w")
        self._runner: Runner | None = None
        self._kept = False

    def say(self, **reported: Any) -> None:
        with self._lock:
            print(json.dumps(reported), file=self._out, flush=True)

    def run(self, numbers: list[int], kept: bool) -> None:
        self._kept = kept
        self._runner = Runner(tier=self._tier, options=_KEPT if kept else _NOTHING_KEPT)
        self._runner.start()
        with ThreadPoolExecutor(_THREADS) as pool:
            list(pool.map(self._one, numbers))
        self.say(ran=True)

    def _one(self, number: int) -> None:
        task = self._sorts.draw(number, self._seed, self._kept)
        host = FakeHost(g=lambda n: n, wait=lambda n: time.sleep(0.02))
        self.say(begun=number)
        assert self._runner is not None
        try:
            outcome = self._runner.run(task.job, host)
        except BaseException as error:
            self.say(ended=number, problem=f"{task.sort}: run() raised {error!r}", lost=False)
            raise
        self.say(
            ended=number,
            sort=task.sort,
            status=outcome.status,
            problem=task.problem(outcome),
            lost=lost(outcome) and outcome.status not in task.statuses,
        )

    def close(self) -> None:
        if self._runner is not None:
            self._runner.close()
            self._runner = None
        # Threads that answer requests end after the host's answer.
        deadline = time.monotonic() + _PATIENCE_SECONDS
        while threading.active_count() > 1 and time.monotonic() < deadline:
            time.sleep(0.01)
        gc.collect()
        self.say(
            closed=True,
            descriptors=leftover_resources.descriptors(os.getpid()),
            threads=sorted(thread.name for thread in threading.enumerate()),
            objects=len(gc.get_objects()),
            resident=_resident(),
        )


def _resident() -> int:
    """Bytes of memory in use (proc(5), statm)."""
    with open("/proc/self/statm") as file:  # noqa: PTH123
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def main(tier: str, seed: str) -> None:
    faulthandler.register(signal.SIGUSR1)
    structlog.configure(logger_factory=structlog.PrintLoggerFactory(sys.stderr))
    # The mark is not an argument here, because the search must not find this process.
    worker = Worker(tier, int(seed), os.environ["CHAOS_MARK"])
    os.dup2(2, 1)
    # Make everything that a process makes once before the first count.
    worker.close()
    for line in sys.stdin:
        reported = json.loads(line)
        if "run" in reported:
            worker.run(reported["run"], reported["kept"])
        else:
            worker.close()


if __name__ == "__main__":
    main(*sys.argv[1:])

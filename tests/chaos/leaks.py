"""Runs many executions while their processes are killed at random, and searches for leaked resources.

    python -m tests.chaos.leaks [--executions 10000] [--seed 1] [--tier A|B|C|none] [--batch 250]

A worker process runs executions of many sorts on four threads. When some of them end, a child, a zygote or the
process between zygote and worker gets SIGKILL. In some batches the worker itself is killed and started again. Every
execution must have an allowed outcome. After each batch no process, mount, control group, descriptor, thread or file
may be left, and memory must not grow. On a problem it prints a list and exits with 1.

The seed decides the executions, and after which of them something is killed. What is killed and the exact times
depend on the machine. Tiers B and C always run as an ordinary user.
"""

from __future__ import annotations

import argparse
import json
import os
import secrets
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import msgspec

from tests.chaos import leftover_resources
from tests.support.unprivileged import command

_ROOT = Path(__file__).resolve().parents[2]
_SILENCE_SECONDS = 90.0  # the longest time without an end: far longer than every limit of an execution
_GONE_SECONDS = 20.0  # a zygote has 5 s after the end of its worker
_THREADS = 4
_KILL_EVERY = (3, 14)  # ends of executions between two kills
_ROLES = {"child": 10, "zygote": 3, "shim": 2, "other": 1}
_WORKER_KILLS = 0.25  # share of batches
_OBJECTS = 3_000  # Python's own caches change by some hundreds
_MEMORY_BYTES = 24 * 1024 * 1024


class Report(msgspec.Struct):
    """The report of a run. ``problems`` is empty when nothing was wrong."""

    seed: int
    tier: str
    executions: int = 0
    statuses: Counter[str] = msgspec.field(default_factory=Counter)
    kills: Counter[str] = msgspec.field(default_factory=Counter)
    lost: int = 0
    problems: list[str] = []

    def text(self) -> str:
        def counts(counter: Counter[str]) -> str:
            return ", ".join(f"{count} {name}" for name, count in sorted(counter.items()))

        lines = [
            f"tier {self.tier}, seed {self.seed}: {self.executions} executions: {counts(self.statuses)}",
            f"killed: {counts(self.kills) or 'nothing'}; executions lost by that: {self.lost}",
        ]
        return "\n".join(lines + [f"PROBLEM: {problem}" for problem in self.problems[:40]])


class Chaos:
    """One run. ``tell`` gets a line about its progress from time to time."""

    def __init__(self, tier: str, seed: int, tell: Callable[[str], None] = lambda line: None) -> None:
        self.report = Report(seed=seed, tier=tier)
        self._tier = tier
        self._seed = seed
        self._tell = tell
        self._random = Random(f"kills/{seed}")
        # Generators of their own: the use of the last one depends on the processes that are found alive.
        self._fates = Random(f"workers/{seed}")
        self._targets = Random(f"targets/{seed}")
        # Digits, because the mark is also an argument of /bin/sleep.
        self._mark = "".join(secrets.choice("123456789") for _ in range(14))
        self._folder = Path(tempfile.mkdtemp(prefix=f"leaks-{self._mark}-"))
        self._folder.chmod(0o1777)
        self._workers: list[int] = []
        self._process: subprocess.Popen[bytes] | None = None
        self._unread = b""
        self._first: dict[str, Any] = {}
        self._settled: list[dict[str, Any]] = []
        self._running: set[int] = set()

    def run(self, executions: int, batch: int) -> Report:
        """Run this number of executions in batches. Removes everything at the end, also after a problem."""
        try:
            for number, first in enumerate(range(0, executions, batch)):
                numbers = list(range(first, min(first + batch, executions)))
                fatal, part = self._fates.random() < _WORKER_KILLS, self._fates.random()
                at = int(part * len(numbers)) if fatal else None
                self._batch(numbers, kept=number % 2 == 0, at=at)
                self._tell(
                    f"{numbers[-1] + 1} executions, {self.report.kills.total()} kills, "
                    f"{len(self.report.problems)} problems"
                )
                if len(self.report.problems) > 20:
                    break
            self._end()
        finally:
            self._clean()
        if self.report.lost > _THREADS * (self.report.kills.total() - self.report.kills["worker"]):
            self._problem(f"{self.report.lost} executions were lost by {self.report.kills.total()} kills")
        return self.report

    def _batch(self, numbers: list[int], kept: bool, at: int | None) -> None:
        """Run a batch. The worker is killed after ``at`` ends, and another worker runs the rest."""
        process = self._worker()
        self._running = set()
        self._say(run=numbers, kept=kept)
        left = set(numbers)
        until_kill = self._random.randint(*_KILL_EVERY)
        while (reported := self._hear()) is not None and "ran" not in reported:
            if "begun" in reported:
                self._running.add(reported["begun"])
                continue
            self._note(reported)
            left.discard(reported["ended"])
            self._running.discard(reported["ended"])
            until_kill -= 1
            if at is not None and len(numbers) - len(left) > at:
                process.kill()
                break
            if until_kill == 0:
                self._kill_one(process.pid)
                until_kill = self._random.randint(*_KILL_EVERY)
        if reported is None:
            self._problem(f"the worker ended by itself: {process.wait()}; running were {self._running}")
            self._process = None
        elif "ran" in reported:
            if left:
                self._problem(f"executions without an end: {sorted(left)}")
            self._settle(kept)
        else:
            self.report.kills["worker"] += 1
            # Running executions are lost with the worker; the engine's leases recover such executions.
            self._forget_worker()
            rest = sorted(left - self._running)
            if rest:
                self._batch(rest, kept, None)

    def _note(self, reported: dict[str, Any]) -> None:
        self.report.executions += 1
        self.report.lost += reported["lost"]
        self.report.statuses[reported.get("status", "raised")] += 1
        if reported["problem"]:
            self._problem(f"execution {reported['ended']}: {reported['problem']}")

    def _kill_one(self, worker: int) -> None:
        """Kill a process shortly after the end of an execution: of a role that was not killed yet, or of a random role
        that has a process.
        """
        time.sleep(self._random.random() * 0.03)
        found = leftover_resources.by_role(leftover_resources.processes(self._mark), worker)
        roles = [role for role in _ROLES if found[role]]
        if not roles:
            return
        fresh = [role for role in roles if role not in self.report.kills]
        (role,) = self._targets.choices(fresh or roles, [_ROLES[role] for role in fresh or roles])
        if leftover_resources.kill(self._targets.choice(found[role]), self._mark):
            self.report.kills[role] += 1

    def _settle(self, kept: bool) -> None:
        """Search for leaks while the runner is idle, and after it is closed."""
        process = self._process
        assert process is not None
        if not kept:
            self._wait("children of an idle runner", lambda: self._roles()["child"])
            self._wait("programs of an idle runner", lambda: self._roles()["other"])
            # In tiers with a tmpfs for each child the folder looks empty from here.
            self._wait(
                "scratch files of an idle runner",
                lambda: [name for name in leftover_resources.files(self._folder) if "/" in name],
            )
            self._look_at_descriptors(process.pid)
        self._say(close=True)
        reported = self._hear()
        if reported is None:
            self._problem("the worker did not close its runner")
            self._forget_worker()
            return
        self._settled.append(reported)
        self._nothing_left("after the runner was closed")
        self._compare(reported)

    def _roles(self) -> dict[str, list[leftover_resources.Process]]:
        assert self._process is not None
        return leftover_resources.by_role(leftover_resources.processes(self._mark), self._process.pid)

    def _look_at_descriptors(self, worker: int) -> None:
        """Check the descriptors of an idle worker: two for each zygote, one for each control-group folder, and some
        of its own. The latter include those of a few killed zygotes that were not used since."""
        zygotes = len(self._roles()["zygote"])
        folders = sum(
            len(leftover_resources.folders(Path(group))) for group in leftover_resources.groups([worker])
        )
        most = self._first["descriptors"] + 2 * zygotes + folders + 12
        self._wait(
            f"descriptors of an idle worker, at most {most}",
            lambda: [n for n in [leftover_resources.descriptors(worker)] if n is not None and n > most],
        )
        # A zygote that forks a spare just now holds the descriptors of that child for a short time.
        self._wait("descriptors of idle zygotes, more than four apart", self._uneven_zygote_descriptors)

    def _uneven_zygote_descriptors(self) -> list[int]:
        """Return the descriptors of each zygote in order, or nothing while all have about the same number."""
        found = [leftover_resources.descriptors(zygote.pid) for zygote in self._roles()["zygote"]]
        counts = sorted(count for count in found if count is not None)
        return counts if counts and counts[-1] - counts[0] > 4 else []

    def _compare(self, reported: dict[str, Any]) -> None:
        if reported["descriptors"] != self._first["descriptors"]:
            self._problem(
                f"descriptors: {self._first['descriptors']} before, {reported['descriptors']} after"
            )
        if reported["threads"] != self._first["threads"]:
            self._problem(f"threads: {reported['threads']}")
        # The first batches fill caches (imports, types, free memory).
        if len(self._settled) > 3:
            before = self._settled[2]
            if reported["objects"] > before["objects"] + _OBJECTS:
                self._problem(f"objects: {before['objects']} before, {reported['objects']} after")
            if reported["resident"] > before["resident"] + _MEMORY_BYTES:
                self._problem(f"bytes of memory: {before['resident']} before, {reported['resident']} after")

    def _nothing_left(self, when: str) -> None:
        mark = self._mark
        self._wait(f"processes {when}", lambda: leftover_resources.processes(mark))
        self._wait(f"mounts {when}", lambda: leftover_resources.mounts(mark))
        self._wait(f"files {when}", lambda: leftover_resources.files(self._folder))
        self._wait(f"control groups {when}", lambda: leftover_resources.groups(self._workers))

    def _wait(self, what: str, left: Callable[[], list[Any]]) -> None:
        """Wait until nothing is left; report a problem after some seconds."""
        deadline = time.monotonic() + _GONE_SECONDS
        while found := left():
            if time.monotonic() > deadline:
                self._problem(f"{what}: {found[:5]}")
                return
            time.sleep(0.02)

    def _worker(self) -> subprocess.Popen[bytes]:
        """The worker's process; it is started if there is none."""
        if self._process is not None:
            return self._process
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.chaos.leak_worker", self._tier, str(self._seed)],
            cwd=_ROOT,
            env=os.environ
            | {"TMPDIR": str(self._folder), "CHAOS_MARK": self._mark, "PYTHONDONTWRITEBYTECODE": "1"},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            start_new_session=True,
        )
        self._workers.append(self._process.pid)
        self._unread = b""
        self._settled = []
        reported = self._hear()
        if reported is None:
            raise RuntimeError("the worker did not start")
        self._first = reported
        return self._process

    def _forget_worker(self) -> None:
        """Wait for the descendants of a killed worker, which end by themselves. The next worker removes files and
        groups."""
        process, self._process = self._process, None
        assert process is not None
        process.kill()
        process.wait()
        for pipe in (process.stdin, process.stdout):
            if pipe is not None:
                pipe.close()
        self._wait("processes of a killed worker", lambda: leftover_resources.processes(self._mark))

    def _end(self) -> None:
        """End the last worker softly, after a new worker has removed what a killed one left."""
        self._batch([], kept=False, at=None)
        self._nothing_left("at the end")
        process = self._process
        if process is not None:
            assert process.stdin is not None
            process.stdin.close()
            process.wait(_SILENCE_SECONDS)

    def _clean(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()
        for process in leftover_resources.processes(self._mark):
            leftover_resources.kill(process, self._mark)
        shutil.rmtree(self._folder, ignore_errors=True)

    def _say(self, **reported: Any) -> None:
        assert self._process is not None and self._process.stdin is not None
        self._process.stdin.write(json.dumps(reported).encode() + b"\n")
        self._process.stdin.flush()

    def _hear(self) -> dict[str, Any] | None:
        """The next line of the worker; None when it has ended. A worker without a line for too long is a problem."""
        assert self._process is not None and self._process.stdout is not None
        fd = self._process.stdout.fileno()
        while b"\n" not in self._unread:
            if not select.select([fd], [], [], _SILENCE_SECONDS)[0]:
                self._process.send_signal(signal.SIGUSR1)
                time.sleep(1)
                self._problem(f"nothing ends any more: {sorted(self._running)} are running")
                self._process.kill()
            data = os.read(fd, 65_536)
            if not data:
                return None
            self._unread += data
        line, _, self._unread = self._unread.partition(b"\n")
        return json.loads(line)

    def _problem(self, text: str) -> None:
        self.report.problems.append(text)
        self._tell(f"PROBLEM: {text}")


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tests.chaos.leaks",
        description="Run executions under random kills and look for what is left.",
    )
    parser.add_argument("--executions", type=int, default=10_000)
    parser.add_argument("--batch", type=int, default=250, help="executions between two looks (default: 250)")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--tier", choices=("A", "B", "C", "none"), default="A" if os.geteuid() == 0 else "B")
    parser.add_argument("--json", action="store_true", help="one JSON object")
    given = parser.parse_args()
    if given.tier in ("B", "C") and os.geteuid() == 0:
        os.chdir(_ROOT)
        argv = command([sys.executable, "-m", "tests.chaos.leaks", *sys.argv[1:]])
        os.execv(argv[0], argv)
    tell = (lambda line: None) if given.json else (lambda line: print(line, flush=True))
    report = Chaos(given.tier, given.seed, tell).run(given.executions, given.batch)
    print(msgspec.json.encode(report).decode() if given.json else report.text())
    return 1 if report.problems else 0


if __name__ == "__main__":
    sys.exit(main())

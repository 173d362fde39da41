"""What hostile frames of a child cost its worker: its peak of memory and its CPU time, for each shape of frames.

    python -m benchmarks frames [--json]
    python -m benchmarks.frames SHAPE RUNS

The second form runs one shape as often as asked, at the same time, and prints one line of JSON. Each shape is measured
in a process of its own, because a peak of memory is one of a process.
"""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import structlog

from functory.workers.sandbox.protocol.host import UnfilteredOutput
from functory.workers.sandbox.protocol.job import ChildLimits, Code, Job
from functory.workers.sandbox.runner import Runner

MEMORY_BYTES = 128 * 2**20
CPU_SECONDS = 8.0
_ROOT = Path(__file__).resolve().parents[1]
_LIMITS = ChildLimits(
    wall_seconds=60.0, total_seconds=60.0, cpu_seconds=CPU_SECONDS, memory_bytes=MEMORY_BYTES, calls=100_000
)

_PRELUDE = r"""
import os, time

def frame(data):
    return len(data).to_bytes(4, "little") + data

def finished(value):
    return frame(b"\x83\xa1t\xa8finished\xa8warnings\x90\xa5value" + value)

def emit(number, data):
    return frame(
        b"\x85\xa1t\xa4emit\xa2id\xce" + number.to_bytes(4, "big") + b"\xa4type\xa1e\xa7subject\xc0\xa4data" + data
    )

def array(count, item):
    return b"\xdd" + count.to_bytes(4, "big") + item * count

def send(data):
    view = memoryview(data)
    while view:
        view = view[os.write(3, view):]

def requests(data):
    # Sends requests as fast as they are answered.
    for number in range(1, 100_000):
        send(emit(number, data))
        head = b""
        while len(head) < 4:
            head += os.read(3, 4 - len(head))
        left = int.from_bytes(head, "little")
        while left:
            left -= len(os.read(3, left))

def f():
    BODY
    time.sleep(60)
"""

SHAPES = {
    "16 MiB of empty arrays": r'send(finished(array(2**24 - 100, b"\x90")))',
    "1 MiB of empty arrays": r'send(finished(array(2**20 - 100, b"\x90")))',
    "1 MiB of empty maps": r'send(finished(array(2**20 - 100, b"\x80")))',
    "1 MiB of small maps": r'send(finished(array(2**18 - 100, b"\x81\xa1a\xc0")))',
    "eight requests of empty maps": r'send(b"".join(emit(n, array(10**6, b"\x80")) for n in range(1, 9)))',
    "requests of empty maps": r'requests(array(10**6 // 2, b"\x80"))',
    "deep nesting": r'send(finished(b"\x91" * (2**20 - 100) + b"\xc0"))',
    "a long text": r'send(finished(b"\xdb" + (2**20).to_bytes(4, "big") + b"x" * (2**20 - 4) + b"\xf0\x9f\x98\x80"))',
    "large integers": r'send(finished(array(2**20 // 9 - 100, b"\xcf" + b"\xff" * 8)))',
    "small frames": r'part = frame(b"\x82\xa1t\xa5wrote\xa4path\xa1x") * 10_000'
    + "\n    while True: send(part)",
    "spans": r"""
    head = b"\x86\xa1t\xabspan_opened\xa6parent\xc0\xa4code\xa3f@1\xa9truncated\xc2\xa6offset\xcb" + bytes(8)
    for n in range(1, 1000):
        send(frame(b"\x87" + head[1:] + b"\xa3seq\xce" + n.to_bytes(4, "big") + b"\xa5input" + array(65_000, b"\x90")))
    """.strip(),
}


class _Host:
    """Answers events; nothing else is asked for."""

    def emit(self, type: str, data: Any, subject: str | None) -> str:  # noqa: A002
        return "event"

    def output_filter(self) -> UnfilteredOutput:
        return UnfilteredOutput()


def run(*, quiet: bool = False) -> dict[str, Any]:
    """Measure each shape alone and three at the same time. Returns the figures."""
    figures = {f"{shape}, {runs} at once": measured(shape, runs) for shape in SHAPES for runs in (1, 3)}
    if not quiet:
        print(f"\nhostile frames, in a job of {MEMORY_BYTES >> 20} MiB and {CPU_SECONDS:g} s of CPU")
        for name, found in figures.items():
            print(
                f"  {name:<42} +{found['grown'] / 2**20:>6,.0f} MiB {found['cpu']:>6.2f} s CPU "
                f"{found['pause'] * 1000:>6,.0f} ms pause  {', '.join(found['ends'])}"
            )
    return figures


def measured(shape: str, runs: int) -> dict[str, Any]:
    """Return what ``runs`` runs of a shape cost a worker: ``grown`` bytes of memory, ``cpu`` and ``pause`` seconds.

    ``pause`` is the longest time in which no other thread of the worker ran. ``ends`` are the outcomes.
    """
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.frames", shape, str(runs)],
        cwd=_ROOT,
        check=True,
        capture_output=True,
        text=True,
    )
    return json.loads(done.stdout)


def _measure(shape: str, runs: int) -> dict[str, Any]:
    code = Code(name="f", version=1, source=_PRELUDE.replace("BODY", SHAPES[shape]))
    job = Job(
        execution_id="e-1",
        root_id="r-1",
        function="f",
        version=1,
        entry=code.key,
        codes={code.key: code},
        limits=_LIMITS,
    )
    ends: list[str] = []
    with Runner() as runner:
        harmless = Code(name="f", version=1, source="def f():\n    return 1")
        runner.run(_with(job, harmless), _Host())  # type: ignore[arg-type]
        threads = [
            threading.Thread(
                target=lambda: ends.append(_named(runner.run(job, _Host())))  # type: ignore[arg-type]
            )
            for _ in range(runs)
        ]
        pauses, done = [0.0], threading.Event()
        watch = threading.Thread(target=_watch, args=(pauses, done))
        Path("/proc/self/clear_refs").write_text("5")  # proc(5): begin a new peak
        before, cpu = _peak(), time.process_time()
        watch.start()
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        done.set()
        watch.join()
        return {
            "grown": _peak() - before,
            "cpu": time.process_time() - cpu,
            "pause": max(pauses),
            "ends": sorted(set(ends)),
        }


def _with(job: Job, code: Code) -> Job:
    import msgspec

    return msgspec.structs.replace(job, codes={code.key: code})


def _named(outcome: Any) -> str:
    return outcome.status + (f"/{outcome.kill_reason}" if outcome.kill_reason else "")


def _watch(pauses: list[float], done: threading.Event) -> None:
    last = time.monotonic()
    while not done.wait(0.001):
        now = time.monotonic()
        pauses.append(now - last)
        last = now


def _peak() -> int:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) * 1024
    return 0


if __name__ == "__main__":
    structlog.configure(logger_factory=structlog.PrintLoggerFactory(sys.stderr))
    with contextlib.suppress(BrokenPipeError):
        print(json.dumps(_measure(sys.argv[1], int(sys.argv[2]))))

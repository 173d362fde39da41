"""What confinement costs: each tier beside a bare fork, a new interpreter, and bubblewrap.

    python -m benchmarks sandbox [--json]
    python -m benchmarks.sandbox [--tier A]... [--calls 100] [--json]

The peers do the same work: ``bare fork`` in a process forked from a server of the same size that confines
nothing (``forkserver``), ``python -I`` in a new interpreter, ``bwrap`` in a new interpreter inside new
namespaces, where bubblewrap is installed. All are measured in turns, a few calls each, so that what else the
machine does hits all alike: the ratios are what to read. B and C are measured as an ordinary user. ``cpu`` is CPU
time a call, of worker, zygote and child together; it moves less than the clock on a busy machine.

Aims: forked p50 at most 1.3 of a bare fork, with a spare waiting at most 0.6, and 10,000 warm calls a second
on one core.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from benchmarks import confined
from benchmarks.forkserver import ForkServer
from tests.support.unprivileged import command

TIERS = ("A", "B", "C", "none")
CALLS = 100
_ROOT = Path(__file__).resolve().parents[1]
_ROUNDS = 10
# Starting an interpreter or a zygote takes so much longer that a part of the calls says enough.
_CALL_DIVISORS = {"start": 5, "python -I": 5, "bwrap": 5, "60k floats in": 5}
_CALL_FACTORS = {"reuse": 50}
_BARE_FORK = "bare fork"
_MEASUREMENTS = ("start", "forked", "spare", "reuse", "1 MB in", "1 MB out", "60k floats in")
_INTERPRETER_SCRIPT = (
    "import json, sys; source, given = json.load(sys.stdin); space = {}; "
    "exec(source, space); json.dump(space['f'](**given), sys.stdout)"
)

Measure = Callable[[str, int], dict[str, Any]]


def run(*, quiet: bool = False, tiers: Iterable[str] = TIERS, calls: int = CALLS) -> dict[str, Any]:
    """Measure every tier and peer; prints lines unless ``quiet``. Returns ``{"rows": [...]}``."""
    subjects: dict[str, TierProcess] = {}
    skipped: list[dict[str, Any]] = []
    peers = _Peers()
    try:
        for name in tiers:
            tier = TierProcess(name)
            if tier.unavailable_reason:
                skipped.append({"way": _title(name), "skipped": tier.unavailable_reason})
            else:
                subjects[_title(name)] = tier
        rows = _measure(subjects, peers, calls)
    finally:
        peers.close()
        for tier in subjects.values():
            tier.close()
    if not peers.bwrap:
        skipped.append({"way": "bwrap", "skipped": "bubblewrap is not installed"})
    if not quiet:
        for row in [*rows, *skipped]:
            show(row)
    return {"rows": [*rows, *skipped]}


def _title(tier: str) -> str:
    return "no tier" if tier == "none" else f"tier {tier}"


def _measure(subjects: dict[str, TierProcess], peers: _Peers, calls: int) -> list[dict[str, Any]]:
    """Rows, after as many rounds as there are; each round asks every way for a part of its calls."""
    plan: list[tuple[str, str, Measure]] = [
        (way, what, tier.measure) for what in _MEASUREMENTS for way, tier in subjects.items()
    ]
    plan += [(_BARE_FORK, what, peers.forked) for what in ("forked", "1 MB in", "1 MB out", "60k floats in")]
    plan.append(("python -I", "forked", peers.interpreted))
    if peers.bwrap:
        plan.append(("bwrap", "forked", peers.wrapped))
    plan.sort(key=lambda entry: _MEASUREMENTS.index(entry[1]))
    gathered: dict[tuple[str, str], dict[str, Any]] = {}
    for number in range(min(_ROUNDS, calls)):
        # Backwards every second time: who follows whom should not matter.
        for way, what, measure in plan if number % 2 else reversed(plan):
            fewer = _CALL_DIVISORS.get(what) or _CALL_DIVISORS.get(way) or 1
            count = max(1, calls * _CALL_FACTORS.get(what, 1) // _ROUNDS // fewer)
            found = measure(what, count)
            into = gathered.setdefault((way, what), {"ms": [], "cpu_ms": 0.0})
            into["ms"] += found["ms"]
            into["cpu_ms"] = None if found["cpu_ms"] is None else into["cpu_ms"] + found["cpu_ms"]
    rows = [_row(way, what, gathered[way, what]) for way, what, _ in plan]
    bare = {row["what"]: row["p50_ms"] for row in rows if row["way"] == _BARE_FORK}
    for row in rows:
        peer = bare.get("forked" if row["what"] == "spare" else row["what"])
        if peer is not None:
            row["of_bare_fork"] = row["p50_ms"] / peer
    return rows


def _row(way: str, what: str, found: dict[str, Any]) -> dict[str, Any]:
    times = sorted(found["ms"])
    row: dict[str, Any] = {
        "way": way,
        "what": what,
        "calls": len(times),
        "p50_ms": statistics.median(times),
        "p99_ms": times[int(len(times) * 0.99)],
    }
    if found["cpu_ms"]:
        row["cpu_ms"] = found["cpu_ms"] / len(times)
    if what == "reuse":
        row["calls_per_second"] = 1000 * len(times) / sum(times)
        if found["cpu_ms"]:
            row["calls_per_core_second"] = 1000 * len(times) / found["cpu_ms"]
    return row


class TierProcess:
    """A process that measures one tier; ``missing`` says why this machine cannot."""

    def __init__(self, name: str) -> None:
        argv = [sys.executable, "-m", "benchmarks.confined", name]
        self._process = subprocess.Popen(
            command(argv) if name in ("B", "C") else argv,
            cwd=_ROOT,
            env=os.environ | {"PYTHONDONTWRITEBYTECODE": "1"},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        self.unavailable_reason = line.strip() or ("" if line else "its process ended")
        if self.unavailable_reason:
            self.close()

    def measure(self, what: str, count: int) -> dict[str, Any]:
        """See ``confined``. RuntimeError when the process ends instead."""
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.write(json.dumps({"what": what, "count": count}) + "\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError(f"the process that measures ended at {what!r}")
        return json.loads(line)

    def close(self) -> None:
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.close()
        self._process.wait()
        self._process.stdout.close()


class _Peers:
    """The same calls without a sandbox of ours."""

    def __init__(self) -> None:
        self.bwrap = shutil.which("bwrap")
        self._server = ForkServer()
        self._work = {what: (job.codes[job.entry].source, job.input) for what, job in confined.jobs().items()}

    def forked(self, what: str, count: int) -> dict[str, Any]:
        source, given = self._work[what]
        return self._timed(lambda: self._server.call(source, "f", given), count)

    def interpreted(self, what: str, count: int) -> dict[str, Any]:
        # The interpreter itself, not a virtual environment's link to it, as the sandbox does.
        return self._time_subprocess([os.path.realpath(sys.executable), "-I"], what, count)

    def wrapped(self, what: str, count: int) -> dict[str, Any]:
        argv = ["bwrap", "--unshare-all", "--ro-bind", "/", "/", "--proc", "/proc", "--dev", "/dev"]
        argv += ["--tmpfs", "/tmp", os.path.realpath(sys.executable), "-I"]
        return self._time_subprocess(argv, what, count)

    def _time_subprocess(self, argv: list[str], what: str, count: int) -> dict[str, Any]:
        said = json.dumps(self._work[what])

        def start() -> None:
            subprocess.run(
                [*argv, "-c", _INTERPRETER_SCRIPT], input=said, text=True, capture_output=True, check=True
            )

        return self._timed(start, count)

    def _timed(self, call: Callable[[], Any], count: int) -> dict[str, Any]:
        before = self._cpu()
        times: list[float] = []
        for _ in range(count):
            time.sleep(confined.PAUSE_SECONDS)
            start = time.perf_counter()
            call()
            times.append((time.perf_counter() - start) * 1000)
        return {"ms": times, "cpu_ms": (self._cpu() - before) * 1000}

    def _cpu(self) -> float:
        return sum(os.times()[:4]) + confined.cpu_seconds(self._server.pid)

    def close(self) -> None:
        self._server.close()


def show(row: dict[str, Any]) -> None:
    """One line for people."""
    if "skipped" in row:
        print(f"{row['way']:<10}skipped: {row['skipped']}", flush=True)
        return
    parts = [f"{row['what']:<14}{row['way']:<10}p50 {row['p50_ms']:>8.3f} ms  p99 {row['p99_ms']:>8.3f} ms"]
    for key, text in (
        ("cpu_ms", "cpu {:>7.3f} ms"),
        ("of_bare_fork", "{:.2f} x bare fork"),
        ("calls_per_second", "{:,.0f} calls/s on one core"),
        ("calls_per_core_second", "{:,.0f} a second of its time"),
    ):
        if key in row:
            parts.append(text.format(row[key]))
    print("  ".join(parts), flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.sandbox", description="What confinement costs, beside a bare fork."
    )
    parser.add_argument("--tier", choices=TIERS, action="append", help="default: all")
    parser.add_argument("--calls", type=int, default=CALLS, help=f"of most measurements (default: {CALLS})")
    parser.add_argument("--json", action="store_true", help="one JSON object")
    given = parser.parse_args()
    if given.calls < 1:
        parser.error("--calls must be positive")
    figures = run(quiet=given.json, tiers=given.tier or TIERS, calls=given.calls)
    if given.json:
        print(json.dumps({"benchmark": "sandbox", **figures}))
    return 0


if __name__ == "__main__":
    sys.exit(main())

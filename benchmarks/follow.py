"""From a saved file to its green run: how long `functory dev` takes to notice a change, save it and run it, beside a
fresh Python that runs the same file."""

from __future__ import annotations

import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from queue import Queue
from typing import Any

from functory.client.functory import Functory
from functory.engine.settings import Settings
from functory.project.follow import Follower

FUNCTIONS, EDITS = 100, 40
_FILE = "def f{n}(x: int) -> int:\n    return x + {value}\n"


def run(*, quiet: bool = False) -> dict[str, Any]:
    """Edit one of many functions again and again. Returns the figures, in milliseconds."""
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder) / "project"
        (root / "functions").mkdir(parents=True)
        for n in range(FUNCTIONS):
            _write(root, n, 0)
        figures = _edits(root, Settings(home=Path(folder) / ".functory"))
    if not quiet:
        print(f"\nFrom a saved file to its run, {FUNCTIONS} functions, {EDITS} edits (ms)")
        for name, one in figures.items():
            if isinstance(one, dict):
                print(f"  {name:<12} p50 {one['p50']:>7.0f}   p95 {one['p95']:>7.0f}")
        print(f"  a green run takes {figures['ratio']:.2f} times as long as a fresh Python on the same file")
    return figures


def _edits(root: Path, settings: Settings) -> dict[str, Any]:
    lines: Queue[tuple[float, str]] = Queue()
    saved: list[float] = []
    green: list[float] = []
    python: list[float] = []
    with Functory(settings) as engine:
        engine.start()
        follower = Follower(engine, root, lambda line: lines.put((time.perf_counter(), line)))
        began = time.perf_counter()
        follower.start()
        start = time.perf_counter() - began
        engine.call("f0", 1)
        for edit in range(1, EDITS + 1):
            file = _write(root, 0, edit)
            written = time.perf_counter()
            saved.append(_wait(lines, f"f0 v{edit + 1} saved") - written)
            green.append(_wait(lines, "last input ✓") - written)
            began = time.perf_counter()
            subprocess.run([sys.executable, "-c", f"exec(open({str(file)!r}).read())\nf0(1)"], check=True)
            python.append(time.perf_counter() - began)
        follower.stop()
    found: dict[str, Any] = {
        "saved": _quantiles(saved), "green run": _quantiles(green), "fresh Python": _quantiles(python)
    }  # fmt: skip
    return found | {
        "first round": {"p50": start * 1000, "p95": start * 1000},
        "ratio": statistics.median(green) / statistics.median(python),
    }


def _write(root: Path, n: int, value: int) -> Path:
    file = root / "functions" / f"f{n}.py"
    file.write_text(_FILE.format(n=n, value=value))
    return file


def _wait(lines: Queue[tuple[float, str]], words: str) -> float:
    """Return the time at which a line with these words was shown."""
    while True:
        at, line = lines.get(timeout=30)
        if words in line:
            return at


def _quantiles(seconds: list[float]) -> dict[str, float]:
    ordered = sorted(seconds)
    return {
        "p50": statistics.median(ordered) * 1000,
        "p95": ordered[min(len(ordered) - 1, int(len(ordered) * 0.95))] * 1000,
    }

"""Simulates the engine: `python -m tests.simulation --seeds 3000 --first 1 --jobs 2`; `--seed 7 --trace` repeats one
seed.

Prints the figures of all seeds, and for the first failed seeds the command that repeats them. The exit status is 1
when a seed failed.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from collections import Counter
from contextlib import ExitStack
from typing import Any

from tests.simulation.engine import mutants
from tests.simulation.engine.run import Simulation, Summary, run_many

# The environment variables of every process of the simulation.
ENVIRONMENT = {
    # The order of a set of texts depends on it, and later steps depend on that order: the seed alone must decide the
    # run.
    "PYTHONHASHSEED": "0",
    # mallopt(3): the process keeps freed memory. SQLite takes memory for each sort and frees it at once. Where the C
    # library returns it to the kernel each time, a query with many sorts takes 1.4 ms instead of 0.1 ms.
    "MALLOC_TRIM_THRESHOLD_": "67108864",
    "MALLOC_MMAP_THRESHOLD_": "4194304",
    "MALLOC_TOP_PAD_": "16777216",
}
# The number of failures that are printed in full.
REPORTED = 3


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.simulation", description="Simulate the engine.")
    parser.add_argument("--seeds", type=int, default=1000, help="number of seeds")
    parser.add_argument("--first", type=int, default=1, help="first seed")
    parser.add_argument(
        "--jobs", type=int, default=os.cpu_count() or 1, help="processes that share the seeds"
    )
    parser.add_argument("--seconds", type=float, help="begin no further seed after this time")
    parser.add_argument("--seed", type=int, help="run this seed alone")
    parser.add_argument(
        "--trace", action="store_true", help="with --seed: print every step, not only the last 40"
    )
    parser.add_argument(
        "--mutant", choices=[one.name for one in mutants.MUTANTS], help="run the engine with this defect"
    )
    parser.add_argument("--mutants", action="store_true", help="run every mutant until a seed catches it")
    parser.add_argument(
        "--usual", action="store_true", help="run statements through SQLAlchemy's connection: slower"
    )
    parser.add_argument("--json", action="store_true", help="print the summary as one line of JSON")
    given = parser.parse_args()
    if not os.environ.items() >= ENVIRONMENT.items():
        os.environ |= ENVIRONMENT
        os.execv(sys.executable, [sys.executable, "-m", "tests.simulation", *sys.argv[1:]])
    if given.mutants:
        return _try_mutants(given.seeds, given.first)
    with ExitStack() as stack:
        mutant = mutants.named(given.mutant) if given.mutant else None
        simulation = Simulation(mutant.alter if mutant else None, usual=given.usual)
        if mutant is not None:
            simulation.prepare()
            stack.enter_context(mutant.applied())
        if given.seed is not None:
            outcome = simulation.run(given.seed, trace=given.trace)
            print(outcome.report())
            return 1 if outcome.violations else 0
        if given.jobs > 1 and not given.json:
            return _share(given)
        seeds = range(given.first, given.first + given.seeds)
        return _tell(run_many(seeds, simulation=simulation, within=given.seconds), given.json)


def _tell(summary: Summary, as_json: bool) -> int:
    figures: dict[str, Any] = {
        "seeds": summary.seeds,
        "failed": len(summary.failed),
        "seconds": round(summary.seconds, 1),
        "processor_seconds": round(summary.processor_seconds, 1),
        "reports": [one.report() for one in summary.failed[:REPORTED]],
        "decks": summary.decks,
        "counts": summary.counts,
    }
    if as_json:
        print(json.dumps(figures))
    else:
        _print(figures, summary.seconds, 1)
    return 1 if summary.failed else 0


def _share(given: argparse.Namespace) -> int:
    """Divide the seeds among several processes. Returns the exit status."""
    start = time.perf_counter()
    size = -(-given.seeds // given.jobs)
    parts: list[subprocess.Popen[str]] = []
    for first in range(given.first, given.first + given.seeds, size):
        count = min(size, given.first + given.seeds - first)
        more = ["--mutant", given.mutant] if given.mutant else []
        more += ["--seconds", str(given.seconds)] if given.seconds is not None else []
        more += ["--usual"] if given.usual else []
        command = ["--first", str(first), "--seeds", str(count), "--json", *more]
        parts.append(
            subprocess.Popen(
                [sys.executable, "-m", "tests.simulation", *command], stdout=subprocess.PIPE, text=True
            )
        )
    total: dict[str, Any] = {"decks": Counter(), "counts": Counter(), "reports": []}
    for part in parts:
        reported, _ = part.communicate()
        if not reported:
            return 2
        figures = json.loads(reported)
        for name in ("decks", "counts"):
            total[name] += Counter(figures[name])
        total["reports"] += figures["reports"]
        for name in ("seeds", "failed", "processor_seconds"):
            total[name] = total.get(name, 0) + figures[name]
    _print(total, time.perf_counter() - start, len(parts))
    return 1 if total["failed"] else 0


def _print(figures: dict[str, Any], seconds: float, processes: int) -> None:
    for report in figures["reports"][:REPORTED]:
        print(report, end="\n\n")
    seeds = figures["seeds"]
    print(
        f"{seeds} seeds, {figures['failed']} failed; {seconds:.1f} s with {processes} processes: "
        f"{seeds / seconds * 60:,.0f} seeds/min, {seeds / figures['processor_seconds'] * 60:,.0f} "
        "a minute of one processor"
    )
    for name in ("decks", "counts"):
        print(f"{name}: " + ", ".join(f"{key} {value:,}" for key, value in sorted(figures[name].items())))


def _try_mutants(seeds: int, first: int) -> int:
    """Print the table of mutants: the number of seeds until each is caught, and the check that catches it."""
    missed = 0
    for mutant, summary in mutants.hunt(range(first, first + seeds)):
        caught = summary.failed[0] if summary.failed else None
        by = ", ".join(dict.fromkeys(code for code, _ in caught.violations)) if caught else "-"
        missed += caught is None
        print(f"| {mutant.name} | {summary.seeds if caught else 'not caught'} | {by} |", flush=True)
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())

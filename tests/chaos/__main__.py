"""Harms deployments of real processes while they work, and checks that the promise holds.

    python -m tests.chaos --seed 7 --broker redis --fault worker-kill9-group
    python -m tests.chaos --seeds 3 --broker all --fault all --nastiest 20 --jobs 3 --out runs.jsonl --table runs.md

Each run has a new database and namespace with two processes of every role, and prints one line of JSON. The exit
status is 1 when an invariant was violated or anything else was wrong. ``--out`` also appends the lines to a file.
Runs of the same clean commit that the file already has are not repeated. SIGTERM and Ctrl-C kill the current runs'
processes and servers; these runs print nothing.
"""

from __future__ import annotations

import argparse
import json
import random
import signal
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from tests.chaos import results_table
from tests.chaos.deployment import BROKERS, Servers
from tests.chaos.fault import PATIENCE_SECONDS, Fault, Stopped, named
from tests.chaos.run import commit, run

# The faults that came closest to breaking the promise, here or elsewhere: they get many seeds.
NASTIEST = (
    "worker-kill9-group",
    "worker-stop-resume-blind",
    "dispatcher-kill-after-publish",
    "router-kill-before-commit",
    "pg-immediate",
    "redis-restart-empty",
)


def main(arguments: list[str] | None = None) -> int:
    """Make the runs of the command line. Returns the exit status."""
    parser = argparse.ArgumentParser(prog="python -m tests.chaos", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("--seed", type=int, default=1, help="the first seed")
    parser.add_argument("--seeds", type=int, default=1, help="how many seeds, from the first on")
    parser.add_argument("--broker", choices=(*BROKERS, "all"), default="redis")
    parser.add_argument(
        "--fault",
        action="append",
        metavar="NAME",
        help="all, nastiest, or a name; may be given several times",
    )
    parser.add_argument(
        "--nastiest",
        type=int,
        default=0,
        metavar="SEEDS",
        help="and the nastiest faults with this number of seeds",
    )
    parser.add_argument("--n", type=int, default=20, help="pieces of work given from outside (default 20)")
    parser.add_argument("--jobs", type=int, default=1, help="runs at a time")
    parser.add_argument(
        "--max-seconds", type=float, default=PATIENCE_SECONDS, help="to come to rest after the harm"
    )
    parser.add_argument("--out", type=Path, help="file that the lines are appended to")
    parser.add_argument("--table", type=Path, help="write all lines of --out as a Markdown table")
    parser.add_argument("--list", action="store_true", help="print the faults and end")
    given = parser.parse_args(arguments)
    if given.list:
        for fault in named(["all"]):
            print(f"{fault.name:34} {' '.join(fault.brokers)}")
        return 0
    brokers = BROKERS if given.broker == "all" else (given.broker,)
    wanted = [(_faults(given.fault or ["none"]), given.seeds), (_faults(["nastiest"]), given.nastiest)]
    runs = list(
        dict.fromkeys(
            (fault, broker, seed)
            for faults, seeds in wanted
            for seed in range(given.seed, given.seed + seeds)
            for fault in faults
            for broker in brokers
            if broker in fault.brokers
        )
    )
    if not runs:
        parser.error(f"{', '.join(given.fault or ['none'])} cannot be run with {given.broker}")
    failed = _all(runs, given)
    if given.table is not None:
        lines = results_table.read(given.out) if given.out is not None else []
        given.table.write_text(results_table.markdown(lines))
    return 1 if failed else 0


def _faults(names: list[str]) -> list[Fault]:
    if "nastiest" in names:
        known = {fault.name for fault in named(["all"])}
        names = [name for name in names if name != "nastiest"] + [n for n in NASTIEST if n in known]
    return named(names)


def _all(runs: list[tuple[Fault, str, int]], given: argparse.Namespace) -> int:
    """Make all runs, ``--jobs`` at a time. Returns the number of failed runs."""
    tested = commit()
    lock = threading.Lock()
    before: list[dict[str, Any]] = results_table.read(given.out) if given.out is not None else []
    same = [line for line in before if line["commit"] == tested and not tested.endswith("-dirty")]
    done = {(line["fault"], line["broker"], line["seed"]) for line in same}
    runs = [one for one in runs if (one[0].name, one[1], one[2]) not in done]
    # Neighbours in the list harm the same thing. They are spread, so that they do not all wait at the same time.
    random.Random(given.seed).shuffle(runs) if given.jobs > 1 else None
    failed = 0
    stop = threading.Event()

    def one(fault: Fault, broker: str, seed: int) -> None:
        nonlocal failed
        try:
            line = run(
                fault,
                broker,
                seed,
                servers,
                n=given.n,
                max_seconds=given.max_seconds,
                commit=tested,
                stop=stop,
            )
        except Stopped:
            return
        with lock:
            failed += bool(line["violations"] or line["complaints"])
            text = json.dumps(line)
            print(text, flush=True)
            if given.out is not None:
                with given.out.open("a") as file:
                    file.write(text + "\n")

    def end(number: int, _frame: object) -> None:
        # A second signal must not interrupt the clean-up.
        for each in (signal.SIGTERM, signal.SIGINT):
            signal.signal(each, signal.SIG_IGN)
        stop.set()
        sys.exit(128 + number)

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, end)
    with Servers() as servers, ThreadPoolExecutor(given.jobs) as pool:
        try:
            for future in [pool.submit(one, *what) for what in runs]:
                future.result()
        finally:
            pool.shutdown(cancel_futures=True)
    return failed


if __name__ == "__main__":
    sys.exit(main())

"""The simulated engine keeps its promise under the faults of many seeds."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

from tests.simulation.__main__ import ENVIRONMENT
from tests.simulation.engine.run import commit
from tests.support.thoroughness import amount

# The number depends on the time: a slow machine tests fewer seeds. Each commit has other seeds.
SEEDS = amount(20, 2000)
SECONDS = amount(10, 60)
# A process needs as long for its start as for the few seeds.
JOBS = amount(1, 2)


def simulate(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "tests.simulation", *arguments],
        capture_output=True,
        text=True,
        check=False,
        # With these variables at its start, it need not start a second time.
        env=os.environ | ENVIRONMENT,
    )


@pytest.mark.timeout(900)
def test_every_seed_keeps_the_promise():
    # The seeds follow from the commit.
    first = int(commit()[:7], 16) if commit() != "unknown" else 1
    print(f"seeds from {first}")
    done = simulate(
        "--seeds", str(SEEDS), "--seconds", str(SECONDS), "--first", str(first), "--jobs", str(JOBS)
    )
    assert done.returncode == 0, done.stdout[-8000:] + done.stderr[-4000:]


def test_a_seed_is_the_same_run_every_time():
    # The first line names the commit that is checked out.
    first, second = (simulate("--seed", "7", "--trace").stdout.splitlines()[1:] for _ in range(2))
    assert first == second
    assert first[-1].strip() == "again: python -m tests.simulation --seed 7 --trace"


def test_statements_come_to_the_same_without_sqlalchemy_between():
    # Most statements have a plan after a few seeds. The figures of a run depend on every row that it read.
    direct, usual = (
        simulate("--seeds", "40", "--jobs", "1", "--json", *more).stdout for more in ([], ["--usual"])
    )
    direct, usual = json.loads(direct), json.loads(usual)
    assert direct["failed"] == usual["failed"] == 0
    assert direct["counts"] == usual["counts"]

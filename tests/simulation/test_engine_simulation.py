"""The simulated engine keeps its promise under the faults of many seeds."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable

import pytest

from tests.services.missing_servers import strict
from tests.simulation.__main__ import ENVIRONMENT
from tests.simulation.engine.run import Simulation, commit
from tests.simulation.engine.world import World
from tests.support.thoroughness import LEFT_OUT, amount

# Each commit has other seeds. A slow machine may test fewer of them, and says so; with STRICT=1 it tests them all.
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


def limits(seeds: int, seconds: float) -> list[str]:
    """The options for this number of seeds: with STRICT=1 without a limit of time."""
    return ["--seeds", str(seeds), *([] if strict() else ["--seconds", str(seconds)])]


def shortfall(output: str, seeds: int) -> str:
    """What the output of the simulation says about seeds that were not run; empty when all were."""
    ran = re.search(r"^(\d+) seeds, ", output, re.MULTILINE)
    assert ran is not None, output
    if int(ran[1]) == seeds:
        return ""
    return f"simulation: {ran[1]} of {seeds} seeds were run in the time; STRICT=1 runs all of them"


@pytest.mark.timeout(1800)
def test_every_seed_keeps_the_promise(record_property: Callable[[str, object], None]) -> None:
    # The seeds follow from the commit.
    first = int(commit()[:7], 16) if commit() != "unknown" else 1
    print(f"seeds from {first}")
    done = simulate(*limits(SEEDS, SECONDS), "--first", str(first), "--jobs", str(JOBS))
    assert done.returncode == 0, done.stdout[-8000:] + done.stderr[-4000:]
    if left_out := shortfall(done.stdout, SEEDS):
        assert not strict(), left_out
        record_property(LEFT_OUT, left_out)


def test_seeds_that_were_not_run_are_named_and_strict_has_no_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("STRICT", raising=False)
    output = "seeds from 7\n12 seeds, 0 failed; 60.0 s with 2 processes\n"
    assert shortfall(output, 50).startswith("simulation: 12 of 50 seeds")
    assert shortfall(output, 12) == ""
    assert limits(50, 10) == ["--seeds", "50", "--seconds", "10"]
    monkeypatch.setenv("STRICT", "1")
    assert limits(50, 10) == ["--seeds", "50"]


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


def test_wakeups_of_transactions_reach_the_simulated_world(monkeypatch: pytest.MonkeyPatch) -> None:
    topics: set[str] = set()
    signal = World.signal
    monkeypatch.setattr(World, "signal", lambda world, woken: (topics.update(woken), signal(world, woken))[1])
    simulation = Simulation()
    simulation.prepare()
    assert simulation.run(1).violations == []
    assert {"events", "executions", "finished"} <= topics

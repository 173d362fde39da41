"""Random kills of children, zygotes, shims and the worker leave nothing, and lose no execution.

``make leaks`` runs ten thousand executions. These few cover every sort of execution and every role that is killed.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from functory.workers.sandbox.protocol.job import Outcome
from tests.chaos import leaks, leftover_resources
from tests.chaos.execution_kinds import Sorts
from tests.support.tier_marks import every
from tests.support.waiting import wait_for

ROOT = Path(__file__).resolve().parents[2]
EXECUTIONS = {"A": 200, "B": 100, "C": 100}
BATCHES = 4
SEED = 11  # the worker is killed in three of the four batches
MARK = "73194628"


@every
def test_random_kills_leave_nothing_and_lose_no_execution(tier):
    executions = EXECUTIONS[tier]
    arguments = [
        *("--tier", tier),
        *("--executions", str(executions)),
        *("--batch", str(executions // BATCHES)),
        *("--seed", str(SEED)),
    ]
    done = subprocess.run(
        [sys.executable, "-m", "tests.chaos.leaks", "--json", *arguments],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    report = json.loads(done.stdout or "{}")
    assert report.get("problems") == [], done.stderr[-2000:]
    assert done.returncode == 0
    # The seed kills a process of every important role, and lets most executions succeed.
    assert report["kills"].keys() >= {"child", "zygote", "worker"}
    assert report["statuses"]["succeeded"] > executions / 2


def test_what_is_left_is_found(tmp_path):
    before = leftover_resources.processes(MARK)
    left = subprocess.Popen(["sleep", f"600.{MARK}"])
    try:
        # The arguments of a process are visible shortly after its start.
        wait_for(lambda: leftover_resources.processes(MARK))
        found = leftover_resources.processes(MARK)
        assert (before, [each.pid for each in found]) == ([], [left.pid])
        assert leftover_resources.kill(found[0], MARK)
        left.wait()
        assert not leftover_resources.kill(found[0], MARK)
        assert leftover_resources.processes(MARK) == []
    finally:
        left.kill()
        left.wait()
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "file").touch()
    assert leftover_resources.files(tmp_path) == ["run", "run/file"]


def test_a_leak_fails_the_run(monkeypatch):
    """The leak here is a process with the mark that does not end."""
    monkeypatch.setattr(leaks, "_GONE_SECONDS", 0.2)
    chaos = leaks.Chaos("none", 1)
    left = subprocess.Popen(["sleep", f"600.{chaos._mark}"])
    try:
        report = chaos.run(2, 2)
    finally:
        left.kill()
        left.wait()
    assert any(str(left.pid) in problem for problem in report.problems)


@pytest.mark.parametrize(
    ("status", "kind", "wrong"),
    [("succeeded", None, True), ("crashed", "Crashed", False), ("timed_out", "TimedOut", True)],
)
def test_an_end_that_kills_do_not_explain_is_a_problem(status, kind, wrong):
    sorts = Sorts("A", MARK)
    task = next(t for t in (sorts.draw(n, 1, False) for n in range(100)) if t.sort == "plain")
    error = None if kind is None else {"type": kind, "message": ""}
    outcome = Outcome(status=status, result="another's", error=error)
    assert bool(task.problem(outcome)) == wrong

"""A chaos run that is asked to end leaves nothing behind."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from tests.services.missing_servers import require
from tests.services.server import is_alive
from tests.support.patience import patient
from tests.support.waiting import wait_for

ROOT = Path(__file__).resolve().parents[2]


# The server of forks and six roles, which are its forks (``tests/support/console_script.py``).
PROCESSES = 7


def is_fork(process: psutil.Process) -> bool:
    """True for the server of forks and its forks."""
    try:
        return "tests.support.fork_server" in process.cmdline()
    except psutil.Error:
        return False


@pytest.mark.postgres
@pytest.mark.timeout(300)
def test_a_runner_that_is_asked_to_end_leaves_no_process_and_no_folder(tmp_path):
    # The runner has a server of its own.
    require("postgres")
    # The result of a run that was ended is no result.
    results = tmp_path / "runs.jsonl"
    runner = subprocess.Popen(
        [sys.executable, "-m", "tests.chaos", "--broker", "none", "--n", "10000", "--out", str(results)],
        cwd=ROOT,
        env=dict(psutil.Process().environ(), TMPDIR=str(tmp_path)),
        stdout=subprocess.DEVNULL,
    )
    try:
        family = psutil.Process(runner.pid)

        def started() -> list[psutil.Process]:
            """Every process of the runner, once all roles live."""
            found = family.children(recursive=True)
            return found if sum(map(is_fork, found)) >= PROCESSES else []

        found = wait_for(started, seconds=120)
        runner.send_signal(signal.SIGTERM)
        # A supervisor that is in a hurry sends it twice.
        runner.send_signal(signal.SIGTERM)
        assert runner.wait(patient(120)) == 128 + signal.SIGTERM
        wait_for(lambda: not any(is_alive(each) for each in found))
        assert not list(tmp_path.glob("chaos-*")) and not results.exists()
    finally:
        runner.kill()
        runner.wait()

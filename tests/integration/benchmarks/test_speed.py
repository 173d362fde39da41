"""The benchmark of the speed, with a few events."""

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import psutil

from benchmarks.speed import cpu
from benchmarks.speed.__main__ import main
from benchmarks.speed.line_process import ROOT
from benchmarks.speed.marks import Marks
from tests.support.patience import patient

SMALL = ["--events", "20", "--pairs", "1", "--stream-seconds", "0.2", "--calls", "3", "--peers", "celery"]


def test_the_last_line_is_one_object_with_the_main_figures(capsys, tmp_path: Path) -> None:
    assert main(["--deployments", "embedded", "--folder", str(tmp_path), "--json", *SMALL]) == 0
    printed = capsys.readouterr()
    found = json.loads(printed.out.splitlines()[-1])
    for name in ("executions_per_second", "p50_ms", "p99_ms", "cpu_ms_per_execution"):
        assert found[name] > 0, name
    for name in ("ratio_to_celery", "statements_per_execution"):
        assert name in found
    # The table is beside it, and says what was left out.
    assert "embedded, SQLite" in printed.err
    assert "without celery" in printed.err


def test_cpu_of_a_child_that_has_ended_still_counts() -> None:
    busy = "import time\nwhile time.process_time() < 0.15: pass\n"
    program = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {busy!r}]); print(1, flush=True); input()"
    with subprocess.Popen(
        [sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as parent:
        assert parent.stdout is not None
        parent.stdout.readline()
        assert cpu.children_ms(parent.pid) >= 100
        assert cpu.tree_ms(parent.pid) >= cpu.own_ms(parent.pid) + 100
        assert cpu.tree_ms(parent.pid, without=[parent.pid]) == 0
        parent.communicate(b"\n")
    assert cpu.tree_ms(parent.pid) == 0


def test_marks_are_seen_by_another_process(tmp_path: Path) -> None:
    marks = Marks(tmp_path / "marks", 3)
    other = Marks(tmp_path / "marks")
    before = time.time()
    for number in (2, 0, 1):
        other.times[number] = time.time()
    assert before <= marks.wait(3) <= time.time()
    marks.clear()
    assert list(other.times) == [0, 0, 0]


def test_the_disk_is_measured(tmp_path: Path) -> None:
    from benchmarks.speed.disk import fsync_ms

    assert fsync_ms(tmp_path) > 0
    assert list(tmp_path.iterdir()) == []


def test_a_run_that_is_ended_leaves_no_process(tmp_path: Path) -> None:
    environment = os.environ | {"TMPDIR": str(tmp_path)}
    command = [sys.executable, "-m", "benchmarks.speed", "--deployments", "embedded", *SMALL]
    with subprocess.Popen(command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, text=True) as run:
        assert run.stdout is not None
        while "warming up" not in run.stdout.readline():
            assert run.poll() is None
        below = psutil.Process(run.pid).children(recursive=True)
        assert below
        run.terminate()
        run.communicate()
    assert run.returncode == 143
    assert not psutil.wait_procs(below, timeout=patient(20))[1]

"""The runner survives many threads, lost zygotes and forks of the worker, and leaves nothing behind."""

# ruff: noqa: E501 - sources of functions stand in the tests as their authors would write them

from __future__ import annotations

import gc
import os
import resource
import signal
import subprocess
import sys
import tempfile
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from functory.engine.errors import Unavailable
from functory.workers.sandbox.pool.pool import Options
from functory.workers.sandbox.runner import Runner
from tests.support.patience import patient
from tests.support.runner_world import FakeHost, alive, children, job, open_files, printed
from tests.support.waiting import wait_for

ROOT = str(Path(__file__).resolve().parents[4])


def test_hundreds_of_runs_leave_no_descriptor_process_thread_or_folder(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    runner = Runner(options=Options(spares=0))
    runner.start()
    source = "from functory import call\ndef f(n):\n    print(n)\n    return call('g', n)"
    host = FakeHost(g=lambda n: n)
    # As many control groups as burials may overlap are made once.
    for _ in range(20):
        assert runner.run(job(source, input={"n": 0}), host).result == 0
    zygote = runner.zygote_pid
    (base,) = tmp_path.iterdir()
    wait_for(lambda: children(zygote) == [])
    gc.collect()
    before = open_files(), open_files(zygote), threading.active_count()
    for n in range(200):
        assert runner.run(job(source, input={"n": n}), host).result == n
    gc.collect()
    wait_for(lambda: threading.active_count() <= before[2])
    # When the numbers were taken, the last of the first children may not have been buried yet.
    wait_for(lambda: open_files() <= before[0] and open_files(zygote) <= before[1])
    wait_for(lambda: children(zygote) == [])
    wait_for(lambda: list(base.iterdir()) == [])
    runner.close()
    assert not alive(zygote)
    assert not base.exists()


def test_many_threads_share_one_zygote():
    with Runner() as runner:
        host = FakeHost(g=lambda n: n + 1)
        source = "from functory import call\ndef f(n):\n    print(n)\n    return call('g', n)"

        def twenty(offset):
            outcomes = [runner.run(job(source, input={"n": offset + n}), host) for n in range(20)]
            return [(outcome.result, printed(outcome)) for outcome in outcomes]

        with ThreadPoolExecutor(4) as pool:
            results = list(pool.map(twenty, range(0, 400, 100)))
        for offset, got in zip(range(0, 400, 100), results, strict=True):
            assert got == [(offset + n + 1, [str(offset + n)]) for n in range(20)]


def test_a_killed_zygote_loses_its_runs_as_crashed_and_the_next_run_works():
    started = threading.Event()
    source = "import time\nfrom functory import call\ndef f():\n    call('started')\n    time.sleep(60)"
    with Runner() as runner, ThreadPoolExecutor(1) as pool:
        lost = pool.submit(runner.run, job(source), FakeHost(started=started.set))
        assert started.wait(patient(20))
        zygote = runner.zygote_pid
        os.kill(zygote, signal.SIGKILL)
        outcome = lost.result(timeout=patient(20))
        assert (outcome.status, outcome.signal, outcome.kill_reason) == ("crashed", 9, "zygote_lost")
        wait_for(lambda: not alive(outcome.pid))
        assert runner.run(job("def f():\n    return 'again'"), FakeHost()).result == "again"
        assert runner.zygote_pid != zygote


def test_a_zygote_that_died_unnoticed_costs_no_run():
    with Runner() as runner:
        runner.start()
        os.kill(runner.zygote_pid, signal.SIGKILL)
        assert runner.run(job("def f():\n    return 1"), FakeHost()).result == 1


def test_a_function_that_kills_its_zygote_is_the_one_that_crashes():
    with Runner(tier="none") as runner:
        outcome = runner.run(
            job("import os, time\ndef f():\n    os.kill(os.getppid(), 9)\n    time.sleep(60)"), FakeHost()
        )
        assert (outcome.status, outcome.kill_reason) == ("crashed", "zygote_lost")
        assert runner.run(job("def f():\n    return 1"), FakeHost()).result == 1


def sockets() -> set[str]:
    """Return the sockets that this process holds, by their inode."""
    held = set()
    for entry in Path("/proc/self/fd").iterdir():
        with suppress(OSError):
            target = str(entry.readlink())
            if target.startswith("socket:"):
                held.add(target)
    return held


def test_a_copy_of_the_worker_made_by_fork_uses_a_zygote_of_its_own():
    before = sockets()
    with Runner() as runner:
        runner.start()
        control = sockets() - before
        assert control
        zygote = runner.zygote_pid
        reading, writing = os.pipe()
        pid = os.fork()
        if pid == 0:
            code = 1
            try:
                # Holding on to the control socket would keep the original's zygote from noticing its end.
                assert not control & sockets()
                outcome = runner.run(job("def f():\n    return 'copy'"), FakeHost())
                os.write(writing, f"{outcome.result} {runner.zygote_pid}".encode())
                runner.close()
                code = 0
            finally:
                os._exit(code)
        assert os.waitpid(pid, 0)[1] == 0
        result, other = os.read(reading, 100).decode().split()
        os.close(reading)
        os.close(writing)
        assert result == "copy"
        assert int(other) != zygote
        assert not alive(int(other))
        assert runner.zygote_pid == zygote
        assert runner.run(job("def f():\n    return 'original'"), FakeHost()).result == "original"


def test_closing_ends_the_runs_in_progress_and_refuses_new_ones():
    started = threading.Event()
    runner = Runner()
    source = "import time\nfrom functory import call\ndef f():\n    call('started')\n    time.sleep(60)"
    with ThreadPoolExecutor(1) as pool:
        lost = pool.submit(runner.run, job(source), FakeHost(started=started.set))
        assert started.wait(patient(20))
        runner.close()
        outcome = lost.result(timeout=patient(20))
    assert outcome.status == "crashed"
    assert not alive(outcome.pid)
    with pytest.raises(Unavailable, match="the runner is closed"):
        runner.run(job("def f(): pass"), FakeHost())
    runner.close()


def test_a_worker_that_is_killed_takes_its_zygote_children_and_folders_along():
    worker = subprocess.Popen(
        [
            sys.executable,
            "-c",
            "import os, sys\n"
            "from tests.support.runner_world import *\n"
            "from functory.workers.sandbox.runner import Runner\n"
            "runner = Runner(tier='none'); runner.start()\n"
            'source = \'import os, time\\nfrom functory import call\\ndef f():\\n call("at", os.getpid(), os.getcwd())\\n'
            " time.sleep(60)'\n"
            "def at(pid, folder): print('at', runner.zygote_pid, pid, folder, flush=True)\n"
            "runner.run(job(source), FakeHost(at=at))\n",
        ],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        line = worker.stdout.readline()
        while line and not line.startswith("at "):
            line = worker.stdout.readline()
        _, zygote, child, folder = line.split()
        assert alive(int(zygote)) and alive(int(child))
    finally:
        worker.kill()
        worker.communicate()
    wait_for(lambda: not alive(int(zygote)) and not alive(int(child)))
    wait_for(lambda: not Path(folder).parent.exists())


def test_a_worker_that_is_killed_while_its_zygote_starts_leaves_no_folder(tmp_path):
    worker = subprocess.Popen(
        [sys.executable, "-c", "from functory.workers.sandbox.runner import Runner; Runner().start()"],
        cwd=ROOT,
        env={**os.environ, "TMPDIR": str(tmp_path)},
        stdout=subprocess.DEVNULL,
    )
    try:
        wait_for(lambda: children(worker.pid) and list(tmp_path.iterdir()))
    finally:
        worker.kill()
        worker.wait()
    wait_for(lambda: not list(tmp_path.iterdir()))


def test_a_runner_that_confines_nothing_says_so_loudly_and_once():
    runner = Runner(tier="none")
    with capture_logs() as logs:
        runner.start()
        runner.run(job("def f(): pass"), FakeHost())
    runner.close()
    assert runner.tier == "none"
    assert [(log["event"], log["log_level"]) for log in logs] == [("isolation is off", "warning")]


def test_a_zygote_that_cannot_start_is_an_outcome_and_start_says_why(monkeypatch):
    monkeypatch.setattr(sys, "executable", "/bin/false")
    runner = Runner()
    with pytest.raises(Unavailable, match="cannot be confined on this machine"):
        runner.start()
    outcome = runner.run(job("def f(): pass"), FakeHost())
    assert (outcome.status, outcome.error["type"]) == ("sandbox_error", "Unavailable")
    runner.close()


def test_a_clock_of_the_test_rules_the_limits():
    now = [0.0]
    runner = Runner(monotonic=lambda: now[0])

    source = "import time\nfrom functory import emit\ndef f():\n    emit('jump')\n    return 1"
    host = FakeHost()
    host.emit = lambda *_: now.__setitem__(0, 25.0)
    outcome = runner.run(job(source), host)
    runner.close()
    assert (outcome.status, outcome.duration_seconds) == ("timed_out", 25.0)


def test_a_run_for_which_there_is_no_descriptor_has_an_outcome():
    with Runner(options=Options(spares=0)) as runner:
        runner.start()
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        # The limit is on the number of a descriptor: gaps below it could be used.
        gc.collect()
        lowest_free = os.dup(0)
        os.close(lowest_free)
        resource.setrlimit(resource.RLIMIT_NOFILE, (lowest_free, hard))
        try:
            outcome = runner.run(job("def f(): return 1"), FakeHost())
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        # It depends on what was opened last who says so.
        assert outcome.status == "sandbox_error"
        assert "Too many open files" in outcome.error["message"]
        assert runner.run(job("def f(): return 1"), FakeHost()).result == 1

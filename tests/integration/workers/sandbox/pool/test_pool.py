"""The pool starts, replaces and ends zygotes, spares and warm children over time."""

from __future__ import annotations

import os
import signal
import tempfile
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from functory.workers.sandbox.confinement import scratch
from functory.workers.sandbox.confinement.seccomp.filter import architecture
from functory.workers.sandbox.confinement.seccomp.syscall_numbers import NUMBERS
from functory.workers.sandbox.pool.pool import Options
from functory.workers.sandbox.protocol.job import ChildGrants, ChildLimits
from functory.workers.sandbox.runner import Runner
from tests.support.patience import patient
from tests.support.runner_world import FakeHost, alive, children, code, job, printed
from tests.support.waiting import wait_for

HASH = "def f():\n    return hash('which zygote')"


def result(runner, task, host=None):
    outcome = runner.run(task, host or FakeHost())
    assert outcome.status == "succeeded", outcome.error
    return outcome.result


def asleep(pid: int) -> bool:
    """Return True if a child waits for its task: in a read, after all of its own work."""
    return Path(f"/proc/{pid}/syscall").read_text().split()[0] == str(NUMBERS[architecture()]["read"])


def spares(runner) -> list[str]:
    """Return the children of the plain zygote while nothing runs."""
    return children(runner.zygote_pid)


def test_a_kind_in_use_has_a_spare_that_takes_the_next_execution():
    with Runner(options=Options(spares=1)) as runner:
        spent = {str(runner.run(job(HASH), FakeHost()).pid) for _ in range(2)}
        # A child that has run is removed shortly after, and may be the only child until the spare is forked.
        wait_for(lambda: (there := spares(runner)) and not spent & set(there))
        (waiting,) = spares(runner)
        assert runner.run(job(HASH), FakeHost()).pid == int(waiting)
        wait_for(lambda: len(spares(runner)) == 1 and spares(runner) != [waiting])


VISIBLE = """
import collections, gc, linecache, os, random, signal, sys, threading
def f():
    kinds = collections.Counter(f"{type(o).__module__}.{type(o).__name__}" for o in gc.get_objects())
    return {
        "practised": gc.get_stats()[2]["collections"],
        "same": {
            "modules": sorted(sys.modules),
            "files": [n for n in range(60) if not _closed(n)],
            "lines": sorted(linecache.cache),
            "threads": [t.name for t in threading.enumerate()],
            "random": random.random(),
            "environment": dict(os.environ),
            "folder": [os.getcwd(), os.listdir()],
            "signals": [str(signal.getsignal(n)) for n in range(1, 32)],
            "functions": sorted(o.__name__ for o in gc.get_objects() if type(o) is type(f)),
            # Without the zygote's handles on children that live beside this one.
            "kinds": sorted(k for k in kinds if not k.startswith("socket.") and "zygote" not in k),
        },
    }
def _closed(n):
    try:
        os.fstat(n)
    except OSError:
        return True
"""


def test_a_spare_practises_and_leaves_nothing_that_a_function_could_see():
    with Runner(options=Options(spares=1)) as runner:
        fresh = result(runner, job(VISIBLE))
        used = {str(runner.run(job(HASH), FakeHost()).pid)}
        wait_for(lambda: (there := spares(runner)) and not used & set(there))
        waiting = int(spares(runner)[0])
        # It practises before it takes the task, or not at all if the task is there already.
        wait_for(lambda: asleep(waiting))
        outcome = runner.run(job(VISIBLE), FakeHost())
    assert outcome.pid == waiting
    assert outcome.result["practised"] > fresh["practised"]
    assert outcome.result["same"] == fresh["same"]


def test_no_spares_when_none_are_wanted():
    with Runner(options=Options(spares=0)) as runner:
        for _ in range(5):
            result(runner, job(HASH))
        wait_for(lambda: spares(runner) == [])


def test_a_spare_that_died_waiting_costs_no_execution():
    with Runner() as runner:
        spent = {str(runner.run(job(HASH), FakeHost()).pid) for _ in range(2)}
        wait_for(lambda: (there := spares(runner)) and not spent & set(there))
        os.kill(int(spares(runner)[0]), signal.SIGKILL)
        assert isinstance(result(runner, job(HASH)), int)


def test_a_zygote_whose_folder_is_gone_is_replaced_and_costs_no_execution():
    """The folder is gone between the end of a zygote and the end of its init process."""

    def folders() -> set[Path]:
        return set(Path(tempfile.gettempdir()).glob(f"functory-run-{os.getpid()}-*"))

    before = folders()
    # Tiers A and B mount a folder for each child, and need no other.
    with Runner(tier="none", options=Options(spares=0)) as runner:
        first = result(runner, job(HASH))
        (folder,) = folders() - before
        scratch.remove(str(folder))
        second = result(runner, job(HASH))
        assert second != first
        assert result(runner, job(HASH)) == second
    assert folders() <= before


def test_a_spare_made_for_other_limits_is_not_taken():
    limits = [ChildLimits(memory_bytes=size * 1024 * 1024) for size in (200, 300)]
    source = "import resource\ndef f():\n    return resource.getrlimit(resource.RLIMIT_AS)[0]"
    with Runner() as runner:
        for _ in range(3):
            got = [result(runner, job(source, limits=each)) for each in limits]
            assert got == [each.memory_bytes for each in limits]


@pytest.mark.parametrize(
    "other",
    [
        {"trust_domain": "made"},
        {"grants": ChildGrants(hosts=("api.example.com:443",))},
        {"grants": ChildGrants(read=("/usr/share",))},
        {"grants": ChildGrants(subprocess=True)},
    ],
    ids=["domain", "hosts", "files", "subprocess"],
)
def test_executions_of_different_domains_and_grants_never_share_a_zygote(other):
    with Runner() as runner:
        first = {result(runner, job(HASH)) for _ in range(3)}
        second = {result(runner, job(HASH, **other)) for _ in range(3)}
    # Children of one zygote have one hash seed: which distinguishes them.
    assert (len(first), len(second)) == (1, 1)
    assert first != second


def test_a_zygote_is_replaced_after_its_executions_and_no_execution_waits_or_fails():
    with Runner(options=Options(zygote_executions=5, spares=1)) as runner:
        seen = [result(runner, job(HASH)) for _ in range(60)]
        first = seen[0]
        wait_for(lambda: result(runner, job(HASH)) != first)
        assert len(set(seen)) < 30


def test_a_zygote_is_replaced_when_it_is_old():
    now = [0.0]
    with Runner(monotonic=lambda: now[0], options=Options(zygote_seconds=100)) as runner:
        first = result(runner, job(HASH))
        now[0] = 99.0
        assert result(runner, job(HASH)) == first
        now[0] = 101.0
        wait_for(lambda: result(runner, job(HASH)) != first)


def test_too_many_zygotes_end_the_one_that_was_used_the_longest_ago():
    with Runner(options=Options(zygotes=2, spares=0)) as runner:
        hashes = {
            name: result(runner, job(HASH, trust_domain=name)) for name in ("one", "two", "three", "four")
        }
        assert result(runner, job(HASH, trust_domain="four")) == hashes["four"]
        assert result(runner, job(HASH, trust_domain="one")) != hashes["one"]


def test_a_zygote_with_a_running_execution_is_not_ended_for_another():
    begun, go_on = threading.Event(), threading.Event()
    source = "from functory import call\ndef f():\n    call('wait')\n    return 'done'"

    def wait():
        begun.set()
        assert go_on.wait(patient(30))

    with Runner(options=Options(zygotes=1)) as runner, ThreadPoolExecutor(1) as pool:
        running = pool.submit(runner.run, job(source, trust_domain="long"), FakeHost(wait=wait))
        assert begun.wait(patient(30))
        for name in ("a", "b", "c"):
            result(runner, job(HASH, trust_domain=name))
        go_on.set()
        assert running.result(timeout=patient(30)).result == "done"


COUNTER = """
seen = []
def f(x):
    seen.append(x)
    print("run", len(seen))
    return len(seen)
"""


def test_a_warm_runner_keeps_what_its_version_has_in_memory():
    with Runner() as runner:
        outcomes = [runner.run(job(COUNTER, input={"x": n}, reuse=True), FakeHost()) for n in range(5)]
    assert [outcome.result for outcome in outcomes] == [1, 2, 3, 4, 5]
    assert len({outcome.pid for outcome in outcomes}) == 1
    assert [printed(outcome) for outcome in outcomes] == [[f"run {n}"] for n in range(1, 6)]


def test_without_reuse_nothing_is_kept():
    with Runner() as runner:
        assert [result(runner, job(COUNTER, input={"x": n})) for n in range(3)] == [1, 1, 1]


def test_a_warm_runner_serves_one_version_with_one_set_of_grants_and_limits():
    with Runner() as runner:
        for _ in range(2):
            result(runner, job(COUNTER, input={"x": 1}, reuse=True))
        for other in (
            job(code(COUNTER, version=2), input={"x": 1}, reuse=True),
            job(COUNTER, input={"x": 1}, reuse=True, trust_domain="made"),
            job(COUNTER, input={"x": 1}, reuse=True, grants=ChildGrants(read=("/usr/share",))),
            job(COUNTER, input={"x": 1}, reuse=True, limits=ChildLimits(threads=3)),
        ):
            assert result(runner, other) == 1


@pytest.mark.parametrize(
    "spoil", ["raise ValueError(x)", "import os; os._exit(0)", "while True: pass", "return {1: 2}[x]"]
)
def test_a_failure_ends_a_warm_runner(spoil):
    source = (
        f"seen = []\ndef f(x):\n    seen.append(x)\n    if x == 9:\n        {spoil}\n    return len(seen)"
    )
    quick = ChildLimits(wall_seconds=1.0)
    with Runner() as runner:
        assert [result(runner, job(source, input={"x": n}, reuse=True, limits=quick)) for n in range(3)] == [
            1,
            2,
            3,
        ]
        assert (
            runner.run(job(source, input={"x": 9}, reuse=True, limits=quick), FakeHost()).status
            != "succeeded"
        )
        assert result(runner, job(source, input={"x": 1}, reuse=True, limits=quick)) == 1


def test_a_warm_runner_is_replaced_after_its_calls_and_when_it_is_old():
    now = [0.0]
    options = Options(reuse_calls=3, reuse_seconds=100)
    with Runner(monotonic=lambda: now[0], options=options) as runner:
        task = job(COUNTER, input={"x": 0}, reuse=True)
        assert [result(runner, task) for _ in range(7)] == [1, 2, 3, 1, 2, 3, 1]
        now[0] = 101.0
        assert result(runner, task) == 1


def test_a_warm_runner_that_speaks_while_it_should_be_silent_is_given_up():
    source = """
import threading, time
from functory import log
seen = []
def f():
    seen.append(1)
    def late():
        time.sleep(0.2)
        log("late")
    threading.Thread(target=late).start()
    return len(seen)
"""
    with Runner() as runner:
        task = job(source, reuse=True)
        first = runner.run(task, FakeHost())
        waiting = threading.Event()
        waiting.wait(0.6)
        second = runner.run(task, FakeHost())
    assert (first.result, second.result) == (1, 1)
    assert [log.text for log in second.logs] == []


def test_names_that_code_imported_speak_for_the_execution_that_runs_now():
    source = """
from functory import execution, call, secret
def f():
    return [execution.id, execution.attempt, call("who")]
"""
    with Runner() as runner:
        for number in range(3):
            task = job(source, execution_id=f"e-{number}", attempt=number, reuse=True)
            assert result(runner, task, FakeHost(who=lambda number=number: number)) == [
                f"e-{number}",
                number,
                number,
            ]


def test_a_warm_runner_has_its_budget_of_requests_anew():
    source = "from functory import call\ndef f():\n    return [call('one') for _ in range(8)]"
    with Runner() as runner:
        task = job(source, reuse=True, limits=ChildLimits(calls=8))
        for _ in range(3):
            assert result(runner, task, FakeHost(one=lambda: 1)) == [1] * 8


def test_cpu_time_of_a_warm_runner_is_counted_for_each_execution():
    source = """
import time
def f(seconds):
    end = time.process_time() + seconds
    while time.process_time() < end: pass
    return 1
"""
    with Runner() as runner:
        limits = ChildLimits(cpu_seconds=1.0, wall_seconds=60.0, total_seconds=60.0)
        for _ in range(3):
            assert result(runner, job(source, input={"seconds": 0.4}, reuse=True, limits=limits)) == 1
        outcome = runner.run(job(source, input={"seconds": 20}, reuse=True, limits=limits), FakeHost())
        assert (outcome.status, outcome.kill_reason) == ("timed_out", "cpu")


def test_many_threads_have_warm_runners_of_their_own():
    with Runner() as runner, ThreadPoolExecutor(4) as pool:
        task = job(
            "import os, time\ndef f():\n    time.sleep(0.01)\n    return os.getpid() and 1", reuse=True
        )
        outcomes = list(pool.map(lambda _: runner.run(task, FakeHost()), range(80)))
        assert {outcome.result for outcome in outcomes} == {1}
        assert 1 <= len({outcome.pid for outcome in outcomes}) <= 8
    wait_for(lambda: not [outcome for outcome in outcomes if alive(outcome.pid)])


def test_closing_ends_spares_and_warm_runners():
    runner = Runner()
    for _ in range(2):
        result(runner, job(HASH))
    warm = runner.run(job(COUNTER, input={"x": 1}, reuse=True), FakeHost())
    wait_for(lambda: len(spares(runner)) >= 1)
    pids = [int(pid) for pid in spares(runner)] + [warm.pid]
    runner.close()
    wait_for(lambda: not [pid for pid in pids if alive(pid)])


def test_a_granted_path_that_is_reached_by_a_link_is_refused(tmp_path):
    """The link may have been put there after the path was checked, by a process that may write in its folder."""
    # Tier A mounts what is granted, tier C opens it. Root in tier C needs an interpreter that all users may read.
    tier = "A" if os.geteuid() == 0 else "C"
    (tmp_path / "real").mkdir()
    (tmp_path / "real" / "data").write_text("x")
    (tmp_path / "link").symlink_to("real")
    source = "def f(path):\n    return open(path).read()"
    with Runner(tier=tier) as runner:
        for name, status in (("real", "succeeded"), ("link", "sandbox_error")):
            path = str(tmp_path / name)
            task = job(source, input={"path": f"{path}/data"}, grants=ChildGrants(read=(path,)))
            outcome = runner.run(task, FakeHost())
            assert outcome.status == status
        assert "reached by a link: grant the place that it leads to" in outcome.error["message"]


LEFT_BEHIND = {
    "a thread": "import threading; threading.Thread(target=threading.Event().wait, daemon=True).start()",
    "the environment": "import os; os.environ['TZ'] = 'UTC'",
    "a folder": "import os; os.mkdir('d'); os.chdir('d')",
    "a file": "open('notes', 'w').close()",
    "an open file": "import os; kept.append(open(os.devnull))",
    "a signal handler": "import signal; signal.signal(signal.SIGUSR1, lambda *_: None)",
    "an alarm": "import signal; signal.signal(signal.SIGALRM, signal.SIG_IGN); signal.alarm(60)",
    "a mask": "import os; os.umask(0o777)",
    "a path": "import sys; sys.path.append('/rw')",
    "a tracer": "import sys; sys.settrace(lambda *_: None)",
    "a deep stack": "import sys; sys.setrecursionlimit(5000)",
    "much memory": "kept.append(b'x' * 40_000_000)",
}


@pytest.mark.parametrize("leave", LEFT_BEHIND.values(), ids=LEFT_BEHIND)
def test_a_process_is_used_again_only_if_the_run_left_it_as_it_was(leave):
    source = f"kept = []\nruns = []\ndef f(x):\n    runs.append(x)\n    if x:\n        {leave}\n    return len(runs)"
    with Runner() as runner:

        def run(x, **how):
            return result(runner, job(source, input={"x": x}, reuse=True, **how))

        assert [run(0, tidy=True), run(0, tidy=True), run(1, tidy=True), run(0, tidy=True)] == [1, 2, 3, 1]
        # Who declares it keeps whatever is left.
        assert [run(1), run(0)] == [2, 3]


def test_what_a_run_sets_in_context_variables_ends_with_it():
    source = """
import contextvars, decimal
level = contextvars.ContextVar("level", default=0)
def f():
    found = [level.get(), decimal.getcontext().prec]
    level.set(7)
    decimal.getcontext().prec = 3
    return found
"""
    with Runner() as runner:
        task = job(source, reuse=True, tidy=True)
        assert [result(runner, task) for _ in range(2)] == [[0, 28], [0, 28]]


def test_random_numbers_are_those_of_the_execution_in_a_kept_process_too():
    source = "import random\ndef f():\n    return random.random()"
    with Runner() as runner:
        kept = [result(runner, job(source, seed=seed, reuse=True, tidy=True)) for seed in (1, 2, 1)]
        fresh = [result(runner, job(source, seed=seed)) for seed in (1, 2)]
    assert kept == [*fresh, fresh[0]]
    assert fresh[0] != fresh[1]


def test_few_processes_are_kept_for_many_versions():
    with Runner() as runner:
        pids = [
            runner.run(job(code(HASH, version=number + 1), reuse=True, tidy=True), FakeHost()).pid
            for number in range(40)
        ]
        wait_for(lambda: len([pid for pid in pids if alive(pid)]) <= 32)
        assert alive(pids[-1])
        assert runner.run(job(code(HASH, version=40), reuse=True, tidy=True), FakeHost()).pid == pids[-1]

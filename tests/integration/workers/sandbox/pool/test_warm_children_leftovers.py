"""What a run leaves in a process that is kept: threads, settings, work while idle. No later execution sees it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from types import SimpleNamespace

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from functory.workers.sandbox.pool import pool as pools
from functory.workers.sandbox.pool import warm_children
from functory.workers.sandbox.protocol.job import ChildGrants, ChildLimits
from functory.workers.sandbox.runner import Runner
from functory.workers.sandbox.supervision.train import Passenger
from tests.support.runner_world import FakeHost, alive, code, job
from tests.support.tier_marks import every, namespaced
from tests.support.unprivileged import reveal
from tests.support.waiting import wait_for

NATIVE = """
import ctypes, sys, threading, time
runs = []
def f(x):
    runs.append(x)
    if x:
        kind = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p)
        callback = kind(lambda _: time.sleep(1000))
        runs.append(callback)
        number = ctypes.c_ulong()
        ctypes.CDLL(None).pthread_create(ctypes.byref(number), None, callback, None)
        runs.pop(-2)
    worker = threading.Thread(target=int)
    worker.start()
    worker.join()
    return len(runs)
"""


@pytest.fixture
def runner(tier) -> Iterator[Runner]:
    if tier == "C" and os.geteuid() == 0:
        reveal()
    with Runner(tier=tier) as started:
        yield started


@pytest.fixture
def quick_maintenance(monkeypatch) -> None:
    monkeypatch.setattr(pools, "_TIDY_SECONDS", 0.05)
    monkeypatch.setattr(warm_children, "_IDLE_CPU_SECONDS", 0.2)


def run(runner, source, x=None, host=None, **fields):
    given = {} if x is None else {"x": x}
    outcome = runner.run(job(source, input=given, reuse=True, **fields), host or FakeHost())
    assert outcome.status == "succeeded", outcome.error
    return outcome


@every
def test_a_thread_that_only_the_kernel_knows_ends_its_process(runner):
    seen = [run(runner, NATIVE, x, tidy=True) for x in (0, 0, 1, 0)]
    assert [one.result for one in seen[:2]] == [1, 2]
    assert seen[2].pid == seen[0].pid
    assert seen[3].result == 1 and seen[3].pid != seen[0].pid
    wait_for(lambda: not alive(seen[0].pid))


@every
def test_a_thread_is_seen_also_where_the_code_hides_it_from_its_own_process(runner):
    source = (
        NATIVE
        + """
class fstat:
    st_nlink = 3
    def __init__(self, fd):
        pass
import os
os.fstat = fstat
"""
    )
    pids = [run(runner, source, x, tidy=True).pid for x in (0, 0, 1, 0)]
    assert pids[0] == pids[1] == pids[2] != pids[3]


@namespaced
def test_no_passenger_of_a_train_runs_beside_a_thread_of_the_one_before(runner):
    # Long enough to be worth a train, and quick enough for one.
    for _ in range(20):
        run(runner, NATIVE, 0, tidy=True)
    riders = [
        Passenger(job(NATIVE, input={"x": int(n == 1)}, reuse=True, tidy=True, execution_id=f"e-{n}"))
        for n in range(4)
    ]
    answers, given_back = [], []
    runner.train(
        riders, on_outcome=lambda _, outcome: answers.append(outcome), on_given_back=given_back.extend
    )
    assert len(answers) == 2 and given_back == riders[2:]


@every
def test_threads_of_functorys_own_do_not_end_a_process(runner):
    source = "import functory\ndef f():\n    return functory.emit('x.y', {})"
    assert len({run(runner, source, tidy=True).pid for _ in range(4)}) == 1


@every
def test_a_process_that_uses_the_cpu_while_it_is_idle_is_ended(runner, quick_maintenance):
    source = """
import threading
def spin():
    while True:
        pass
def f(x):
    if x:
        threading.Thread(target=spin, daemon=True).start()
"""
    idle = run(runner, source, 0, tidy=False)
    busy = run(runner, code(source, version=2), 1, tidy=False)
    wait_for(lambda: not alive(busy.pid))
    assert alive(idle.pid)
    assert run(runner, source, 0, tidy=False).pid == idle.pid


@namespaced
def test_so_is_one_whose_programs_do(runner, quick_maintenance):
    source = """
import subprocess
def f():
    subprocess.Popen(["/bin/sh", "-c", "while :; do :; done"])
"""
    limits = ChildLimits(wall_seconds=20.0, total_seconds=40.0, cpu_seconds=15.0, processes=4)
    busy = run(runner, source, grants=ChildGrants(subprocess=True), limits=limits)
    wait_for(lambda: not alive(busy.pid))


@every
def test_a_request_between_two_executions_is_not_answered_and_ends_the_process(runner, quick_maintenance):
    source = """
import functory, threading
gate = threading.Event()
def later():
    gate.wait()
    import time
    time.sleep(0.3)
    functory.emit('stray.event', {})
def f():
    threading.Thread(target=later, daemon=True).start()
    functory.emit('first.event', {})
    gate.set()
"""
    host = FakeHost()
    kept = run(runner, source, host=host, tidy=False)
    wait_for(lambda: not alive(kept.pid))
    assert [one[1] for one in host.asked] == ["first.event"]


# Each changes what every library of the process goes by.
CHANGES = [
    "signal.signal(signal.SIGUSR1, signal.SIG_IGN)",
    "signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR2])",
    "signal.setitimer(signal.ITIMER_VIRTUAL, 1000)",
    "signal.setitimer(signal.ITIMER_PROF, 1000)",
    "warnings.simplefilter('error')",
    "warnings.filterwarnings('ignore', message='x')",
    "warnings.resetwarnings()",
    "warnings.catch_warnings(record=True).__enter__()",
    "socket.setdefaulttimeout(3)",
    "locale.setlocale(locale.LC_ALL, 'C')",
    "locale.setlocale(locale.LC_NUMERIC, 'C')",
    "gc.disable()",
    "gc.set_threshold(10, 2, 2)",
    "gc.set_debug(gc.DEBUG_UNCOLLECTABLE)",
    "os.umask(0o077)",
    "os.sched_setaffinity(0, [min(os.sched_getaffinity(0))])",
    "os.nice(3)",
    "os.environ.update(TZ='Asia/Tokyo')",
    "os.chdir('/usr')",
    "sys.setrecursionlimit(777)",
    "sys.setswitchinterval(0.5)",
    "sys.set_int_max_str_digits(700)",
    "sys.path.append('/rw')",
    "setattr(sys, 'stdout', None)",
    "setattr(sys, 'excepthook', print)",
]
SETTINGS = """
import gc, locale, os, signal, socket, sys, warnings
def f(x):
    found = repr([
        [signal.getsignal(n) for n in range(1, 32)],
        signal.pthread_sigmask(signal.SIG_BLOCK, []),
        [signal.getitimer(n) for n in range(3)],
        [(kind, str(text and text.pattern), category.__name__) for kind, text, category, *_ in warnings.filters],
        socket.getdefaulttimeout(),
        locale.setlocale(locale.LC_ALL),
        gc.isenabled(), gc.get_threshold(), gc.get_debug(),
        os.umask(0o22), os.sched_getaffinity(0), os.getpriority(0, 0), sorted(os.environ.items()), os.getcwd(),
        sys.getrecursionlimit(), sys.getswitchinterval(), sys.get_int_max_str_digits(), sys.path,
        type(sys.stdout), sys.excepthook,
    ])
    for change in x:
        exec(change)
    return found
"""


@pytest.fixture(scope="module")
def shared() -> Iterator[SimpleNamespace]:
    with Runner() as started:
        yield SimpleNamespace(runner=started, fresh=run(started, SETTINGS, [], tidy=True).result)


@pytest.mark.parametrize("change", CHANGES)
def test_a_setting_of_the_interpreter_ends_with_the_execution_that_changed_it(shared, change):
    run(shared.runner, SETTINGS, [change], tidy=True)
    assert run(shared.runner, SETTINGS, [], tidy=True).result == shared.fresh


@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.lists(st.sampled_from(CHANGES), max_size=4), min_size=2, max_size=4))
def test_no_execution_sees_what_earlier_ones_have_set(shared, executions):
    for changes in executions:
        assert run(shared.runner, SETTINGS, changes, tidy=True).result == shared.fresh


def test_what_code_sets_while_it_is_loaded_does_not_end_its_process(shared):
    dependency = code(
        "import gc\ngc.set_threshold(900)\ndef g():\n    return gc.get_threshold()[0]", name="g"
    )
    source = """
import signal, socket, warnings
socket.setdefaulttimeout(3)
signal.signal(signal.SIGUSR1, signal.SIG_IGN)
warnings.simplefilter("error")
def f():
    return [socket.getdefaulttimeout(), warnings.filters[0][0], g()]
"""
    entry = code(source, dependencies={"g": dependency.key})
    task = job(entry, dependency, reuse=True, tidy=True)
    seen = [shared.runner.run(task, FakeHost()) for _ in range(3)]
    assert [one.result for one in seen] == [[3.0, "error", 900]] * 3
    assert len({one.pid for one in seen}) == 1

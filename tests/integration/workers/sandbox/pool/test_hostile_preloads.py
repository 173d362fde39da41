"""A package that is imported by a zygote has the limits of the function that names it, and leaves nothing."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from functory.workers.sandbox.protocol.job import ChildGrants, ChildLimits
from functory.workers.sandbox.runner import Runner
from tests.support.runner_world import FakeHost, alive, job
from tests.support.tier_marks import lacks
from tests.support.unprivileged import reveal
from tests.support.waiting import wait_for

_MEMORY = """
try:
    KEPT = bytearray(b"x") * 1_500_000_000
except MemoryError:
    KEPT = None
"""
_PROCESSES = """
import os, time
STARTED = []
for _ in range(40):
    try:
        pid = os.fork()
    except OSError:
        break
    if pid == 0:
        os.setsid()
        try:
            if os.fork() == 0:
                time.sleep(600)
        except OSError:
            time.sleep(600)
        os._exit(0)
    STARTED.append(pid)
"""
_REFUSED = """
import ctypes, os, resource, signal, threading

def tried(work):
    try:
        return repr(work())
    except BaseException as error:
        return type(error).__name__

def end(pid):
    if pid == 0:
        os._exit(0)
    return pid

clone = {"x86_64": 56, "aarch64": 220}[os.uname().machine]
FOUND = {
    "fork": tried(lambda: end(os.fork())),
    "clone": tried(lambda: end(ctypes.CDLL(None).syscall(clone, int(signal.SIGCHLD), 0, 0, 0, 0))),
    "spawn": tried(lambda: os.posix_spawn("/bin/true", ["true"], {})),
    "exec": tried(lambda: os.execv("/bin/true", ["true"])),
    "thread": tried(lambda: threading.Thread(target=print).start()),
    "limit": tried(lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (8, 8))),
}
"""
_TIERS = ("A", "B", "C", "none")


_MODULES = {
    "memory": _MEMORY,
    "processes": _PROCESSES,
    "refused": _REFUSED,
    "busy": "while True: pass",
}


@pytest.fixture
def packages() -> Iterator[tuple[str]]:
    """Make a folder of packages that every user may read, as environments are; those of pytest are private."""
    with tempfile.TemporaryDirectory(prefix="packages-") as name:
        folder = Path(name)
        folder.chmod(0o755)
        for module, text in _MODULES.items():
            (folder / f"hostile_{module}.py").write_text(text)
        yield (str(folder),)


@pytest.fixture(params=_TIERS)
def runner(request):
    if request.param != "none" and lacks(request.param):
        pytest.skip(f"no tier {request.param} here")
    if request.param == "C" and os.geteuid() == 0:
        reveal()
    with Runner(tier=request.param) as started:
        yield started


def run(runner, name, packages, body="return 1", grants=None, **limits):
    source = f"def f():\n    import hostile_{name}\n    {body}"
    limits = {"wall_seconds": 30.0, "memory_bytes": 128 * 2**20, **limits}
    preload = (f"hostile_{name}",)
    fields = {"packages": packages, "preload": preload, "grants": grants or ChildGrants()}
    return runner.run(job(source, limits=ChildLimits(**limits), **fields), FakeHost())


def descendants(pid: int) -> list[int]:
    found = []
    for thread in Path(f"/proc/{pid}/task").iterdir():
        try:
            children = (thread / "children").read_text()
        except FileNotFoundError:
            # A thread may end meanwhile; its children are then another one's.
            continue
        for child in map(int, children.split()):
            found += [child, *descendants(child)]
    return found


def test_an_import_gets_no_more_memory_than_the_function(runner, packages):
    outcome = run(runner, "memory", packages, "return hostile_memory.KEPT is None")
    assert outcome.result is True or outcome.status in ("out_of_memory", "sandbox_error")


def test_an_import_leaves_no_processes_behind(runner, packages):
    before = set(descendants(os.getpid()))
    outcome = run(runner, "processes", packages)
    assert outcome.status == "succeeded", outcome.error
    started = set(descendants(os.getpid())) - before
    # Two zygotes with an init process each, the child and a spare; the import tried to start eighty.
    assert len([pid for pid in started if alive(pid)]) <= 10
    runner.close()
    wait_for(lambda: not any(map(alive, started)), "all processes have ended")


def test_an_import_starts_neither_processes_nor_threads(runner, packages):
    if runner.tier == "none":
        pytest.skip("nothing is refused there")
    outcome = run(runner, "refused", packages, "return hostile_refused.FOUND")
    assert outcome.result == {
        "fork": "PermissionError",
        "clone": "-1",
        "spawn": "PermissionError",
        "exec": "PermissionError",
        "thread": "RuntimeError",
        "limit": "ValueError",
    }, outcome.error


def test_a_program_that_was_granted_is_not_started_by_an_import(runner, packages):
    if runner.tier not in ("A", "B"):
        pytest.skip("programs are granted in tiers A and B")
    body = "import os; return [hostile_refused.FOUND['spawn'], os.spawnv(os.P_WAIT, '/bin/true', ['true'])]"
    outcome = run(runner, "refused", packages, body, grants=ChildGrants(subprocess=True), processes=4)
    assert outcome.result == ["PermissionError", 0], outcome.error


def test_an_import_that_does_not_end_has_the_cpu_time_of_the_function(runner, packages):
    outcome = run(runner, "busy", packages, cpu_seconds=1.0)
    assert outcome.status == "sandbox_error"
    assert "importing its packages took more than 1 s of CPU" in outcome.error["message"]

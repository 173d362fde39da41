"""A package that is imported by a zygote has the limits of the function that names it, and leaves nothing."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from functory.workers.sandbox.protocol.job import Limits
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
_TIERS = ("A", "B", "C", "none")


@pytest.fixture
def packages(tmp_path: Path) -> tuple[str]:
    for folder in (tmp_path, *tmp_path.parents[:3]):
        folder.chmod(0o755)
    for name, text in {"memory": _MEMORY, "processes": _PROCESSES, "busy": "while True: pass"}.items():
        (tmp_path / f"hostile_{name}.py").write_text(text)
    return (str(tmp_path),)


@pytest.fixture(params=_TIERS)
def runner(request):
    if request.param != "none" and lacks(request.param):
        pytest.skip(f"no tier {request.param} here")
    if request.param == "C" and os.geteuid() == 0:
        reveal()
    with Runner(tier=request.param) as started:
        yield started


def run(runner, name, packages, body="return 1", **limits):
    source = f"def f():\n    import hostile_{name}\n    {body}"
    limits = {"wall_seconds": 30.0, "memory_bytes": 128 * 2**20, **limits}
    preload = (f"hostile_{name}",)
    return runner.run(job(source, packages=packages, preload=preload, limits=Limits(**limits)), FakeHost())


def descendants(pid: int) -> list[int]:
    found = []
    for thread in Path(f"/proc/{pid}/task").iterdir():
        for child in map(int, (thread / "children").read_text().split()):
            found += [child, *descendants(child)]
    return found


def test_an_import_gets_no_more_memory_than_the_function(runner, packages):
    outcome = run(runner, "memory", packages, "return hostile_memory.KEPT is None")
    assert outcome.result is True or outcome.status in ("out_of_memory", "sandbox_error")


def test_an_import_leaves_no_processes_behind(runner, packages):
    before = set(descendants(os.getpid()))
    outcome = run(runner, "processes", packages)
    # In tier C no process can look for others, so the import is refused as a whole.
    assert outcome.status == ("sandbox_error" if runner.tier == "C" else "succeeded"), outcome.error
    started = set(descendants(os.getpid())) - before
    # Two zygotes with an init process each, the child and a spare; the import tried to start eighty.
    assert len([pid for pid in started if alive(pid)]) <= 10
    runner.close()
    wait_for(lambda: not any(map(alive, started)), "all processes have ended")


def test_an_import_that_does_not_end_has_the_cpu_time_of_the_function(runner, packages):
    outcome = run(runner, "busy", packages, cpu_seconds=1.0)
    assert outcome.status == "sandbox_error"
    assert "importing its packages took more than 1 s of CPU" in outcome.error["message"]

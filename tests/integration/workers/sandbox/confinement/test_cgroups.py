"""Control groups bound memory and tasks of everything in them, count what was ended, and leave nothing."""

from __future__ import annotations

import fnmatch
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from functory.workers.sandbox.confinement import cgroup_tree
from functory.workers.sandbox.confinement.cgroup_tree import unavailable_reason
from functory.workers.sandbox.confinement.cgroups import Cgroup, Cgroups
from tests.support import unprivileged
from tests.support.patience import patient

_MEMORY = 64 << 20
pytestmark = pytest.mark.skipif(
    bool(unavailable_reason()), reason=f"no control groups: {unavailable_reason()}"
)

_ENTER = "import os, sys\nfor fd in sys.argv[1:]: os.write(int(fd), b'0')\n"


@pytest.fixture
def groups() -> Iterator[Cgroups]:
    opened = Cgroups.open()
    assert opened is not None
    yield opened
    opened.close()


def _start(group: Cgroup, code: str) -> subprocess.Popen[str]:
    """Start a process that enters ``group``, then runs ``code``."""
    argv = [sys.executable, "-I", "-S", "-c", _ENTER + code, *map(str, group.fds)]
    return subprocess.Popen(
        argv, pass_fds=group.fds, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )


def _folders(pid: int | None = None) -> set[str]:
    """The groups that a process has made: this one, when no other is named."""
    # Path.rglob fails when a folder of another process vanishes below it; os.walk passes over it.
    mine = f"functory-*-{pid or os.getpid()}-*"
    return {
        f"{folder}/{name}"
        for folder, names, _ in os.walk("/sys/fs/cgroup")
        for name in names
        if fnmatch.fnmatch(name, mine)
    }


def test_more_memory_than_allowed_ends_the_process_and_is_counted(groups: Cgroups) -> None:
    group = groups.acquire(_MEMORY, 8)
    started = _start(group, "block = bytearray(256 << 20)")
    assert started.wait(patient(30)) == -9
    assert group.oom_kills() == 1
    group.release()


def test_memory_within_the_limit_is_given(groups: Cgroups) -> None:
    group = groups.acquire(_MEMORY, 8)
    started = _start(group, "block = bytearray(16 << 20); print(len(block))")
    assert started.communicate(timeout=patient(30))[0] == f"{16 << 20}\n"
    assert group.oom_kills() == 0
    group.release()


def test_tasks_end_at_their_number(groups: Cgroups) -> None:
    group = groups.acquire(_MEMORY, 4)
    code = """
import threading, time
started = 1
try:
    while True:
        threading.Thread(target=time.sleep, args=(60,), daemon=True).start()
        started += 1
except RuntimeError:
    print(started, flush=True)
os._exit(0)
"""
    assert _start(group, code).communicate(timeout=patient(30))[0] == "4\n"
    group.release()


def test_a_group_is_used_again_and_begins_at_zero(groups: Cgroups) -> None:
    first = groups.acquire(_MEMORY, 8)
    assert _start(first, "block = bytearray(256 << 20)").wait(patient(30)) == -9
    first.release()
    second = groups.acquire(2 * _MEMORY, 8)
    assert second is first
    assert second.oom_kills() == 0
    assert _start(second, "block = bytearray(80 << 20)").wait(patient(30)) == 0


def test_a_group_with_somebody_in_it_is_ended_and_not_used_again(groups: Cgroups) -> None:
    group = groups.acquire(_MEMORY, 8)
    started = _start(group, "print('in', flush=True); sys.stdin.read()")
    assert started.stdout is not None
    assert started.stdout.readline() == "in\n"
    group.release()
    assert started.wait(patient(30)) == -9
    assert groups.acquire(_MEMORY, 8) is not group


def test_kill_ends_all_processes_of_the_group(groups: Cgroups) -> None:
    group = groups.acquire(_MEMORY, 8)
    started = _start(group, "os.fork(); print('in', flush=True); sys.stdin.read()")
    assert started.stdout is not None
    assert started.stdout.read(6) == "in\nin\n"
    group.kill()
    # The pipe ends when its last writer, the forked process, has gone too.
    assert started.stdout.read() == ""
    assert started.wait(patient(30)) == -9


def test_closing_leaves_no_folder() -> None:
    before = _folders()
    groups = Cgroups.open()
    assert groups is not None
    taken = groups.acquire(_MEMORY, 8)
    started = _start(taken, "print('in', flush=True); sys.stdin.read()")
    assert started.stdout is not None
    started.stdout.readline()
    # Others of this process, of an engine that closes in the background, may go meanwhile.
    made = _folders() - before
    assert made
    groups.close()
    assert started.wait(patient(30)) == -9
    assert not made & _folders()


def test_what_a_killed_worker_left_is_removed_by_the_next() -> None:
    code = """
import os, sys
from functory.workers.sandbox.confinement.cgroups import Cgroups
groups = Cgroups.open()
group = groups.acquire(1 << 26, 8)
pid = os.fork()
if pid == 0:
    for fd in group.fds:
        os.write(fd, b"0")
    sys.stdout.write("in\\n")
    sys.stdout.flush()
    sys.stdin.read()
    os._exit(0)
os.waitpid(pid, 0)
"""
    dead = subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert dead.stdout is not None
    assert dead.stdout.readline() == "in\n"
    left = [Path(folder) for folder in _folders(dead.pid)]
    assert left
    dead.kill()
    dead.wait()
    for _ in range(200):  # one that was in it is killed by the first, removed by the next
        opened = Cgroups.open()
        assert opened is not None
        opened.close()
        if not any(path.exists() for path in left):
            break
    assert not any(path.exists() for path in left)


def test_a_group_that_another_worker_removes_at_the_same_time_is_no_error(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # Found by both, gone when the slower one looks into it.
    monkeypatch.setattr(cgroup_tree, "_dead", lambda _folder: ["functory-0-1-1-1"])
    opened = Cgroups.open()
    assert opened is not None
    opened.close()


@pytest.mark.skipif(os.geteuid() != 0, reason="this user is an ordinary one already")
def test_a_user_that_may_write_no_group_gets_none_and_the_reason() -> None:
    if why := unprivileged.missing():
        pytest.skip(why)
    code = (
        "from functory.workers.sandbox.confinement import cgroup_tree, cgroups; "
        "print(cgroups.Cgroups.open()); print(cgroup_tree.unavailable_reason())"
    )
    said = unprivileged.run([sys.executable, "-c", code]).stdout.splitlines()
    assert said[0] == "None"
    assert "not ours to write" in said[1] or "delegated" in said[1]

"""Nothing is left of zygote, init process and worker, however they end."""

from __future__ import annotations

import os
import signal
import subprocess
from pathlib import Path

import psutil
import pytest

from tests.support import unprivileged
from tests.support.confined_zygote import HERE, Contained, running
from tests.support.patience import patient
from tests.support.tier_marks import every, tiers
from tests.support.waiting import wait_for


def _gone(path: str) -> bool:
    return not Path(path).exists()


@every
def test_an_end_leaves_no_folder(tier: str) -> None:
    contained = Contained(tier, "Path('left').write_text('x')")
    assert contained.shim.wait(patient(30)) == 0
    assert _gone(contained.base)


@every
def test_the_shim_ends_as_its_zygote_did(tier: str) -> None:
    contained = Contained(tier, HERE)
    zygote = running(contained)[0]
    zygote.kill()
    assert contained.shim.wait(patient(30)) == -signal.SIGKILL
    assert _gone(contained.base)


@every
def test_zygote_and_children_die_with_the_shim(tier: str) -> None:
    contained = Contained(tier, HERE, HERE, together=True)
    everyone = running(contained)
    contained.hear()
    contained.shim.kill()
    contained.shim.wait(patient(30))
    wait_for(lambda: not any(p.is_running() and p.status() != psutil.STATUS_ZOMBIE for p in everyone))
    contained.finish()


@every
def test_a_zygote_that_ignores_the_end_of_its_worker_is_killed(tier: str) -> None:
    contained = Contained(tier, before="say('here')\nimport time\nwhile True: time.sleep(1)")
    everyone = running(contained)
    contained.leave()
    assert contained.shim.wait(patient(30)) == -signal.SIGKILL
    assert not any(p.is_running() for p in everyone)
    assert _gone(contained.base)


@tiers("C")
@pytest.mark.parametrize("landlock", [1, 7])
def test_a_zygote_ends_its_children_also_without_the_right_to_signal(tier: str, landlock: int) -> None:
    older = (
        f"from functory.workers.sandbox.confinement import landlock\n"
        f"landlock.abi = lambda real=landlock.abi(): min(real, {landlock})"
    )
    before = """
import time
pid = confined.fork()
if pid == 0:
    confined.confine_child(spec.bounds, 1, spec.plan.base)
    time.sleep(1000)
handle = os.pidfd_open(pid)
confined.kill(pid, handle)
say(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
"""
    assert Contained(tier, before=before, world=older).finish() == [-signal.SIGKILL]


@tiers("C")
def test_an_init_process_kills_only_children_of_its_zygote(tier: str) -> None:
    older = "from functory.workers.sandbox.confinement import landlock; landlock.abi = lambda: 1"
    with subprocess.Popen(unprivileged.command(["sleep", "1000"])) as stranger:
        before = f"""
import time
for pid in ({stranger.pid}, {os.getpid()}, 1, 0, -1, os.getppid()):
    confined.kill(pid, -1)
say(attempt(os.kill, {stranger.pid}, 9))
pid = confined.fork()
if pid == 0:
    time.sleep(1000)
confined.kill(pid, -1)
say(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
"""
        # Orders are obeyed in turn: when the last one is, so were all.
        assert Contained(tier, before=before, world=older).finish() == ["EPERM", -signal.SIGKILL]
        assert stranger.poll() is None
        stranger.kill()

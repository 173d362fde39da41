"""Tests of defects that random kills found, each reduced to its cause."""

from __future__ import annotations

import gc
import os
import tempfile
import threading
import time

from functory.workers.sandbox.confinement.confine import Confinement
from functory.workers.sandbox.pool.pool import Options
from functory.workers.sandbox.protocol.job import ChildLimits
from functory.workers.sandbox.protocol.plan import Plan
from functory.workers.sandbox.runner import Runner
from tests.support.runner_world import FakeHost, job, open_files
from tests.support.waiting import wait_for


def test_a_child_whose_zygote_dies_before_it_is_confined_ends_in_silence(tmp_path):
    """The child used to report a failed confinement, which ended its execution. A child that ends silently is started
    again."""
    reading, writing = os.pipe()
    zygote = os.fork()
    if zygote == 0:
        try:
            confinement = Confinement(Plan(tier="none", base=str(tmp_path)))
            confinement.lock_down()
            own = os.getpid()
            if os.fork() == 0:
                while os.getppid() == own:
                    time.sleep(0.001)
                confinement.confine_child(ChildLimits().bounds(), 1, str(tmp_path))
                os.write(writing, b"it went on")
        except BaseException as error:
            os.write(writing, repr(error).encode())
        finally:
            os._exit(0)
    os.close(writing)
    os.waitpid(zygote, 0)
    try:
        assert os.read(reading, 1000) == b""
    finally:
        os.close(reading)


def test_a_zygote_is_not_evicted_between_being_chosen_and_being_asked(tmp_path, monkeypatch):
    """An evicted zygote used to be started again in a forgotten slot, and was never closed."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    armed: list[int] = []

    def monotonic() -> float:
        # The first read of the clock in a run: the zygote is chosen, and has no request yet.
        if armed and threading.get_ident() == armed[0]:
            armed.clear()
            other = threading.Thread(target=run, args=("other",))
            other.start()
            other.join()
        return time.monotonic()

    def run(domain: str) -> None:
        task = job("def f():\n    return 1", trust_domain=domain)
        assert runner.run(task, FakeHost()).result == 1

    before = open_files()
    with Runner(monotonic=monotonic, tier="none", options=Options(zygotes=1, spares=1)) as runner:
        run("one")
        wait_for(lambda: list(tmp_path.glob("*/*")) == [])
        armed.append(threading.get_ident())
        run("one")
        assert armed == []
    gc.collect()
    assert list(tmp_path.iterdir()) == []
    assert open_files() <= before

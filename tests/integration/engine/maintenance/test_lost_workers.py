"""An execution whose embedded process was killed runs again at once, and not when its lease ends."""

import os
import signal
import subprocess
import sys

import pytest

from functory.client.functory import Functory
from functory.engine.executions import worker_registry
from functory.engine.maintenance import lost_workers
from tests.support.patience import patient
from tests.support.state_rules import LEASE, check
from tests.support.waiting import wait_for
from tests.support.world import World, lines

pytest_plugins = ["tests.support.world"]

HOLDS = lines(
    "import time",
    "from functory import execution",
    "def hold():",
    "    if execution.attempt == 1:",
    "        time.sleep(3600)",
    "    return execution.attempt",
)
RUNS = lines(
    "import sys",
    "from functory.client.functory import Functory",
    "from functory.engine.settings import Settings",
    "from pathlib import Path",
    "engine = Functory(Settings(home=Path(sys.argv[1])))",
    "print(engine.submit('hold').id, flush=True)",
    "sys.stdin.read()",
)


def registered_and_ended(world: World) -> list[str]:
    _, workers = lost_workers.find_lost(world.database, cancel_grace=LEASE, unseen=LEASE)
    return worker_registry.ended(workers)


def ended_worker() -> str:
    """The id of an embedded worker in a process that has ended."""
    code = "from functory.engine.executions import worker_registry as r; print(r.EMBEDDED + r.new_id('x'))"
    return subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    ).stdout.strip()


def test_what_a_killed_process_ran_runs_again_at_once(engine: Functory) -> None:
    engine.functions.save(HOLDS, limits={"timeout": 3000})
    home = str(engine.settings.home)
    with subprocess.Popen(
        [sys.executable, "-c", RUNS, home], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        try:
            assert process.stdout is not None
            id_ = process.stdout.readline().strip()
            wait_for(lambda: engine.executions.get(id_)["state"] == "running")
        finally:
            os.kill(process.pid, signal.SIGKILL)
    left = (engine.executions.get(id_)["lease_until"] - engine.now()).total_seconds()
    assert left > 0
    engine.start()
    assert engine.executions.wait([id_], patient(60))[0]["result"] == 2
    assert "has ended" in engine.executions.attempts(id_)[0]["error"]["message"]


def test_only_executions_of_the_ended_process_are_lost(ready) -> None:
    mine, other = ready.start(), ready.start()
    gone = ended_worker()
    worker_registry.record_heartbeat(ready.database, gone, 1, "none")
    ready.claim(mine, ready.attempts(gone))
    ready.claim(other)
    assert registered_and_ended(ready) == [gone]
    done = lost_workers.reap(
        ready.database, cancel_grace=LEASE, leases_trusted=lambda: False, ended_workers=[gone]
    )
    assert done["lost"] == 1
    assert ready.executions.get(mine["id"])["state"] == "queued"
    assert ready.executions.get(other["id"])["state"] == "running"
    assert registered_and_ended(ready) == []
    check(ready)


@pytest.mark.parametrize("change", ["another host", "another start of the machine", "a living process"])
def test_a_worker_that_may_live_is_not_ended(ready, change: str) -> None:
    host, pid, token = ended_worker().removeprefix(worker_registry.EMBEDDED).split(":")
    id_ = {
        "another host": f"elsewhere:{pid}:{token}",
        "another start of the machine": f"{host}:{pid}:00000000{token[8:]}",
        "a living process": f"{host}:{os.getpid()}:{token}",
    }[change]
    worker_registry.record_heartbeat(ready.database, worker_registry.EMBEDDED + id_, 1, "none")
    assert registered_and_ended(ready) == []

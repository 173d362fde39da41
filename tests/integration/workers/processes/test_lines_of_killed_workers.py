"""What code has printed is readable after its worker was killed, and after it was asked to end."""

from __future__ import annotations

import contextlib
import time
from pathlib import Path
from typing import Any

import psutil
import pytest

from functory.client.functory import Functory
from tests.support.processes import Role, Roles
from tests.support.waiting import wait_for

pytestmark = [pytest.mark.postgres, pytest.mark.redis, pytest.mark.timeout(300)]

TALK = """
import time
from functory import emit

def talk() -> None:
    n = 0
    while True:
        print(n, time.time(), flush=True)
        n += 1
        if n == 100:
            emit("talk.printed")
        time.sleep(0.02)
"""
# The worker stores lines that are older than a quarter of a second; on a machine that others share it may be late.
LATE_SECONDS = 1.5


def kill(role: Role) -> None:
    """SIGKILL all processes of a role at once, as a power cut would.

    A child may be gone before its turn comes: it dies with its parent, and a body may end by itself.
    """
    main = psutil.Process(role.pid)
    family = [main, *main.children(recursive=True)]
    for strike in (psutil.Process.suspend, psutil.Process.kill):
        for process in family:
            with contextlib.suppress(psutil.NoSuchProcess):
                strike(process)
    role.wait()


@pytest.mark.parametrize("pool", ["threads", "prefork"])
def test_a_worker_that_is_killed_loses_only_the_lines_of_the_last_moment(
    tmp_path: Path, postgres_url: str, redis_url: str, pool: str
) -> None:
    with Roles(tmp_path, database_url=postgres_url, broker_url=redis_url) as roles:
        worker, functory, id_ = talking(roles, "--pool", pool)
        with functory:
            killed_at = time.time()
            kill(worker)
            found = [line["text"].split() for line in functory.executions.logs(id_)]
            assert [int(number) for number, _ in found] == [*range(len(found))]
            assert float(found[-1][1]) > killed_at - LATE_SECONDS
            assert functory.executions.get(id_)["state"] == "running"


def test_a_worker_that_is_asked_to_end_keeps_all_lines_of_what_it_releases(
    tmp_path: Path, postgres_url: str, redis_url: str
) -> None:
    # Nothing is stored meanwhile: all comes with the release.
    with Roles(
        tmp_path,
        database_url=postgres_url,
        broker_url=redis_url,
        grace_seconds=1,
        live_milliseconds=60_000,
    ) as roles:
        worker, functory, id_ = talking(roles)
        with functory:
            assert worker.stop() == 0
            row = functory.executions.get(id_)
            assert (row["state"], row["attempt"]) == ("queued", 0)
            found = [line["text"].split() for line in functory.executions.logs(id_)]
            assert [int(number) for number, _ in found] == [*range(len(found))]
            (attempt,) = functory.executions.attempts(id_)
            # It printed up to its end.
            assert attempt["outcome"] == "released"
            assert float(found[-1][1]) > attempt["ended_at"].timestamp() - LATE_SECONDS


def talking(roles: Roles, *arguments: str) -> tuple[Role, Functory, Any]:
    """A worker, a client, and the id of an execution that has been printing for two seconds and goes on."""
    roles.migrate()
    roles.start("router", wait=False)
    worker = roles.start("worker", "--slots", "1", *arguments, wait=False)
    for role in roles.started:
        role.wait_ready(120)
    functory = roles.client()
    functory.functions.save(TALK)
    id_ = functory.submit("talk").id
    wait_for(lambda: functory.events.list(type_="talk.printed"), "its lines", seconds=90)
    return worker, functory, id_

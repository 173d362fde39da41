"""An order that fails at its last step, with workers and a scheduler killed in the middle of it all."""

from __future__ import annotations

import os
import signal
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from functory.client.functory import Functory
from tests.support.patience import patient
from tests.support.processes import Roles
from tests.support.waiting import wait_for

WAIT = patient(90.0)
# Six processes start at once.
READY = 120.0

# Each begins by saying so; where it is to be killed, the first attempt then waits for that.
_BEGIN = """
from functory import call, emit, execution
import time
def {name}({parameters}):
    emit("begun.{name}", {{"attempt": execution.attempt}})
    if execution.attempt == 1 and {slow}:
        {before}
        emit("ready.{name}", None)
        time.sleep(600)
    {body}
"""


def source(
    name: str, parameters: str, body: str = "return None", before: str = "pass", slow: bool = False
) -> str:
    return _BEGIN.format(name=name, parameters=parameters, body=body, before=before, slow=slow)


def save(client: Functory) -> None:
    client.functions.save(source("undo_reserve", "result"))
    client.functions.save(source("undo_charge", "result", slow=True), limits={"max_attempts": 3})
    client.functions.save(source("reserve", "item", "return {'shelf': 7}"), compensate="undo_reserve")
    client.functions.save(source("charge", "euros", "return {'euros': euros}"), compensate="undo_charge")
    client.functions.save(source("ship", "item", "raise RuntimeError('no van')"))
    reserve = "call('reserve', item, durable=True)"
    rest = f"{reserve}; call('charge', euros, durable=True); call('ship', item)"
    client.functions.save(
        source("order", "item, euros", rest, before=reserve, slow=True), limits={"max_attempts": 3}
    )


def seen(client: Functory, type_: str) -> list[dict[str, Any]]:
    return client.events.list(type_=type_, limit=100)


def kill_who_runs(client: Functory, function: str) -> None:
    """Wait until the function is where it waits, and kill the process that runs it."""
    wait_for(lambda: seen(client, f"ready.{function}"), f"{function} waits", seconds=WAIT)
    (row,) = client.executions.list(function=function, state="running")
    os.kill(int(row["worker_id"].split(":")[1]), signal.SIGKILL)


@pytest.mark.timeout(400)
@pytest.mark.postgres
@pytest.mark.redis
def test_each_step_happens_once_and_is_undone_once_whichever_process_is_killed(
    tmp_path: Path, postgres_server: Any, redis_url: str
) -> None:
    with (
        postgres_server.database() as database,
        Roles(
            tmp_path,
            database_url=database,
            broker_url=redis_url,
            lease_seconds=4,
            heartbeat_seconds=1,
            redispatch_seconds=2,
        ) as roles,
    ):
        roles.migrate()
        roles.start("router", wait=False)
        schedulers = [roles.start("scheduler", wait=False) for _ in range(2)]
        for _ in range(3):
            roles.start("worker", "--slots", "2", wait=False)
        for role in roles.started:
            role.wait_ready(READY)
        with roles.client() as client:
            save(client)
            handle = client.submit("order", "lamp", 40)
            kill_who_runs(client, "order")
            kill_who_runs(client, "undo_charge")
            schedulers[0].kill()
            (failed,) = client.executions.wait([handle.id], WAIT)
            client.settle(WAIT)
            plan = client.compensations.plan(handle.id)
            begun = {
                name: len(seen(client, f"begun.{name}")) for name in ("reserve", "charge", "undo_reserve")
            }
            reported = {
                type_: len(seen(client, type_))
                for type_ in ("saga.started", "saga.compensated", "saga.stuck")
            }
            undone = [
                client.executions.get(step["execution_id"])
                for step in plan
                if step["execution_id"] is not None
            ]
        assert failed["state"] == "failed"
        assert failed["attempt"] == 2
        assert [(step["function"], step["state"]) for step in plan] == [
            ("charge", "done"),
            ("reserve", "done"),
        ]
        assert begun == {"reserve": 1, "charge": 1, "undo_reserve": 1}
        assert reported == {"saga.started": 1, "saga.compensated": 1, "saga.stuck": 0}
        assert [(row["function"], row["attempt"]) for row in undone] == [
            ("undo_charge", 2),
            ("undo_reserve", 1),
        ]
        assert [row["input"] for row in undone] == [{"result": {"euros": 40}}, {"result": {"shelf": 7}}]
        # Two processes have asked the server for its time: their clocks differ by some milliseconds.
        assert undone[0]["finished_at"] - timedelta(seconds=patient(1.0)) < undone[1]["created_at"]

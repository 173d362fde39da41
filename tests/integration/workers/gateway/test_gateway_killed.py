"""A gateway or a worker that is killed at each step of a call, as processes; on SQLite and on PostgreSQL.

The provider is asked once, or a second time by another attempt of the execution whose first answer is unknown; the
meter is the ledger.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from functory.engine.database.schema import llm_call
from functory.engine.maintenance import lost_workers
from functory.engine.maintenance.invariants import verify
from functory.engine.maintenance.lost_calls import LostCalls
from tests.chaos.crash_hooks import STATUS
from tests.support.console_script import ROOT
from tests.support.model_server import ModelServer, Reply, answer, model_server
from tests.support.models import ModelsWorld
from tests.support.patience import patient
from tests.support.processes import Role, Roles
from tests.support.waiting import wait_for

pytest_plugins = ["tests.support.world"]

ASKS = """
from functory import llm
def asks():
    found = llm("hello", model="small")
    return [found["text"], found["replayed"]]
"""
# Requests that the provider got, the ends of the calls, and the attempts of the execution.
POINTS: dict[str, tuple[int, list[str], int]] = {
    "before-reserve": (1, ["succeeded"], 1),
    "after-reserve": (1, ["unknown", "succeeded"], 2),
    "after-send": (2, ["unknown", "succeeded"], 2),
    "after-answer": (2, ["unknown", "succeeded"], 2),
    "after-settle": (1, ["succeeded"], 1),
}


class Killed:
    """A deployment without a broker: one worker, a gateway that is killed, and a provider."""

    def __init__(self, roles: Roles, world: ModelsWorld, server: ModelServer) -> None:
        self.roles, self.world, self.server = roles, world, server
        self.go = threading.Event()

        def reply(_asked: Any, number: int) -> Reply:
            # The first answer waits for the test.
            assert number or self.go.wait(patient(60))
            return Reply(answer())

        server.script("small", reply)
        world.add_model(timeout=60)

    def calls(self) -> list[dict[str, Any]]:
        with self.world.database.read() as tx:
            return tx.rows(sa.select(llm_call).order_by(llm_call.c.id))

    def start_gateway(self, point: str, armed: Path) -> Role:
        """Start a gateway that dies at this point."""
        if point == "after-send":
            return self.roles.start("gateway")
        armed.touch()
        command = [sys.executable, "-m", "tests.chaos.crash_hooks", f"gateway-{point}", "--armed", str(armed)]
        environment = {"PYTHONPATH": str(ROOT)}
        return self.roles.spawn(
            [*command, "--", "gateway"], name=f"gateway {point}", environment=environment, wait=True
        )

    def let_leases_run_out(self) -> None:
        """Do what the scheduler does when the leases of dead gateways have run out."""
        with self.world.database.write() as tx:
            past = tx.now - timedelta(seconds=1)
            tx.execute(sa.update(llm_call).where(llm_call.c.state == "sent").values(lease_until=past))
        LostCalls(self.world.database, self.world.settings).run_once()

    def check_ledger(self, execution: str, states: list[str], requests: int) -> None:
        rows = self.calls()
        assert [row["state"] for row in rows] == states
        assert len(self.server.asked) == requests
        tree = self.world.budgets.tree(execution)
        assert tree["usd_spent"] == sum(row["cost"] for row in rows) > 0
        assert (tree["usd_reserved"], tree["tokens_reserved"], tree["calls"]) == (0, 0, len(rows))
        found = verify(self.world.database, self.world.settings, only=["I21", "I22", "I23"], patience=0)
        assert [(one.code, one.examples) for one in found if one.count] == []


@pytest.fixture
def killed(database_url: str, tmp_path: Path) -> Iterator[Killed]:
    settings: dict[str, Any] = {"lease_seconds": 3, "heartbeat_seconds": 0.5, "poll_seconds": 0.05}
    with (
        model_server() as server,
        Roles(tmp_path, database_url=database_url, broker_url="none://", **settings) as roles,
    ):
        world = ModelsWorld(database_url, tmp_path / ".functory", server)
        yield Killed(roles, world, server)
        world.close()


@pytest.mark.parametrize("point", POINTS)
def test_a_gateway_is_killed(killed: Killed, tmp_path: Path, point: str) -> None:
    requests, states, attempts = POINTS[point]
    killed.roles.start("worker", "--slots", "2", wait=False)
    gateway = killed.start_gateway(point, tmp_path / "armed")
    if point != "after-send":
        killed.go.set()
    with killed.roles.client() as functory:
        functory.functions.save(ASKS, models=["small"], limits={"retries": 1, "retry_delay": 0})
        id_ = functory.submit("asks").id
        if point == "after-send":
            wait_for(lambda: killed.server.asked)
            gateway.kill()
            killed.go.set()
        else:
            assert gateway.wait() == STATUS
            (tmp_path / "armed").unlink()
        killed.let_leases_run_out()
        killed.roles.start("gateway")
        (row,) = functory.executions.wait([id_], 60)
        assert (row["state"], row["result"], row["attempt"]) == ("succeeded", ["ok", False], attempts)
    killed.check_ledger(id_, states, requests)


def test_a_worker_is_killed_while_the_model_thinks(killed: Killed) -> None:
    """The other attempt gets the answer that comes meanwhile."""
    killed.roles.start("gateway", wait=False)
    worker = killed.roles.start("worker", "--slots", "2")
    with killed.roles.client() as functory:
        functory.functions.save(ASKS, models=["small"])
        id_ = functory.submit("asks").id
        wait_for(lambda: killed.server.asked)
        worker.kill()
        killed.go.set()
        wait_for(lambda: killed.calls()[0]["state"] == "succeeded")
        wait_for(lambda: lost_workers.reap(killed.world.database, cancel_grace=30)["lost"])
        killed.roles.start("worker", "--slots", "2", wait=False)
        (row,) = functory.executions.wait([id_], 60)
        assert (row["state"], row["result"], row["attempt"]) == ("succeeded", ["ok", True], 2)
    killed.check_ledger(id_, ["succeeded"], 1)

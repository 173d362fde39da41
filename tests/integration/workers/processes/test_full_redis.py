"""A Redis without memory refuses every write: workers wait for it, and claim by polling meanwhile."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.services.redis import Redis
from tests.support.patience import patient
from tests.support.processes import Roles
from tests.support.waiting import wait_for

QUICK = {"claim_seconds": 0.5, "lease_seconds": 4.0, "heartbeat_seconds": 1.0, "redispatch_seconds": 3.0}


@pytest.mark.postgres
@pytest.mark.timeout(300)
def test_a_worker_outlives_a_redis_without_memory(
    tmp_path: Path, postgres_url: str, own_redis_server: Redis
) -> None:
    broker = own_redis_server.empty_database()
    with Roles(tmp_path, database_url=postgres_url, broker_url=broker, **QUICK) as roles:
        roles.migrate()
        for role, *arguments in (("router",), ("worker", "--slots", "2")):
            roles.start(role, *arguments, wait=False)
        for role in roles.started:
            role.wait_ready(120)
        worker = roles.started[1]
        with roles.client() as functory:
            functory.functions.save("def double(n: int) -> int:\n    return 2 * n\n")
            assert functory.call("double", 1) == 2
            with own_redis_server.full():
                handles = [functory.submit("double", n) for n in range(10)]
                assert functory.gather(handles, timeout=patient(60)) == [2 * n for n in range(10)]
                # A new worker declares its queue, which Redis refuses.
                late = roles.start("worker", "--slots", "2", wait=False)
                late.wait_for("OOM|maxmemory", 120)
                late.wait_ready(120)
                assert functory.call("double", 5) == 10
                assert late.process.poll() is None and worker.process.poll() is None
            assert functory.gather([functory.submit("double", n) for n in range(10)], timeout=patient(60))
            wait_for(lambda: not functory.lineage.open_work()["unpublished events"], "an empty outbox")
            assert late.process.poll() is None and worker.process.poll() is None
        assert [role.stop(60) for role in roles.started] == [0, 0, 0]

"""A message is acknowledged when it is taken: the broker gives it to no other worker while its execution runs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.support.processes import Roles
from tests.support.waiting import wait_for

LONG = "def wait() -> None:\n    import time\n    time.sleep(600)\n"


@pytest.mark.postgres
@pytest.mark.redis
@pytest.mark.timeout(300)
def test_the_broker_keeps_no_message_of_a_running_execution(
    tmp_path: Path, postgres_url: str, redis_server: Any, redis_url: str
) -> None:
    # No worker claims without a message here.
    with Roles(
        tmp_path, database_url=postgres_url, broker_url=redis_url, claim_seconds=600, redispatch_seconds=600
    ) as roles:
        roles.migrate()
        for role, *arguments in (("router",), ("worker", "--slots", "1")):
            roles.start(role, *arguments, wait=False)
        for role in roles.started:
            role.wait_ready(120)
        with roles.client() as functory:
            functory.functions.save(LONG)
            id_ = functory.submit("wait").id
            wait_for(lambda: functory.executions.get(id_)["state"] == "running", "a run", seconds=60)
            with redis_server.connect(int(redis_url.rpartition("/")[2])) as client:
                # kombu's bookkeeping of messages that were taken and not acknowledged.
                wait_for(lambda: client.hlen("unacked") == 0, "the acknowledgement")
                assert client.llen(f"{roles.settings.namespace}.executions") == 0
            # Its run has not ended meanwhile.
            row = functory.executions.get(id_)
            assert (row["state"], row["attempt"]) == ("running", 1)

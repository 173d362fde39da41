"""Servers that go away in the middle of the work and come back: nothing is lost, nothing is doubled."""

from __future__ import annotations

import contextlib
import threading
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from functory.client.functory import Functory
from tests.services.missing_servers import require
from tests.support.processes import Roles

COUNT = 12
WAIT = 90.0

SOURCE = "def work(n):\n    import time\n    time.sleep(0.2)\n    return n\n"


@contextlib.contextmanager
def deployment(folder: Path, postgres: Any, broker_url: str) -> Iterator[Functory]:
    """Router, scheduler and two workers that recover within seconds."""
    with (
        postgres.database() as database,
        Roles(
            folder,
            database_url=database,
            broker_url=broker_url,
            lease_seconds=4,
            heartbeat_seconds=1,
            redispatch_seconds=2,
        ) as roles,
    ):
        roles.migrate()
        for role, *arguments in (
            ("router",),
            ("scheduler",),
            ("worker", "--slots", "2"),
            ("worker", "--slots", "2"),
        ):
            roles.start(role, *arguments, wait=False)
        for role in roles.started:
            role.wait_ready()
        with roles.client() as client:
            client.functions.save(SOURCE)
            yield client


def begin(client: Functory) -> list[str]:
    """Start the work and return when some of it has ended and some has not."""
    handles = [client.submit("work", n) for n in range(COUNT)]
    client.executions.wait([handles[0].id], WAIT)
    return [handle.id for handle in handles]


def check(client: Functory, ids: list[str]) -> None:
    """Every execution succeeded, with one terminal event and one attempt that counts."""
    rows = patient(lambda: client.executions.wait(ids, WAIT))
    assert [(row["state"], row["result"]) for row in rows] == [("succeeded", n) for n in range(COUNT)]
    patient(lambda: client.settle(WAIT))
    reported = Counter(
        event["cause_execution_id"] for event in client.events.list(type_="execution.succeeded", limit=1000)
    )
    assert {id_: reported[id_] for id_ in ids} == dict.fromkeys(ids, 1)
    for row in rows:
        outcomes = [attempt["outcome"] for attempt in client.executions.attempts(row["id"])]
        assert outcomes.count("succeeded") == 1
        assert set(outcomes) <= {"succeeded", "lost", "released"}


def patient(work: Any) -> Any:
    """A client's call that may meet the outage itself."""
    from functory.engine.errors import Unavailable

    pause = threading.Event()
    for _ in range(60):
        try:
            return work()
        except Unavailable:
            pause.wait(0.5)
    return work()


@pytest.mark.postgres
@pytest.mark.redis
def test_redis_dies_and_comes_back_empty(tmp_path: Path, postgres_server: Any) -> None:
    from tests.services.redis import Redis

    with (
        Redis(require("redis").programs) as redis,
        deployment(tmp_path, postgres_server, redis.url) as client,
    ):
        ids = begin(client)
        redis.kill()
        later = client.submit("work", 99).id
        redis.start()
        check(client, ids)
        assert client.executions.wait([later], WAIT)[0]["result"] == 99


@pytest.mark.postgres
@pytest.mark.rabbitmq
def test_rabbitmq_is_killed_and_restarted(tmp_path: Path, postgres_server: Any) -> None:
    from tests.services.rabbitmq import RabbitMQ

    with (
        RabbitMQ(require("rabbitmq").programs) as rabbit,
        deployment(tmp_path, postgres_server, rabbit.url) as client,
    ):
        ids = begin(client)
        rabbit.kill()
        later = client.submit("work", 99).id
        rabbit.start()
        check(client, ids)
        assert client.executions.wait([later], WAIT)[0]["result"] == 99


@pytest.mark.postgres
@pytest.mark.redis
def test_postgres_is_killed_and_restarted(tmp_path: Path, redis_url: str) -> None:
    from tests.services.postgres import Postgres

    with (
        Postgres(require("postgres").programs) as postgres,
        deployment(tmp_path, postgres, redis_url) as client,
    ):
        ids = begin(client)
        postgres.kill()
        threading.Event().wait(1.5)
        postgres.start()
        check(client, ids)

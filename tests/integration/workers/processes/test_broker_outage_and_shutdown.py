"""Workers without messages: no broker, one that is away, one whose messages do not come; and every way to end."""

from __future__ import annotations

import re
import signal
import sys
import textwrap
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
import pytest

from functory.client.functory import Functory
from functory.engine.executions import worker_registry
from tests.services.port import free_port
from tests.services.tcp_proxy import Door
from tests.support.patience import patient
from tests.support.processes import SCRIPTS, Role, Roles
from tests.support.waiting import wait_for

# Each starts a deployment and lets it come to harm.
pytestmark = pytest.mark.timeout(300)

QUICK = {"claim_seconds": 0.5, "lease_seconds": 4.0, "heartbeat_seconds": 1.0, "redispatch_seconds": 3.0}

ADD = "def add(a: int, b: int) -> int:\n    return a + b\n"
# Ends at its second try only: the first one is there to be interrupted.
STUBBORN = """
def stubborn(key: str) -> str:
    import time
    from functory import state
    if state.get(key) is None:
        state.set(key, "begun")
        time.sleep(60)
    return "done"
"""


def counted(role: Role, name: str) -> float:
    """A metric of a role without labels."""
    with urllib.request.urlopen(role.metrics, timeout=patient(10)) as answer:
        found = re.search(rf"^{name} (\S+)$", answer.read().decode(), re.MULTILINE)
    assert found, name
    return float(found[1])


def begin(functory: Functory) -> str:
    """Start the stubborn function and wait until its first try has begun."""
    key = f"try-{time.monotonic_ns()}"
    handle = functory.submit("stubborn", key)
    wait_for(lambda: functory.state.get("stubborn", key) is not None, "the first try")
    return handle.id


def outcomes(functory: Functory, id_: str) -> list[tuple[int, str | None]]:
    return [(row["number"], row["outcome"]) for row in functory.executions.attempts(id_)]


@contextmanager
def no_orphans(*roles: Role) -> Iterator[None]:
    """Nothing that these processes have started is left when they have ended."""
    family = [child for role in roles for child in psutil.Process(role.pid).children(recursive=True)]
    yield
    _, alive = psutil.wait_procs(family, timeout=patient(5))
    assert not [child for child in alive if child.status() != psutil.STATUS_ZOMBIE]


@pytest.mark.parametrize("database", ["sqlite", pytest.param("postgresql", marks=pytest.mark.postgres)])
def test_a_deployment_without_any_broker(
    tmp_path: Path, database: str, request: pytest.FixtureRequest
) -> None:
    url = f"sqlite:///{tmp_path}/rows.db" if database == "sqlite" else request.getfixturevalue("postgres_url")
    with Roles(tmp_path, database_url=url, broker_url="none://", **QUICK) as roles:
        roles.migrate()
        for role in ("router", "scheduler", "worker", "worker"):
            roles.start(role, *(["--slots", "2"] if role == "worker" else []), wait=False)
        for role in roles.started:
            role.wait_ready()
        with roles.client() as functory:
            functory.functions.save(ADD)
            functory.functions.save(STUBBORN)
            functory.register_trigger(
                "sum", on={"type": ["order.placed"]}, function="add", input={"a": 1, "b": 2}
            )
            functory.emit("order.placed", {})
            assert functory.gather(
                [functory.submit("add", n, n) for n in range(20)], timeout=patient(60)
            ) == [2 * n for n in range(20)]
            wait_for(
                lambda: functory.executions.list(function="add", state="succeeded", limit=100)[20:],
                "the triggered one",
            )
            wait_for(lambda: not functory.lineage.open_work()["unpublished events"], "an empty outbox")
            id_ = begin(functory)
            (mine,) = [
                role
                for role in roles.started
                if functory.executions.get(id_)["worker_id"].split(":")[1] == str(role.pid)
            ]
            with no_orphans(mine):
                mine.signal(signal.SIGTERM)
                mine.wait_for("stopping")
                mine.signal(signal.SIGTERM)
                assert mine.wait() == 128 + signal.SIGTERM
            assert functory.executions.wait([id_], 30)[0]["state"] == "succeeded"
            assert outcomes(functory, id_) == [(1, "released"), (1, "succeeded")]
        left = [role for role in roles.started if role is not mine]
        with no_orphans(*left):
            assert [role.stop() for role in left] == [0, 0, 0]


def test_without_a_broker_a_pool_of_processes_is_refused(tmp_path: Path) -> None:
    with Roles(tmp_path, broker_url="none://") as roles:
        refused = roles.start("worker", "--migrate", "--pool", "prefork", wait=False)
        assert refused.wait() == 2
        assert "functory worker --slots" in refused.output


@pytest.mark.parametrize("pool", ["threads", "prefork", "solo"])
def test_workers_start_and_work_while_the_broker_is_away_and_go_back(
    tmp_path: Path, redis_url: str, pool: str
) -> None:
    with (
        Door(redis_url) as broker,
        Roles(
            tmp_path,
            database_url=f"sqlite:///{tmp_path}/rows.db",
            broker_url=broker.url,
            metrics_port=0,
            **QUICK,
        ) as roles,
    ):
        roles.migrate()
        worker = roles.start("worker", "--pool", pool, "--slots", "2")
        roles.start("router").wait_for("broker unavailable")
        with roles.client() as functory:
            functory.functions.save(ADD)
            assert functory.gather([functory.submit("add", n, 1) for n in range(4)], timeout=patient(60)) == [
                1,
                2,
                3,
                4,
            ]
            worker.wait_for("polling instead")
            if pool == "threads":
                broker.open()
                # Celery tries again after two seconds, then four, …
                deadline = time.monotonic() + patient(90)
                while not any("broker messages resumed" in line for line in worker.lines):
                    assert time.monotonic() < deadline, worker.output
                    assert functory.submit("add", 1, 1).result(patient(30)) == 2
                assert counted(worker, "functory_degraded_claims_total") >= 4
                broker.close()
            assert functory.submit("add", 2, 2).result(patient(30)) == 4
            began = time.monotonic()
            with no_orphans(worker):
                assert worker.stop() == 0
            assert time.monotonic() - began < patient(30), "Celery waits for the broker; an end does not"


def test_without_messages_every_free_slot_is_used(tmp_path: Path, redis_url: str) -> None:
    """What waits has waited long enough together: a slot that is free again takes the next at once."""
    unhurried = QUICK | {"claim_seconds": 8.0}
    with (
        Door(redis_url) as broker,
        Roles(
            tmp_path, database_url=f"sqlite:///{tmp_path}/rows.db", broker_url=broker.url, **unhurried
        ) as roles,
    ):
        roles.migrate()
        roles.start("worker", "--slots", "2")
        with roles.client() as functory:
            functory.functions.save(ADD)
            # Two by two, with eight seconds in between, it would be nine minutes.
            calls = [functory.submit("add", n, 1) for n in range(120)]
            assert functory.gather(calls, timeout=patient(120)) == [n + 1 for n in range(120)]


def test_an_idle_worker_of_a_healthy_deployment_claims_nothing_by_itself(
    tmp_path: Path, redis_url: str
) -> None:
    with Roles(
        tmp_path, database_url=f"sqlite:///{tmp_path}/rows.db", broker_url=redis_url, metrics_port=0
    ) as roles:
        roles.migrate()
        worker = roles.start("worker", "--slots", "2")
        roles.start("router")
        with roles.client() as functory:
            functory.functions.save(ADD)
            for n in range(5):
                assert functory.submit("add", n, 1).result(patient(30)) == n + 1
        assert counted(worker, "functory_degraded_claims_total") == 0
        assert time.time() - counted(worker, "functory_worker_last_intake_timestamp_seconds") < patient(10)
        assert "polling" not in worker.output


DEAF = """
from celery.worker.consumer import Consumer

# As after a reconnect that went wrong: connected, and no consumer on the broker's side.
ready = Consumer.on_ready

def deaf(self):
    ready(self)
    self.task_consumer.cancel()

Consumer.on_ready = deaf

from functory.cli.main import main

import sys

sys.exit(main())
"""


@pytest.mark.parametrize("broker", ["redis", "rabbitmq"])
def test_a_worker_that_gets_no_messages_ends_to_be_started_again(
    tmp_path: Path, broker: str, request: pytest.FixtureRequest
) -> None:
    script = tmp_path / "deaf.py"
    script.write_text(textwrap.dedent(DEAF))
    with Roles(
        tmp_path,
        database_url=f"sqlite:///{tmp_path}/rows.db",
        broker_url=request.getfixturevalue(f"{broker}_url"),
        stall_seconds=3,
        **QUICK,
    ) as roles:
        roles.migrate()
        worker = roles.spawn(
            [sys.executable, str(script), "worker", "--slots", "2"], name="worker", wait=True
        )
        roles.start("router")
        with roles.client() as functory:
            functory.functions.save(ADD)
            deadline = time.monotonic() + patient(60)
            while worker.process.poll() is None:
                assert time.monotonic() < deadline, worker.output
                handle = functory.submit("add", 1, 1)
                wait_for(
                    lambda handle=handle: (
                        functory.executions.get(handle.id)["state"] == "succeeded"
                        or worker.process.poll() is not None
                    ),
                    "the execution",
                )
            assert worker.wait() == 75
            assert "no messages although the broker answers" in worker.output
            roles.start("worker", "--slots", "2")
            assert functory.submit("add", 2, 2).result(patient(30)) == 4
            assert functory.settle(30) is None
            assert not functory.executions.list(state="running")


@pytest.mark.parametrize("pool", ["threads", "prefork", "solo"])
def test_the_second_signal_ends_a_worker_at_once_and_loses_nothing(
    tmp_path: Path, redis_url: str, pool: str
) -> None:
    with Roles(
        tmp_path,
        database_url=f"sqlite:///{tmp_path}/rows.db",
        broker_url=redis_url,
        grace_seconds=600,
        **QUICK,
    ) as roles:
        roles.migrate()
        worker = roles.start("worker", "--pool", pool, "--slots", "2")
        roles.start("router", wait=False)
        roles.start("scheduler", wait=False)
        with roles.client() as functory:
            functory.functions.save(STUBBORN)
            id_ = begin(functory)
            expected = {"threads": [2], "prefork": [1, 1], "solo": [1]}[pool]
            # Each process of a pool registers by itself, the last one perhaps after the first execution.
            wait_for(
                lambda: [row["slots"] for row in worker_registry.alive(functory.database, 60)] == expected,
                "the slots",
            )
            with no_orphans(worker):
                worker.signal(signal.SIGTERM)
                worker.wait_for("stopping")
                assert functory.executions.get(id_)["state"] == "running"
                began = time.monotonic()
                worker.signal(signal.SIGTERM)
                assert worker.wait() == 128 + signal.SIGTERM
                assert time.monotonic() - began < patient(10)
            assert outcomes(functory, id_) == [(1, "released")]
            assert functory.executions.get(id_)["attempt"] == 0
            roles.start("worker", "--slots", "2")
            assert functory.executions.wait([id_], 30)[0]["result"] == "done"


@pytest.mark.parametrize("role", ["router", "scheduler", "watcher", "server", "worker"])
def test_every_role_ends_softly_while_the_broker_is_away(tmp_path: Path, role: str) -> None:
    """Also starts each role by its console script, which other tests do not."""
    with Roles(
        tmp_path,
        database_url=f"sqlite:///{tmp_path}/rows.db",
        broker_url=f"amqp://guest@127.0.0.1:{free_port()}//",
        port=0,
        grace_seconds=5,
    ) as roles:
        process = roles.start(role, "--migrate", by_exec=True)
        began = time.monotonic()
        with no_orphans(process):
            assert process.stop() == 0
        assert time.monotonic() - began < patient(30)


@pytest.mark.parametrize("role", ["router", "scheduler", "watcher", "server", "worker"])
def test_every_role_ends_while_its_database_is_away(tmp_path: Path, postgres_url: str, role: str) -> None:
    with Roles(tmp_path, database_url=postgres_url) as migrated:
        migrated.migrate()
    with (
        Door(postgres_url) as database,
        Roles(tmp_path, database_url=database.url, broker_url="none://", port=0, grace_seconds=5) as roles,
    ):
        database.open()
        process = roles.start(role)
        database.close()
        began = time.monotonic()
        with no_orphans(process):
            assert process.stop() in (0, 1), "1 says that not all was done in time"
        assert time.monotonic() - began < patient(40)


@pytest.mark.parametrize("role", ["router", "scheduler", "watcher", "server", "dev"])
def test_the_second_signal_ends_every_role_at_once(tmp_path: Path, role: str, redis_url: str) -> None:
    settings = (
        {} if role == "dev" else {"database_url": f"sqlite:///{tmp_path}/rows.db", "broker_url": redis_url}
    )
    with Roles(tmp_path, **settings) as roles:
        arguments = ["--port", "0"] if role in ("dev", "server") else []
        process = roles.start(role, *arguments, *([] if role == "dev" else ["--migrate"]))
        with no_orphans(process):
            process.signal(signal.SIGSTOP)
            process.signal(signal.SIGTERM)
            process.signal(signal.SIGINT)
            process.signal(signal.SIGCONT)
            assert process.wait() in (128 + signal.SIGTERM, 128 + signal.SIGINT)


def test_celerys_own_command_works_while_the_broker_is_away(tmp_path: Path) -> None:
    away = f"redis://127.0.0.1:{free_port()}/0"
    with Roles(
        tmp_path, database_url=f"sqlite:///{tmp_path}/rows.db", broker_url=away, grace_seconds=5, **QUICK
    ) as roles:
        roles.migrate()
        worker = roles.spawn(
            [str(SCRIPTS / "celery"), "-A", "functory.workers.app", "worker", "-c", "2"], name="celery"
        )
        with roles.client() as functory:
            functory.functions.save(ADD)
            assert functory.submit("add", 1, 2).result(patient(60)) == 3
        assert worker.stop() == 0

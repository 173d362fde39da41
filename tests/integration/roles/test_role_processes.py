"""Role processes: what they refuse, what they wait for, and what becomes of work when one ends."""

from __future__ import annotations

import json
import re
import signal
import socket
import sys
import textwrap
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

import pytest
import redis

from tests.services.port import free_port
from tests.services.tcp_proxy import Door
from tests.support.patience import patient
from tests.support.processes import SCRIPTS, Roles
from tests.support.queue_places import place_of
from tests.support.waiting import wait_for

# Ends at its second try only: the first one is there to be interrupted.
STUBBORN = """
def stubborn(key: str) -> str:
    import time
    from functory import state
    if state.get(key) is None:
        state.set(key, "begun")
        time.sleep(25)
    return "done"
"""

QUICK_LEASE = {"lease_seconds": 2.0, "heartbeat_seconds": 0.5}


def get(url: str) -> tuple[int, Any]:
    try:
        with urllib.request.urlopen(url, timeout=patient(10)) as answer:
            return answer.status, json.load(answer)
    except urllib.error.HTTPError as error:
        return error.code, json.load(error)


def attempts(functory: Any, id_: str) -> list[tuple[int, str]]:
    return [(row["number"], row["outcome"]) for row in functory.executions.attempts(id_)]


def test_a_single_role_refuses_the_broker_in_memory(tmp_path: Path) -> None:
    with Roles(tmp_path) as roles:
        for process in [roles.start(role, wait=False) for role in ("router", "worker")]:
            assert process.wait() == 2
            assert "error: " in process.output and "functory dev" in process.output


def test_a_role_refuses_a_database_without_the_schema_and_migrates_when_asked(
    tmp_path: Path, redis_url: str
) -> None:
    with Roles(tmp_path, database_url=f"sqlite:///{tmp_path}/rows.db", broker_url=redis_url) as roles:
        refused = roles.start("scheduler", wait=False, by_exec=True)
        assert refused.wait() == 5
        assert "functory db upgrade" in refused.output
        assert roles.start("scheduler", "--migrate").stop() == 0


def test_roles_wait_for_a_database_and_a_broker_that_are_away(
    tmp_path: Path, postgres_url: str, rabbitmq_url: str
) -> None:
    with Roles(tmp_path, database_url=postgres_url) as migrated:
        migrated.migrate()
    with (
        Door(postgres_url) as database,
        Door(rabbitmq_url) as broker,
        Roles(tmp_path, database_url=database.url, broker_url=broker.url, port=free_port()) as roles,
    ):
        server, router = (roles.start(role, wait=False) for role in ("server", "router"))
        for role in (server, router):
            role.wait_for("database unavailable")
        url = f"http://127.0.0.1:{roles.settings.port}"
        assert get(f"{url}/healthz") == (200, {"status": "alive"})
        status, answer = get(f"{url}/readyz")
        assert (status, answer["ready"], answer["checks"]["database"]["ok"]) == (503, False, False)

        impatient = roles.start("scheduler", wait=False)
        impatient.wait_for("database unavailable")
        assert impatient.stop() == 0

        roles_before = [role.pid for role in (server, router)]
        database.open()
        server.wait_for("broker unavailable")
        # What it has heard of the database is a second old at the most.
        wait_for(lambda: get(f"{url}/readyz")[0] == 200, "readiness without the broker")
        answer = get(f"{url}/readyz")[1]
        assert (answer["degraded"], answer["checks"]["broker"]["ok"]) == (["broker"], False)
        # As it says: who delivers is not sent away.
        event = {"ce-id": "1", "ce-source": "/x", "ce-type": "a.b", "ce-specversion": "1.0"}
        with urllib.request.urlopen(
            urllib.request.Request(f"{url}/events", headers=event, method="POST"), timeout=patient(10)
        ) as taken:
            assert taken.status == 202

        broker.open()
        router.wait_ready()
        server.wait_ready()
        wait_for(lambda: get(f"{url}/readyz")[1]["degraded"] == [], "the broker is there")
        assert [role.pid for role in (server, router)] == roles_before
        assert server.stop() == 0
        assert router.stop() == 0


def test_no_password_is_ever_printed(tmp_path: Path) -> None:
    password = "gu3st-Pa55"
    away = {
        "database_url": f"postgresql://ada:{password}@127.0.0.1:{free_port()}/rows",
        "broker_url": f"amqp://ada:{password}@127.0.0.1:{free_port()}//",
        "log_level": "debug",
    }
    with Roles(tmp_path, **away) as roles:
        here = f"sqlite:///{tmp_path}/rows.db"
        waiting = [
            (roles.start("router", wait=False), "database unavailable"),
            (roles.start("worker", "--migrate", wait=False, database_url=here), "Cannot connect"),
            (
                roles.spawn([str(SCRIPTS / "celery"), "-A", "functory.workers.app", "worker"], name="celery"),
                "Cannot connect",
            ),
        ]
        for role, line in waiting:
            role.wait_for(line)
            assert role.stop() == 0
            assert password not in role.output, role.output


def test_logs_are_objects_when_asked_for(tmp_path: Path, redis_url: str) -> None:
    with Roles(
        tmp_path, database_url=f"sqlite:///{tmp_path}/rows.db", broker_url=redis_url, log_json=True
    ) as roles:
        worker = roles.start("worker", "--migrate")
        assert worker.ready["role"] == "worker"
        assert worker.stop() == 0
        lines = [json.loads(line) for line in worker.lines]
        assert {"ready", "worker stopping"} <= {line["event"] for line in lines}
        assert any(line.get("logger", "").startswith("celery.") for line in lines)


@pytest.mark.parametrize("broker", ["redis", "rabbitmq"])
def test_a_worker_that_is_stopped_or_killed_loses_nothing(
    tmp_path: Path, postgres_url: str, broker: str, request: pytest.FixtureRequest
) -> None:
    broker_url = request.getfixturevalue(f"{broker}_url")
    with Roles(
        tmp_path, database_url=postgres_url, broker_url=broker_url, grace_seconds=0.3, **QUICK_LEASE
    ) as roles:
        roles.migrate()
        first = roles.start("worker", "--slots", "2", wait=False)
        roles.start("router", wait=False)
        roles.start("scheduler", wait=False)
        with roles.client() as functory:
            functory.functions.save(STUBBORN)

            stopped = functory.submit("stubborn", _key())
            _begin(functory, stopped.id)
            second = roles.start("worker", "--slots", "2", wait=False)
            first.wait_ready()
            assert first.stop() == 0
            assert stopped.result(patient(30)) == "done"
            # Giving back is no attempt: number 1 twice.
            assert attempts(functory, stopped.id) == [(1, "released"), (1, "succeeded")]
            assert functory.executions.get(stopped.id)["attempt"] == 1

            second.wait_ready()
            killed = functory.submit("stubborn", _key())
            _begin(functory, killed.id)
            second.kill()
            third = roles.start("worker", "--slots", "2")
            assert killed.result(patient(30)) == "done"
            assert attempts(functory, killed.id) == [(1, "lost"), (2, "succeeded")]
            assert third.stop() == 0
        assert all(
            role.process.poll() is None for role in roles.started if role.name in ("router", "scheduler")
        )


def test_one_process_runs_router_and_scheduler(tmp_path: Path, postgres_url: str, redis_url: str) -> None:
    with Roles(tmp_path, database_url=postgres_url, broker_url=redis_url) as roles:
        roles.migrate()
        both = roles.start("router", "--scheduler", metrics_port=0, wait=False)
        roles.start("worker", wait=False)
        with roles.client() as functory:
            functory.functions.save("def add(a: int = 1, b: int = 1) -> int:\n    return a + b\n")
            functory.register_trigger("t", on={"type": ["order.placed"]}, function="add", input={"a": 2})
            functory.schedules.save("often", function="add", input={"a": 3}, every="1s")
            functory.emit("order.placed")
            # The router has started one of them, and the scheduler the other one.
            wait_for(
                lambda: {row["result"] for row in functory.executions.list(payloads=True)} >= {3, 4},
                seconds=60,
            )
        both.wait_ready()
        url = re.search(r"metrics=(\S+)", both.output)
        assert url is not None
        text = urllib.request.urlopen(url.group(1)).read().decode()
        assert "functory_router_lag" in text and "functory_outbox_pending" in text
        assert both.stop() == 0


def test_celerys_own_command_starts_the_same_worker(tmp_path: Path, redis_url: str) -> None:
    with Roles(tmp_path, database_url=f"sqlite:///{tmp_path}/rows.db", broker_url=redis_url) as roles:
        roles.migrate()
        worker = roles.spawn(
            [str(SCRIPTS / "celery"), "-A", "functory.workers.app", "worker", "-c", "3"], name="celery"
        )
        roles.start("router", wait=False)
        with roles.client() as functory:
            functory.functions.save("def add(a: int, b: int) -> int:\n    return a + b\n")
            assert functory.submit("add", 1, 2).result(patient(30)) == 3
            assert [row["slots"] for row in _workers(functory)] == [3]
        assert worker.stop() == 0
        assert "superuser" not in worker.output
        assert "[tasks]" not in worker.output
        assert "ready" in worker.output


@pytest.mark.parametrize(
    "command",
    [["functory", "worker"], ["celery", "-A", "functory.workers.app", "worker"]],
    ids=["ours", "celerys"],
)
def test_a_worker_sends_none_of_celerys_events(tmp_path: Path, redis_url: str, command: list[str]) -> None:
    # Celery tries to send each of its heartbeats for ever, and hears no signal meanwhile: a broker that went away kept
    # a worker from ending.
    with (
        Roles(tmp_path, database_url=f"sqlite:///{tmp_path}/rows.db", broker_url=redis_url) as roles,
        redis.Redis.from_url(redis_url) as client,
        client.pubsub() as heard,
    ):
        roles.migrate()
        heard.psubscribe("*celeryev*")
        assert heard.get_message(timeout=patient(10))["type"] == "psubscribe"
        worker = roles.spawn([str(SCRIPTS / command[0]), *command[1:]], name="worker")
        # Beside the first one, which says that it is there, it would say when it ends.
        worker.wait_for("ready", timeout=30)
        assert worker.stop() == 0
        assert heard.get_message(timeout=0.5) is None


def test_dev_runs_what_another_process_wrote(tmp_path: Path) -> None:
    """A script that only writes rows (its ``Functory`` is never started) is heard by the running engine."""
    script = tmp_path / "other.py"
    script.write_text(
        textwrap.dedent("""
        from functory import Functory

        functory = Functory()
        functory.functions.save("def greet(name: str) -> str:\\n    return 'hello ' + name\\n")
        functory.register_trigger("greet-guests", on={"type": ["guest.came"]}, function="greet",
                                  input={"name": "{{ event.data.name }}"})
        print("EMITTED", functory.events.emit("guest.came", {"name": "Ada"}), flush=True)
    """)
    )
    with Roles(tmp_path) as roles:
        dev = roles.start("dev", "--port", "0", by_exec=True)
        other = roles.spawn([sys.executable, str(script)], name="script")
        other.wait_for("EMITTED")
        written = time.monotonic()
        dev.wait_for(r"execution\.succeeded +greet v1")
        print(f"shown {(time.monotonic() - written) * 1000:.0f} ms after the event was written")
        assert other.wait() == 0
        dev.wait_for(r"function\.created +greet v1")
        assert dev.stop() == 0
        with roles.client() as functory:
            (row,) = functory.executions.list(payloads=True)
            assert (row["function"], row["result"], row["cause"]) == ("greet", "hello Ada", "trigger")


def test_a_script_that_ends_in_the_middle_of_an_execution_gives_it_back(tmp_path: Path) -> None:
    script = tmp_path / "short.py"
    script.write_text(
        textwrap.dedent("""
        import time
        from functory import engine_of_process, register_function, submit

        @register_function
        def long() -> None:
            import time
            time.sleep(60)

        handle = submit("long")
        while engine_of_process().executions.get(handle.id)["state"] != "running":
            time.sleep(0.01)
        print("RUNNING", handle.id, flush=True)
    """)
    )
    with Roles(tmp_path) as roles:
        process = roles.spawn([sys.executable, str(script)], name="script")
        assert process.wait() == 0
        assert "Traceback" not in process.output and "Exception" not in process.output
        with roles.client() as functory:
            (row,) = functory.executions.list()
            assert (row["state"], row["attempt"]) == ("queued", 0)
            assert place_of(functory.database, row["id"])["queue"] == "backlog"
            assert attempts(functory, row["id"]) == [(1, "released")]


def test_dev_says_loudly_and_once_that_the_sandbox_was_turned_off(tmp_path: Path) -> None:
    with Roles(tmp_path, unsafe_no_sandbox="i-understand") as roles:
        dev = roles.start("dev", "--port", "0")
        assert dev.output.count("ISOLATION IS OFF") == 1
        assert "sandbox: OFF" in dev.output
        with roles.client() as functory:
            functory.functions.save("def home() -> int:\n    import os\n    return os.getppid()\n")
            assert functory.call("home") > 1
        part = get(f"{dev.url}/readyz")[1]["checks"]["sandbox"]
        assert part["ok"] is True and part["workers"] == {"none": 1} and "without a sandbox" in part["why"]


def test_dev_says_what_it_is_and_shows_failures_and_guards(tmp_path: Path) -> None:
    with Roles(tmp_path) as roles:
        dev = roles.start("dev", "--port", "0")
        assert "NOT FOR PRODUCTION" in dev.output
        assert re.search(r"sandbox: tier [ABC]\n", dev.output)
        assert get(f"{dev.url}/readyz")[1]["checks"]["loops"] == {"ok": True}
        with roles.client() as functory:
            functory.functions.save("def broken() -> None:\n    raise ValueError('\\x1b[2J no luck')\n")
            # A failure that causes the next one: the guard stops it.
            functory.register_trigger(
                "again", on={"type": ["execution.failed"], "subject": ["broken"]}, function="broken", input={}
            )
            functory.executions.start("broken", {})
        failed = dev.wait_for(r"✗ execution\.failed +broken v1")
        assert "ValueError" in failed and "\x1b" not in failed
        dev.wait_for(r"■ trigger\.suppressed +again")
        dev.signal(signal.SIGINT)
        assert dev.wait() == 0
        assert "Traceback" not in dev.output


def test_dev_resets_only_with_an_agreement(tmp_path: Path) -> None:
    with Roles(tmp_path) as roles:
        with roles.client() as functory:
            functory.functions.save("def kept() -> int:\n    return 1\n")
        refused = roles.start("dev", "--reset", "--port", "0", wait=False)
        assert refused.wait() == 2
        assert "--yes" in refused.output
        with roles.client() as functory:
            assert [row["name"] for row in functory.functions.list()] == ["kept"]
        assert roles.start("dev", "--reset", "--yes", "--port", "0", "--quiet").stop() == 0
        with roles.client() as functory:
            assert functory.functions.list() == []


def test_a_port_that_is_taken_is_said(tmp_path: Path) -> None:
    with Roles(tmp_path) as roles, socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        dev = roles.start("dev", "--port", str(port), wait=False)
        assert dev.wait() == 5
        assert f"port {port}" in dev.output


def _key() -> str:
    return f"try-{time.monotonic_ns()}"


def _begin(functory: Any, id_: str) -> None:
    key = functory.executions.get(id_)["input"]["key"]
    wait_for(lambda: functory.state.get("stubborn", key) is not None, "the first try")


def _workers(functory: Any) -> list[dict[str, Any]]:
    from functory.engine.executions import worker_registry

    return worker_registry.alive(functory.database, 60)
